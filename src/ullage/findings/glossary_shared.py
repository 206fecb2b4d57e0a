"""Figures that several engines have under one name, and those of the host and of Ullage's own reckoning."""

from __future__ import annotations

SHARED = {
    "flags_not_read": (
        "Flags of a target in an ullage.toml that are compared with nothing: Ullage does not read them, they are"
        " misspelt, or their value is none."
    ),
    "served_model_name": (
        "The name under which clients ask for the model (--served-model-name); the model's own where none is given."
        " Servers of one deployment are told from others by it."
    ),
    "dtype": (
        "The number type of weights and activations (--dtype). It decides what the weights take, not the KV cache."
    ),
    "quantization": "How the weights are quantized (--quantization): fewer bytes of weights leave more for the pool.",
    "kv_cache_dtype": (
        "The number type of keys and values in the cache (--kv-cache-dtype, or the line that states it). `auto` is the"
        " model's own type; fp8 halves what a token takes of 16-bit types."
    ),
    "attention_backend": (
        "The kernels of the attention layers (--attention-backend). Some ask for a larger page or block."
    ),
    "api_key": "Whether the server asks its clients for a key (--api-key). Its value is masked where it is read.",
    "weights_gib": (
        "GiB of the model's weights on one GPU, as the engine states them: the line that ends the load, SGLang's"
        " /server_info and metrics page. Of several ranks the most."
    ),
    "load_s": "Seconds that loading the weights took, as its log line states. Of several ranks the most.",
    "graph_s": "Seconds that capturing CUDA graphs took, as its log line states.",
    "cpu_offload_gb": (
        "GB of weights that are kept in host memory (--cpu-offload-gb; vLLM counts GiB, for each GPU). It leaves GPU"
        " memory to the pool, and costs a transfer at each step."
    ),
    "enable_prefix_caching": (
        "vLLM: whether blocks of finished prompts are kept for requests that begin alike. They count as free; but with"
        " recurrent layers each request then holds two states of a group, not one."
    ),
    "draft_model": "llama.cpp: the draft model of speculative decoding (-md, or the line that loads it).",
    "prompt_tokens_per_s": (
        "vLLM: prompt tokens computed a second, averaged over the interval before the line of statistics (or, in V0,"
        " the gauge)."
    ),
    "generation_tokens_per_s": (
        "vLLM: tokens generated a second, averaged over the interval before the line of statistics (or, in V0, the"
        " gauge)."
    ),
    "prompt_tokens": (
        "Prompt tokens. Of vLLM's metrics page all that it has prefilled since its start; of llama.cpp's log those that"
        " its last timed prompt computed."
    ),
    "prompt_tokens_total": (
        "Prompt tokens of all requests since the server's start, by the metrics page. llama.cpp leaves out those that"
        " came from a cache."
    ),
    "n_predict": (
        "llama.cpp: tokens that a request may generate when its client names no limit (-n, or /props). -1: no limit but"
        " the context of its slot."
    ),
    "restart_counter": "How often systemd had started the unit again by itself, as its line in the log counts.",
    "unit_started": "When systemd logged that it had started the unit.",
    "is_sleeping": (
        "llama.cpp: whether the server has unloaded its model for lack of requests (/props); the next loads it."
    ),
    "used": "What requests hold of a pool now, in its unit.",
    "use": "What requests hold of a pool now, in its unit.",
    "free": "What nobody holds. Of a pool: its size less use, evictable cache and what is kept back.",
    "evictable": "What is kept of ended requests for reuse, and given back as soon as new work needs it.",
    "rest": "What is left of a pool, where no source tells its parts from each other.",
    "in_doubt": "The part of a pool that may be in use or free: its size is known as a range only.",
    "longest_prompt": "SGLang: the longest prompt that is let in: one token less than max_req_input_len.",
    "request_slots": (
        "SGLang: request slots with the extra ones that a decode server has for requests in transfer"
        " (--disaggregation-decode-extra-slots)."
    ),
    "request_slots_in_use": "SGLang: slots held by requests that run, and by those in transfer or in flight.",
    "requests_done": "vLLM: requests that have finished since its start, whatever the reason (request_success).",
    "memory_bytes": "The tank's --memory in bytes, as its /server_info states it: all that it may use.",
    "weight_bytes": "The tank: bytes of its weights, exact, from its /server_info.",
    "kv_cache_bytes": "The tank: bytes of its KV pool, exact, from its /server_info.",
    "kv_bytes_per_token": "The tank: bytes that a token of its KV pool takes, exact, from its /server_info.",
    "request_table_bytes": (
        "The tank: bytes of its request table, exact. It grows with --context-length and --max-running-requests."
    ),
    "scratch_bytes": "The tank: bytes of the buffers of one step, exact. They grow with --chunked-prefill-size.",
    "available_bytes": "The tank: bytes of its memory that nothing takes, exact, from its /server_info.",
}
