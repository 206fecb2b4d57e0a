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
    "KV pool": (
        "The memory that holds the keys and values of running requests, counted in tokens "
        "(max_total_num_tokens). Each data-parallel rank has one."
    ),
    "window pool": (
        "The pool of sliding-window layers. A request keeps the last window of its tokens in it, in whole pages."
    ),
    "request slots": (
        "Requests that may run at once (max_running_requests); a decode server adds its extra slots for "
        "requests in transfer."
    ),
    "state slots": (
        "Slots for the recurrent states of Mamba, GDN and KDA layers. A request takes one without prefix "
        "cache, three with it, more in the extra-buffer modes."
    ),
    "room": (
        "What new requests could be given of a pool now: its size less use, and less what is kept back. Evictable "
        "cache counts as room."
    ),
    "reserved": (
        "What a pool keeps back from newcomers. An SGLang decode server keeps --num-reserved-decode-tokens (512) for "
        "each request that runs or is in transfer."
    ),
    "kv_pool_usage": ("Tokens in use by requests over all data-parallel ranks, as a share of the pool."),
    "num_used_tokens": ("Tokens that requests hold now. Evictable cache is left out."),
    "num_running_reqs": ("Requests in the running batch."),
    "num_queue_reqs": (
        "Requests that wait in the server's queue. On a decode server /v1/loads counts prealloc, transfer and "
        "retracted here."
    ),
    "num_decode_prealloc_queue_reqs": (
        "Requests for which decode has not pre-allocated KV yet. It grows when decode's pool or slots are short."
    ),
    "num_decode_transfer_queue_reqs": (
        "Requests whose KV is on its way from prefill. A few are work under way; many are a slow transfer."
    ),
    "num_prefill_bootstrap_queue_reqs": (
        "Requests that prefill may not start before decode has pre-allocated. Mirrors decode's prealloc queue."
    ),
    "num_prefill_inflight_queue_reqs": ("Requests that prefill has computed and holds until their transfer has ended."),
    "num_retracted_requests_total": ("Requests thrown back because the pool was full. Their work is done twice."),
    "pending_prealloc_token_usage": ("Share of decode's pool that is pre-allocated for requests that do not run yet."),
    "default_output_tokens": (
        "What a request may generate when its client names no limit: a number, or unbounded, which is to the "
        "end of the context."
    ),
    "retry_max_retries": (
        "How often sglang-router tries a failed request. Each try in prefill/decode mode runs prefill again."
    ),
    "version": (
        "The engine's version as /server_info states it. Development builds state no release, and then rules "
        "that depend on it are shown both ways."
    ),
    "host": ("The address the server listens on; 0.0.0.0 is all of them."),
    "schedule_conservativeness": (
        "Scales the share of output that an aggregated server keeps back for running requests."
    ),
    "swa_full_tokens_ratio": ("How large the window pool is, as a share of the KV pool."),
    "context_bytes_per_token": (
        "What one more token of context costs a DeepSeek-V4 model: compressed KV and index keys, without "
        "window and state pools."
    ),
    "n_ctx": (
        "llama.cpp: cells of the KV cache over all slots (-c), rounded up to 256, and each share again where the "
        "slots do not share one pool."
    ),
    "n_slots": "llama.cpp: requests that are processed at once (-np). Without -np four, on one unified pool.",
    "n_ctx_slot": (
        "llama.cpp: tokens that one request may have in all. A prompt of as many or more is refused with 400; output "
        "stops there."
    ),
    "kv_unified": (
        "llama.cpp: the slots draw on one pool (-kvu). Nothing tests at the door whether they fit: when the pool is "
        "full, every processing slot fails."
    ),
    "slots": "llama.cpp: what a request has to find free. The others wait in a queue that has no bound.",
    "slot context": "llama.cpp: what one slot may use of the pool it shares with others.",
    "requests_deferred": "llama.cpp: requests that wait because no slot is free.",
    "cache_ram_mib": "llama.cpp: host memory that saved prompts of idle slots may grow to (--cache-ram).",
    "checkpoints_mib": (
        "llama.cpp: host memory that copies of recurrent states and windows may grow to: --ctx-checkpoints for each "
        "slot, each as large as the state of one sequence."
    ),
}
