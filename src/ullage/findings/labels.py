"""What the words of the page mean, for `ullage explain`: labels of rows and columns, and how a figure is known."""

from __future__ import annotations

from ..figure import Kind

KINDS = {
    Kind.READ: "the running system stated it",
    Kind.CONFIGURED: "somebody asked for it; no proof that it is in effect",
    Kind.DEFAULT: "the engine's own value, where nothing was asked",
    Kind.DERIVED: "arithmetic on other figures, by a formula of the engine",
    Kind.PREDICTED: "what a change would give",
    Kind.INFERRED: "the explanation that fits the other figures",
    Kind.MISSING: "not known; its panel says why",
}
SETTINGS = {  # the label of a setting -> the figures it shows, by engine
    "context per request": ("context_len", "max_model_len"),
    "KV pool": ("max_total_num_tokens",),
    "running requests": ("max_running_requests", "max_num_seqs"),
    "chunked prefill": ("chunked_prefill_size",),
    "prefill budget a pass": ("max_prefill_tokens",),
    "queued requests": ("max_queued_requests", "max_num_queued_reqs"),
    "memory fraction": ("mem_fraction_static",),
    "token budget a step": ("max_num_batched_tokens",),
    "block": ("block_size",),
    "blocks of the pool": ("num_gpu_blocks",),
    "share of GPU memory": ("gpu_memory_utilization",),
    "context of all slots": ("n_ctx",),
    "slots": ("n_slots",),
    "one pool for all slots": ("kv_unified",),
    "context of a slot": ("n_ctx_slot",),
    "keys in the cache": ("cache_type_k",),
    "values in the cache": ("cache_type_v",),
    "batch": ("n_batch",),
    "physical batch": ("n_ubatch",),
    "saved prompts, MiB host": ("cache_ram_mib",),
    "saved prompts": ("cache_ram_mib",),
    "checkpoints a slot": ("ctx_checkpoints",),
    "loaded at once": ("models_max",),
    "models from": ("models_dir",),
    "their context": ("n_ctx",),
    "limit": ("max_concurrent_requests",),
    "queue": ("queue_size",),
    "tries": ("retry_max_retries",),
    "request timeout": ("request_timeout_secs",),
    "longest request": ("longest_request",),
    "total context": ("total_context_tokens",),
    "default output": ("default_output_tokens",),
    "room left": ("room",),
    "kept back": ("reserved",),
    "evictable cache": ("kv_evictable_tokens",),
}
WORDS = {
    "asked for": (
        "What the command line, the environment or the arguments in a log ask for. What is in effect stands beside it"
        " and may be less: an arrow says why."
    ),
    "in effect": (
        "What the running server states of itself, or what the engine makes of what was asked for. It counts; what was"
        " asked for does not."
    ),
    "not stated": (
        "Settings that no evidence states, each with the reason in brackets: what the engine does where nothing is set,"
        " or what to read besides."
    ),
    "not known": "No evidence states it. The reason stands behind it, or in the list of sources (--sources).",
    "not set": "The arguments were seen, and it is not among them: the engine decides.",
    "in use now": (
        "Requests that run and wait at the last moment that was read. From a log or a saved page that is the moment it"
        " was written."
    ),
    "in use": (
        "What requests hold of a pool at the last moment that was read, of its whole size, with the share in percent."
        " Cache that is kept for reuse and given back on demand is left out."
    ),
    "prompt (+ output)": (
        "The shape of the requests of a row: the prompt in tokens, and the output where one is named. `full` is one"
        " request of the whole context."
    ),
    "in prefill": "Requests that are in prefill and transfer at once, of those in flight through the whole chain.",
    "host cache": "The cache tier in host memory. It is for reuse, and raises no limit.",
    "worker": "A server that the router sends requests to, and whether it holds it for healthy.",
    "counters": "What a router counts since its start, under the names of its metrics page.",
    "note": "What cannot be told from the evidence, or is unusual about it.",
}
PREFIXES = {  # of a figure's name -> what it makes of the quantity
    "first_": "The same quantity at the first line that was read: beside the last it shows growth.",
    "requested_": "What was asked for; the figure without `requested_` is in effect.",
    "mean_": "The mean since the server's start of what its histogram counted.",
    "gauge_": "The same quantity as the metrics page states it.",
    "draft_": "The same quantity of the draft model.",
    "draft ": "Of the draft model.",
    "graphs, ": "CUDA graphs of one phase, with their private pools, as its capture measured them.",
    "process ": "What the driver counts for a process that is not one of the server's, by its pid and name.",
    "slice ": "A MIG device: a share of a GPU with memory of its own. Its parts stand with it.",
    "healthy ": "Whether the router holds this worker for healthy.",
    "child ": "A model that llama.cpp's router has loaded, with the URL of the server that it started for it.",
    "sglang:": "A series of SGLang's metrics page.",
    "vllm:": "A series of vLLM's metrics page.",
    "llamacpp:": "A series of llama.cpp's metrics page.",
}
PARTS = {  # a figure that comes in parts -> what the rest of a part's name is
    **dict.fromkeys(("graph_gib", "graph_s", "avail_before_graph_gib", "avail_after_graph_gib"), "phase"),
    "num_requests_waiting_by_reason": "reason",
    "num_requests_kv_fetch_by_stage": "stage",
    "request_success": "reason",
    "admission_rejections": "reason",
    "prompt_tokens_by_source": "source",
    "engine_sleep_state": "state",
    "rate_limit": "result",
    "responses": "status code",
    "jobs": "kind",
}
SUFFIXES = {  # of a row's label -> what it makes of the pool's name
    " in use": WORDS["in use"],
    ", keys": "The keys of it.",
    ", values": "The values of it.",
    ", fixed": "Made once, whatever the pool.",
    "_sum": "The sum since the server's start of what the histogram counted; with its count it gives the mean.",
    "_count": "How many the histogram has counted since the server's start.",
}
