"""Figures of SGLang that come from its arguments, its endpoints and its metrics page."""

from __future__ import annotations

_PAGE = "by the metrics page, which refreshes when a batch is logged"

ARGUMENTS = {
    "dp_size": (
        "SGLang: data-parallel ranks (--dp-size). Each has a KV pool of its own, and a request lives in one of them."
        " Counted from the ranks that are seen, where no argument states it."
    ),
    "pp_size": (
        "SGLang: pipeline stages (--pp-size). Each holds a part of the layers; the stage with least room decides."
    ),
    "ep_size": (
        "SGLang: GPUs over which the experts are spread (--ep-size). It changes what the weights take, not the KV."
    ),
    "dcp_size": (
        "SGLang: ranks that share out the tokens of a request's KV when decoding (--dcp-size): the pool holds so many"
        " times more."
    ),
    "attn_cp_size": "SGLang: ranks that share out the context in attention (--attn-cp-size).",
    "nnodes": "SGLang: hosts that serve the model together (--nnodes). GPUs are counted over all of them.",
    "node_rank": "SGLang: which of the hosts this is (--node-rank), from 0 on.",
    "dist_init_addr": "SGLang: the address at which the hosts of one server find each other (--dist-init-addr).",
    "enable_dp_attention": (
        "SGLang: data parallelism in attention alone (--enable-dp-attention): each data-parallel rank is a group of the"
        " tensor-parallel ones, with its own KV pool."
    ),
    "base_gpu_id": "SGLang: the first GPU that it takes (--base-gpu-id), counted within CUDA_VISIBLE_DEVICES.",
    "gpu_id_step": "SGLang: the step from one of its GPUs to the next (--gpu-id-step): 2 takes every other.",
    "prefill_max_requests": "SGLang: requests in one prefill batch (--prefill-max-requests); by default no limit.",
    "schedule_policy": (
        "SGLang: in which order waiting requests are looked at (--schedule-policy): fcfs is as they came, lpm by the"
        " longest cached prefix. The first that does not fit mostly ends the look."
    ),
    "swa_prefix_tails": (
        "SGLang: ends of prefixes for which the window pool keeps room (--swa-prefix-tails): for DeepSeek-V4 since"
        " September 2026, 4 x running requests with the prefix cache and 0 without."
    ),
    "disable_hybrid_swa_memory": (
        "SGLang: no pool apart for sliding-window layers (--disable-hybrid-swa-memory); all layers then keep whole"
        " requests, in one pool."
    ),
    "disable_radix_cache": "SGLang: no prefix cache (--disable-radix-cache): what has ended is given back at once.",
    "disable_cuda_graph": (
        "SGLang: no CUDA graphs (--disable-cuda-graph). Their memory stays free, and small batches are slower."
    ),
    "cuda_graph_max_bs": (
        "SGLang: the largest batch that CUDA graphs are captured for (--cuda-graph-max-bs). Graphs take less memory"
        " where it is smaller; larger batches run without them."
    ),
    "cuda_graph_max_bs_decode": (
        "SGLang: the largest batch that CUDA graphs of decode are captured for (--cuda-graph-max-bs-decode, 2026)."
    ),
    "speculative_algorithm": (
        "SGLang: how drafts are made (--speculative-algorithm). A draft model takes weights and a share of every token"
        " of the pool."
    ),
    "speculative_num_draft_tokens": (
        "SGLang: draft tokens of a step (--speculative-num-draft-tokens). Each request of a recurrent model keeps a"
        " state for each of them."
    ),
    "max_mamba_cache_size": (
        "SGLang: slots for recurrent states (--max-mamba-cache-size, or the line that allocates them). Running requests"
        " are capped by it: a request takes one slot without prefix cache, three or more with it."
    ),
    "mamba_full_memory_ratio": (
        "SGLang: memory of recurrent states to that of the KV pool (--mamba-full-memory-ratio, 0.9 by default): r /"
        " (1 + r) of what is left goes to the states."
    ),
    "mamba_scheduler_strategy": (
        "SGLang: how states of recurrent layers are kept for the prefix cache (--mamba-scheduler-strategy)."
        " extra_buffer takes more slots a request than no_buffer; auto is no_buffer."
    ),
    "mamba_radix_cache_strategy": (
        "SGLang: what mamba_scheduler_strategy is called since the middle of 2026 (--mamba-radix-cache-strategy): with"
        " the prefix cache a request takes three slots, and up to two more in the extra-buffer modes."
    ),
    "disable_overlap_schedule": (
        "SGLang: the scheduler waits for the GPU (--disable-overlap-schedule). Slower; a request of a recurrent model"
        " then needs one extra buffer of states, not two."
    ),
    "enable_hierarchical_cache": (
        "SGLang: whether the prefix cache has a tier in host memory (--enable-hierarchical-cache). It is for reuse and"
        " raises no limit."
    ),
    "hicache_ratio": (
        "SGLang: size of the host tier of the prefix cache to that of the KV pool (--hicache-ratio, 2 by default), on"
        " each rank."
    ),
    "hicache_size": (
        "SGLang: GB of the host tier of the prefix cache on each rank (--hicache-size); it outranks the ratio."
    ),
    "disaggregation_mode": (
        "SGLang: the server's role (--disaggregation-mode): prefill, decode, or null for both in one."
    ),
    "disaggregation_transfer_backend": (
        "SGLang: what moves KV from prefill to decode (--disaggregation-transfer-backend): mooncake, nixl and others."
        " Both sides need the same."
    ),
    "disaggregation_bootstrap_port": (
        "SGLang: the port of a prefill server where decode servers ask for its layout"
        " (--disaggregation-bootstrap-port, 8998 by default). The router needs it."
    ),
    "disaggregation_decode_extra_slots": (
        "SGLang: request slots of a decode server beyond max_running_requests, for requests in transfer. By default"
        " twice that where it is 32 or less, and none above."
    ),
    "disaggregation_decode_enable_radix_cache": (
        "SGLang: whether a decode server keeps a prefix cache (--disaggregation-decode-enable-radix-cache); by default"
        " it has none."
    ),
    "admin_api_key": (
        "SGLang: whether control endpoints ask for a key of their own (--admin-api-key). Its value is masked."
    ),
    "allow_auto_truncate": (
        "SGLang: whether a prompt that is too long is cut (--allow-auto-truncate); by default it is refused with 400."
    ),
    "preferred_sampling_params": (
        "SGLang: sampling settings of the server (--preferred-sampling-params). A max_new_tokens in it bounds requests"
        " whose client names no limit."
    ),
    "decode_log_interval": (
        "SGLang: steps between two lines of a decode batch (--decode-log-interval, 40 by default). The gauges of the"
        " metrics page refresh as often."
    ),
    "arguments_cut": "SGLang: the log shows a part of its arguments only, so one that is missing may still be set.",
}
ENDPOINTS = {
    "model_class": (
        "SGLang: the class of the model (the line that ends the load, or /model_info). It tells the kinds of layers."
    ),
    "is_generation": "SGLang: whether the model generates text (/model_info); embedding models do not.",
    "sliding_window": (
        "Tokens back that a sliding-window layer sees: a request keeps no more of it than the window and a page."
    ),
    "startup_available_gib": (
        "SGLang: GiB that were free on the GPU when the start had ended (/server_info, metrics page). Activations come"
        " out of it."
    ),
    "graph_total_gib": (
        "SGLang: GiB of CUDA graphs on a GPU over all captures. It comes out of what mem_fraction_static leaves, not"
        " out of the pool."
    ),
    "num_pages": f"SGLang: pages of the KV pool, {_PAGE}: max_total_num_tokens / page_size.",
    "full_token_usage": (
        "SGLang: share of the pool of full-attention layers that requests hold, beside that of windows."
    ),
    "swa_token_usage": "SGLang: share of the window pool that requests hold.",
    "mamba_usage": "SGLang: share of the state slots of recurrent layers that are held.",
    "mamba_used_slots": "SGLang: state slots of recurrent layers that are held, as a batch line counts them.",
    "utilization": (
        "SGLang: how far the scheduler counts itself as used, by its metrics page; not the GPU's utilization."
    ),
    "cache_hit_rate": (
        "SGLang: share of prompt tokens that came from the prefix cache. It saves compute; shared tokens count once."
    ),
    "gen_tokens_per_s": (
        "SGLang: tokens generated a second, over all running requests, as the last decode line, /v1/loads or the gauge"
        " gen_throughput states."
    ),
    "input_tokens_per_s": "SGLang: prompt tokens computed a second, as the last prefill line states.",
    "decode_seq_tokens": f"SGLang: tokens of all requests in decode together, {_PAGE} (decode_sum_seq_lens).",
    "num_total_tokens_used_and_queued": (
        "SGLang: tokens in use and prompt tokens of the queue together, as /v1/loads or /get_load counts them."
    ),
    "num_pending_tokens": "SGLang: prompt tokens that wait to be computed, as the last prefill line states.",
    "num_retracted_reqs": "SGLang: requests that were thrown back and wait to run again. On decode they go first.",
    "num_paused_reqs": f"SGLang: requests that are paused while weights are replaced, {_PAGE}.",
    "num_grammar_queue_reqs": f"SGLang: requests that wait for their grammar to be compiled, {_PAGE}.",
    "batch_new_reqs": "SGLang: requests in the last prefill batch (#new-seq).",
    "batch_new_tokens": "SGLang: prompt tokens that the last prefill batch computed (#new-token).",
    "batch_cached_tokens": (
        "SGLang: prompt tokens of the last prefill batch that came from the prefix cache (#cached-token)."
    ),
    "spec_accept_length": "SGLang: tokens that a step of speculative decoding yields in the mean.",
    "spec_accept_rate": "SGLang: share of draft tokens that are accepted, as the last decode line states.",
    "hicache_host_total_tokens": (
        "SGLang: tokens that the host tier of the prefix cache holds at most, by the metrics page."
    ),
    "hicache_host_used_tokens": "SGLang: tokens that the host tier of the prefix cache holds now, by the metrics page.",
    "generation_tokens_total": "SGLang: tokens generated since its start, by the metrics page.",
    "num_aborted_requests_total": "SGLang: requests that were aborted since its start, by the metrics page.",
    "num_bootstrap_failed_reqs_total": (
        "SGLang: requests whose prefill and decode server did not come to terms, since its start, by the metrics page."
    ),
    "num_prefill_retries_total": "SGLang: prefills that were made again, since its start, by the metrics page.",
}
_POOLS = {"kv": "the KV pool", "swa": "the window pool", "mamba": "the pool of recurrent states"}
_PARTS = {
    "used_tokens": "Tokens of {} that requests hold now.",
    "available_tokens": "Tokens of {} that nobody holds and no cache has.",
    "evictable_tokens": "Tokens of {} that ended requests left for reuse. They give way at once.",
}
USE = {
    f"{pool}_{part}": f"SGLang: {text.format(named)}"
    for pool, named in _POOLS.items()
    for part, text in _PARTS.items()
    if f"{pool}_{part}" != "kv_evictable_tokens"  # told with the rows of a page
}
SGLANG = {**ARGUMENTS, **ENDPOINTS, **USE}
