"""What the figures mean, for `ullage explain`. Names are the engine's own. Those that pages and findings speak of most
stand here, the others by their subject.
"""

from __future__ import annotations

from .glossary_llamacpp import LLAMACPP
from .glossary_llamacpp_memory import LLAMACPP_MEMORY
from .glossary_memory import MEMORY
from .glossary_router import ROUTER
from .glossary_sglang import SGLANG
from .glossary_sglang_log import SGLANG_LOG
from .glossary_shared import SHARED
from .glossary_vllm import VLLM

PAGES = {
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
    "num_gpu_blocks": (
        "Blocks of vLLM's pool, of one data-parallel engine, the null block included. The metrics page states the"
        " sum over the engines of its front end."
    ),
    "kv_blocks": "Blocks of vLLM's pool that requests can be given: num_gpu_blocks less the null block (V0 has none).",
    "kv_cache_size_tokens": (
        'What vLLM prints as "GPU KV cache size". For one group of layers it is the pool; for several it is the'
        " pool divided by the groups before 0.20.2, and concurrency x max_model_len since: no capacity."
    ),
    "kv_cache_size_meaning": (
        "What kv_cache_size_tokens is where it is not the capacity: pool / groups, or concurrency x max_model_len."
    ),
    "kv_cache_max_concurrency": (
        "Full-length requests that vLLM's pool holds: blocks / blocks of one such request. It counts the null"
        " block, so 1.00x can be one block short."
    ),
    "blocks_per_full_request": (
        "Blocks that one request of max_model_len tokens takes, over all groups of layers. With num_gpu_blocks it"
        " tells the groups: one group takes max_model_len / block_size."
    ),
    "fixed_blocks_per_request": (
        "Blocks that a request takes whatever its length: of recurrent states, and one for each window."
    ),
    "blocks_beside_context": (
        "Blocks of a request that are not for its context: windows with the batch in flight, and recurrent states."
    ),
    "bytes_per_block": "Memory of one block on each GPU: available KV memory / blocks.",
    "block_size": "Tokens of a block of the attention layers. 16 by default; backends and recurrent states enlarge it.",
    "hybrid_block_size": (
        "Tokens of a block that was enlarged until a recurrent state fits into one: hundreds, or thousands."
    ),
    "num_gpu_blocks_override": "Blocks that were asked for instead of what memory gives.",
    "full_length_tokens": (
        "Tokens of as many full-length requests as vLLM states; shorter ones may hold fewer together."
    ),
    "pool_tokens": "Blocks x tokens of a block: what vLLM prints for a model with one group of layers.",
    "longest_request_of_pool": "The longest request whose blocks the pool has, where that is less than the context.",
    "max_num_seqs": "Requests that vLLM runs at once, per data-parallel engine. 256 by default, 1,024 on larger GPUs.",
    "max_num_batched_tokens": (
        "Tokens that vLLM computes in one step over all requests. Windows keep a batch of it in flight, and the"
        " activation peak grows with it, so a smaller one gives a larger pool."
    ),
    "max_model_len": "Tokens that one request may have in all, prompt and output. Says nothing about how many fit.",
    "kv_cache_usage_perc": (
        "Share of vLLM's blocks that requests hold, of the fullest engine. Cached blocks that nobody holds count as"
        " free."
    ),
    "gpu_memory_utilization": (
        "Share of the GPU's whole memory that vLLM may use: weights, activations, pool, and since 0.20 the graphs."
        " 0.9 by default, 0.92 since 0.20."
    ),
    "equivalent_utilization": "The share that would give this pool without the estimate for graphs.",
    "suggested_utilization": "The share at which vLLM says that the pool is as large as before graphs were estimated.",
    "estimated_cudagraph_gib": (
        "What vLLM expects its CUDA graphs to take, from two captures with a tiny pool. Since 0.20 it comes out of"
        " the pool."
    ),
    "graph_gib": "What CUDA graphs took, on each GPU.",
    "graph_estimate_off_gib": "Estimate less what the graphs took.",
    "outside_share_gib": "Memory outside the share that is left when the graphs are captured.",
    "available_kv_gib": "Memory of the KV pool on each GPU.",
    "needed_kv_gib": "Memory that the KV of one full-length request needs on each GPU.",
    "short_of_kv_gib": "By how much one full-length request does not fit.",
    "estimated_max_model_len": "The longest context that vLLM says would fit.",
    "budget_gib": "The share of the GPU in GiB: total memory x gpu_memory_utilization.",
    "free_gib": "Memory that was free when the server started; other processes lower it.",
    "total_gib": "Memory of the GPU as the driver states it, a little less than its name says.",
    "start_refused": "Why the last start failed, in the engine's words.",
    "refused_mem_fraction": "The --mem-fraction-static at which the weights left nothing for the pool.",
    "sized_tokens": "What the pool would hold by memory, before --max-total-tokens made it smaller.",
    "refused_host_gb": "What one rank's host cache would have taken of the host's memory, in GB of 10^9 bytes.",
    "free_host_gb": "What was free of the host's memory for it, 10 GB less than what was available.",
    "least_mem_fraction": "The fraction that the weights alone take: above it there is a pool, however small.",
    "num_requests_running": "Requests that vLLM runs, over all engines.",
    "num_requests_waiting": "Requests in vLLM's queue, over all engines: for capacity, and deferred.",
    "num_requests_waiting_by_reason_capacity": "Requests that wait for blocks, a slot or the token budget of a step.",
    "num_requests_waiting_by_reason_deferred": "Requests that wait for a KV transfer, a LoRA slot or a grammar.",
    "num_preemptions": "Requests thrown back because no block was free, and computed again.",
    "preemptions_in_log": "Preemptions in the lines that were read; each line counts those since the one before.",
    "mean_request_prompt_tokens": "Mean prompt of the requests that have finished.",
    "mean_request_generation_tokens": "Mean output of the requests that have finished.",
    "admission_rejections_max_num_queued_reqs": (
        "Requests that were rejected with 503 because --max-num-queued-reqs waited already."
    ),
    "admission_rejections_max_num_queued_tokens": (
        "Requests that were rejected with 503 because --max-num-queued-tokens waited already."
    ),
    "engine_deaths_in_log": "Engine processes that died, in the lines that were read.",
    "kv_connector": (
        "What moves KV between servers; with one, a server is a side of a prefill/decode pair or has an outer cache."
    ),
    "nixl_num_kv_expired_reqs": "Requests whose blocks prefill gave up before decode had read them.",
    "kv_expired_reqs_in_log": (
        "Requests whose blocks prefill gave up before decode had read them, in the lines that were read."
    ),
    "nixl_num_notifications_after_expiry": (
        "Reads that decode reported after the blocks were given up: what it read may have been another request's."
    ),
    "nixl_num_failed_transfers": "Transfers that failed.",
    "open_files_limit": "Files that the server may have open at once; every connection is one.",
    "tp_size": "GPUs that share out each layer.",
    "kv_total_gib": "Memory of keys and values on each GPU.",
    "mamba_total_gib": "Memory of recurrent states on each GPU.",
    "max_total_tokens": "A cap on the KV pool that was asked for; it never makes the pool larger.",
    "context_length": "The context that was asked for; context_len is in effect.",
    "model_path": "The model, as it was asked for.",
    "enable_metrics": "Whether the server has a metrics page.",
    "metrics_page": "What the server answered when it was asked for its metrics.",
    "num_transfer_failed_reqs_total": "Requests whose KV transfer failed.",
    "failed_transfers_in_log": (
        "Requests whose KV transfer failed, in the lines that were read; one counts once, however many ranks log it."
    ),
    "retractions_in_log": "Requests thrown back, in the lines that were read.",
    "scheduler_exceptions": "Exceptions that ended the scheduler, in the lines that were read.",
    "urls_with_a_comma": "A URL of the router's command line with its bootstrap port behind a comma, which is no URL.",
    "random_seed": "Drawn anew at each start, so that it tells one server from another.",
    "process_start_time_seconds": "When the process that answers was started; it tells one server from another.",
    "num_requests_total": "Requests that the server has finished.",
    "worker_retries_total": "Tries that the router made again.",
    "kv_cells": "llama.cpp: cells of the KV cache, one for each token in it; of one part where each slot has its own.",
    "slots_may_hold": "What all slots of a llama-server may grow to together: slots x context of a slot.",
    "requests_processing": "Slots of a llama-server that work on a request.",
    "context_exceeded_in_log": "How often the pool ran out and all slots at work failed, in the lines that were read.",
    "refused_too_long_in_log": "Prompts that a llama-server refused for their length, in the lines that were read.",
    "pid": "The process id of the server's first process.",
    "port": "The port that the server was told to listen on.",
    "unit": "The systemd unit that the server runs in.",
    "restarts": "How often systemd started the unit again since it was started by hand or at boot.",
    "changed_at": "When a file that decides how the server starts was last written.",
    "clock_moved_s": (
        "How far the wall clock was set since the unit became active: what systemd wrote down then, against the clock"
        " since boot. 0 but for fractions where nobody set it."
    ),
    "open_to_browsers": "The line in which a llama-server says that it has no key and allows all origins.",
    "host_cache_mib": "Host memory that a llama-server's saved prompts and checkpoints may grow to together.",
    "killed_by": "Who ended the process, as systemd logged it.",
    "result": "How the unit ended, as systemd logged it: `oom-kill` is for memory.",
    "memory_peak_gib": "The most memory that the unit had, as systemd logged it at its end.",
    "fits_of_this_length": "How many requests of the present mean length the pool holds: running / their share of it.",
    "rate_limit rejected": "Requests that the router's limit turned away, since its start.",
    "rate_limit allowed": "Requests that the router's limit let through, since its start.",
    "responses 408": "Requests that the router answered with 408: they waited in its queue until it gave them up.",
    "responses 429": "Requests that the router answered with 429: its queue was full, or there is none.",
    "ready": "Whether the last start of the log came up. Where it did not, the line that says so stands beside it.",
    "max_queued_requests": "Requests that may wait in the server's queue; one more is refused (not in prefill/decode).",
    "max_num_queued_reqs": "Requests that may wait in vLLM's queue; one more is refused with 503. By default no limit.",
    "cache_type_k": "llama.cpp: the type of the keys in the KV cache (-ctk). q8_0 takes about half of f16.",
    "cache_type_v": "llama.cpp: the type of the values in the KV cache (-ctv). q8_0 takes about half of f16.",
    "n_batch": "llama.cpp: prompt tokens that are handed to the model at once (-b), over all slots.",
    "n_ubatch": "llama.cpp: tokens that are computed at once (-ub). Compute buffers grow with it.",
    "ctx_checkpoints": "llama.cpp: copies of recurrent states and windows that each slot may keep in host memory.",
    "models_max": "llama.cpp's router: models that are loaded at once; one more unloads the least used.",
    "models_dir": "llama.cpp's router: the folder whose models it may load.",
    "queue_size": "Requests that may wait in sglang-router for its limit.",
    "request_timeout_secs": "Seconds after which sglang-router gives a request up.",
    "running_requests": "Requests that run now.",
    "in_use": "The share of a pool that requests hold.",
}
SUBJECTS = (PAGES, MEMORY, SHARED, SGLANG, SGLANG_LOG, VLLM, LLAMACPP, LLAMACPP_MEMORY, ROUTER)
GLOSSARY = {name: text for subject in SUBJECTS for name, text in subject.items()}
