"""The names and units of what SGLang states. Names are the engine's own where it has one; "GB" in its logs is GiB."""

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
}
_SUFFIXES = {
    "_per_s": "tokens/s",
    "_gib": "GiB",
    "_gb": "GB",
    "_tokens": "tokens",
    "_s": "s",
    "_reqs": "requests",
    "_total": "since start",
    "_usage": "of the pool",
    "_ratio": "",
    "_slots": "slots",
}


def unit_of(name: str) -> str:
    """The unit a quantity is counted in; "" for words and plain ratios."""
    if name in _UNITS:
        return _UNITS[name]
    return next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)), "")
