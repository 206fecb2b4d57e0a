"""The units of what engines state. Names are the engine's own where it has one; "GB" in SGLang's logs is GiB."""

from __future__ import annotations

_UNITS = {
    "max_total_num_tokens": "tokens",
    "swa_max_total_num_tokens": "tokens",
    "context_len": "tokens",
    "max_running_requests": "requests",
    "max_queued_requests": "requests",
    "max_req_input_len": "tokens",
    "chunked_prefill_size": "tokens",
    "page_size": "tokens",
    "max_mamba_cache_size": "slots",
    "mem_fraction_static": "of free memory",
    "bytes_per_full_token": "bytes",
    "graph_max_bs": "requests",
    "max_model_len": "tokens",
    "requested_max_model_len": "tokens",
    "estimated_max_model_len": "tokens",
    "max_num_seqs": "requests",
    "block_size": "tokens",
    "hybrid_block_size": "tokens",
    "gpu_memory_utilization": "of GPU memory",
    "kv_cache_max_concurrency": "full-length requests",
    **dict.fromkeys(("n_slots", "n_seq_max", "n_parallel", "requests_processing"), "requests"),
    **dict.fromkeys(("n_ctx", "n_ctx_slot", "n_ctx_seq", "n_ctx_train", "kv_unified_per_slot", "n_swa"), "tokens"),
    **dict.fromkeys(("n_batch", "n_ubatch", "n_predict", "fit_ctx_before", "fit_ctx_after", "n_tokens_max"), "tokens"),
    **dict.fromkeys(("prompt_tok_s", "eval_tok_s", "predicted_tokens_seconds", "prompt_tokens_seconds"), "tokens/s"),
}
_SUFFIXES = {
    "_per_s": "tokens/s",
    "_gib": "GiB",
    "_mib": "MiB",
    "_cells": "tokens",
    "_gb": "GB",
    "_tokens": "tokens",
    "_s": "s",
    "_reqs": "requests",
    "_total": "since start",
    "_usage": "of the pool",
    "_ratio": "",
    "_slots": "slots",
    "_blocks": "blocks",
    "_perc": "of the pool",
    "_percent": "percent",
    "_requests": "requests",
    "_running": "requests",
    "_waiting": "requests",
    "_deferred": "requests",
    "_preemptions": "since start",
    "_bytes": "bytes",
}


def unit_of(name: str) -> str:
    """The unit a quantity is counted in; "" for words and plain ratios."""
    if name in _UNITS:
        return _UNITS[name]
    bare = name.partition(" ")[0]  # a device can stand behind it: "kv_buffer_mib CUDA0"
    return next((unit for suffix, unit in _SUFFIXES.items() if bare.endswith(suffix)), "")
