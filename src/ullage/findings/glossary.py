"""What the figures mean, for `ullage explain`. Names are the engine's own."""

from __future__ import annotations

GLOSSARY = {
    "admits": (
        "Requests that the scheduler lets in at once. On an aggregated SGLang server a range: future output of running"
        " requests is reserved by a ratio that falls from 0.7 to 0.098 (times --schedule-conservativeness) and jumps up"
        " at a retraction."
    ),
    "safe": "Requests that can all finish at their full length with no retraction. Never more than are admitted.",
    "binds": "The pool that gives the least, and so the limit.",
    "in_prefill": (
        "Requests that are in prefill and transfer at once. It bounds the rate of a prefill/decode deployment, not the"
        " requests in flight."
    ),
    "longest_request": (
        "The longest prompt one request may bring: the least of the context length, the pool, and (prefill servers of"
        " window models) the window pool."
    ),
    "total_context_tokens": "Tokens that all requests together can hold: the KV pool over all data-parallel ranks.",
    "max_total_num_tokens": (
        "The KV pool in tokens, of one data-parallel rank. Tensor-parallel ranks of one group all have the same."
    ),
    "swa_max_total_num_tokens": (
        "The pool of sliding-window layers, in tokens. Each request keeps at most window + page of it, but some builds"
        " cap a prompt at it on prefill."
    ),
    "max_running_requests": (
        "Requests that decode together, per data-parallel rank. Lowered by the engine to half the pool's tokens and to"
        " what recurrent-state slots allow."
    ),
    "context_len": "Tokens one request may have in all, prompt and output. Says nothing about how many fit.",
    "max_req_input_len": "The longest prompt the server takes: a few tokens below the lesser of context and pool.",
    "chunked_prefill_size": "Prompt tokens that are prefilled in one piece.",
    "max_prefill_tokens": "Prompt tokens that one scheduling pass takes over all requests.",
    "page_size": "Tokens in a page: what a request holds is rounded up to it.",
    "token_usage": "Share of the pool in use by requests. Evictable prefix cache is left out: it is free for new work.",
    "kv_evictable_tokens": "Tokens of ended requests kept for reuse. They give way at once.",
    "new_token_ratio": (
        "Share of the possible output that the scheduler keeps room for. Falls as batches run, jumps up at a"
        " retraction."
    ),
    "num_reserved_decode_tokens": (
        "Tokens a decode server keeps back per active request. Output beyond it is not reserved."
    ),
    "bytes_per_full_token": (
        "What a token of the pool is charged. For DeepSeek-V4 it includes window and compressor-state pools, which buy"
        " no context."
    ),
    "mem_fraction_static": (
        "Share of the memory that was free before weights were loaded, for weights and pools together. The rest is for"
        " graphs and activations."
    ),
    "max_concurrent_requests": (
        "sglang-router's limit: a token bucket that refills, not a cap on parallel requests. -1: none."
    ),
}
