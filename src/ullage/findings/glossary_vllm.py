"""Figures of vLLM: its arguments, its log, its metrics page, and what is reckoned from them."""

from __future__ import annotations

ARGUMENTS = {
    "model": (
        "vLLM: the model, as it was asked for or as /v1/models and the log name it. Its name tells the kinds of layers."
    ),
    "uds": "vLLM: the Unix socket that it listens on instead of a port (--uds).",
    "root_path": "vLLM: the path under which a proxy serves it (--root-path).",
    "mamba_cache_mode": (
        "vLLM: which states of recurrent layers are kept (--mamba-cache-mode). `none`: one a request and group;"
        " `align`: two; `all`, in versions that have it: one for each block."
    ),
    "kv_role": (
        "vLLM: its side of a KV transfer: kv_producer is a prefill server, kv_consumer a decode server; with kv_both"
        " the requests decide."
    ),
    "enable_chunked_prefill": (
        "vLLM: whether a prompt is computed in pieces of the token budget. Without it no prompt may be longer than"
        " max_num_batched_tokens."
    ),
    "scheduler_reserve_full_isl": (
        "vLLM: whether the whole prompt must fit into free blocks before a request is let in (so since 0.19), or only"
        " its first piece."
    ),
    "async_scheduling": (
        "vLLM: whether the next step is scheduled while one is computed. Two batches are then in flight, and since 0.26"
        " windows keep room for both."
    ),
    "disable_hybrid_kv_cache_manager": (
        "vLLM: no groups of layers (--disable-hybrid-kv-cache-manager): windows are kept like full attention, so that"
        " each token costs more."
    ),
    "enforce_eager": (
        "vLLM: no CUDA graphs (--enforce-eager). Since 0.20 the memory that they would take goes to the pool."
    ),
    "kv_cache_memory_bytes": (
        "vLLM: bytes of the KV cache on each GPU (--kv-cache-memory-bytes). Where it is set,"
        " gpu_memory_utilization decides nothing."
    ),
    "tensor_parallel_size": (
        "vLLM: GPUs that share out each layer (-tp). With more of them than KV heads the heads are copied, and the pool"
        " stops growing."
    ),
    "pipeline_parallel_size": "vLLM: stages, each with a part of the layers (-pp). The stage with least room decides.",
    "data_parallel_size": (
        "vLLM: engines with a pool of their own (-dp). A request lives in one of them; limits are of all together."
    ),
    "data_parallel_size_local": "vLLM: how many of the data-parallel engines run on this host (-dpl).",
    "decode_context_parallel_size": (
        "vLLM: ranks that share out the tokens of a request's KV (-dcp): a block holds so many times more tokens."
    ),
    "prefill_context_parallel_size": (
        "vLLM: ranks that share out a prompt (-pcp). The tokens of a block are counted over them as over -dcp."
    ),
    "num_speculative_tokens": (
        "vLLM: draft tokens of a step (--speculative-config). Each request of a recurrent model holds a block for each"
        " in every group of states."
    ),
    "watermark": (
        "vLLM: share of the blocks that stays free when a request is let in (--watermark, since 0.26, 0 by default)."
        " More of it means fewer preemptions."
    ),
    "max_num_queued_tokens": "vLLM: tokens that may wait in its queue; more is refused with 503. By default no limit.",
    "api_server_count": (
        "vLLM: front ends before the engines (--api-server-count). Each has its own part of the metrics."
    ),
    "default_max_new_tokens": (
        "vLLM: output of a request whose client names no limit (max_new_tokens of --override-generation-config)."
    ),
}
LOG = {
    "architecture": "vLLM: the class of the model, as the log resolves it. It tells the kinds of layers.",
    "engine_generation": "vLLM: which of its engines runs, 0 or 1 (V0, V1), as the line with the configuration states.",
    "supported_tasks": (
        "vLLM: what the model can be asked for, as the log lists it; one without `generate` gives no output."
    ),
    "device": "vLLM: what the blocks lie on, as the line of the KV cache names it.",
    "num_cpu_blocks": (
        "vLLM: blocks of V0's swap space in host memory (--swap-space). They hold preempted requests, and let in no"
        " more."
    ),
    "init_s": "vLLM: seconds that the engine took to profile, make its cache and warm up, as the log states.",
    "non_torch_gib": "vLLM: GiB taken outside PyTorch's allocator (NCCL, workspaces), as the start-up lines state.",
    "non_torch_memory_gib": "vLLM: GiB taken outside PyTorch's allocator, in the words of V0 until 0.6.5.",
    "peak_activation_gib": (
        "vLLM: GiB that one step of max_num_batched_tokens took at most when it was tried out. It comes out of the"
        " pool, and grows with that flag."
    ),
    "peak_torch_memory_gib": "vLLM: GiB of PyTorch at the peak of the trial step, weights included (V0 until 0.6.5).",
    "initial_memory_usage_gib": "vLLM: GiB in use on the GPU before the trial step (V0 until 0.6.5).",
    "memory_usage_post_profile_gib": "vLLM: GiB in use on the GPU after the trial step (V0 until 0.6.5).",
    "consumed_gib": (
        "vLLM: GiB that weights, NCCL and workspaces took together, as builds since 0.29 state it in one figure."
    ),
    "kv_shortfall_gib": (
        "vLLM: GiB by which the weights and a full step exceed the share: nothing is left for the pool, and the start"
        " fails."
    ),
    "kv_bytes": "vLLM: bytes of the KV cache on a GPU, as the summary of the start states.",
    "suggested_kv_cache_memory_bytes": (
        "vLLM: the --kv-cache-memory-bytes that it suggests to use the rest of the GPU. From 0.29 to 0.33 it takes the"
        " graphs off twice, and can be below zero."
    ),
    "piecewise_graphs": "vLLM: CUDA graphs without attention that are to be captured, as the estimate counts them.",
    "piecewise_largest": "vLLM: the largest batch of the CUDA graphs without attention, in tokens.",
    "full_graphs": "vLLM: whole CUDA graphs that are to be captured, as the estimate counts them.",
    "full_largest": "vLLM: the largest batch of the whole CUDA graphs, in tokens.",
    "profiled_gpu_blocks": (
        "vLLM: blocks that memory would give, as the line states that --num-gpu-blocks-override replaces."
    ),
    "mamba_padding_percent": (
        "vLLM: percent by which the page of a recurrent state is padded to that of attention: memory lost."
    ),
    "group_sizes": "vLLM: layers of each group, as the log lists them. A request holds blocks in every group.",
    "padding_layers": "vLLM: layers that were added so that all groups are of one size; their memory holds nothing.",
    "padding_waste_percent": "vLLM: percent of the KV cache that the added layers take at most, as the warning states.",
    "cp_world_size": (
        "vLLM: ranks that share out the tokens of a request's KV, as the line states that multiplies the printed tokens"
        " by them (0.11 to 0.20)."
    ),
    "api_server_pid": "vLLM: the process id of a front end, from the tag before its lines.",
    "engine_pid": "vLLM: the process id of an engine, from the tag before its lines.",
    "kv_cache_usage_percent": "vLLM: percent of the blocks that requests hold, as the line of statistics states.",
    "cpu_kv_cache_usage_percent": "vLLM: percent of V0's swap space that is in use, as the line of statistics states.",
    "prefix_cache_hit_percent": (
        "vLLM: percent of prompt tokens found in the prefix cache lately, as the line of statistics states."
    ),
    "external_prefix_cache_hit_percent": (
        "vLLM: percent of prompt tokens found lately in a cache outside (of a KV connector), as a line of statistics"
        " states."
    ),
    "num_requests_deferred": (
        "vLLM: requests that wait for a KV transfer, a LoRA slot or a grammar, as the line of statistics states."
    ),
    "num_requests_swapped": "vLLM: requests of V0 whose blocks were swapped out to host memory.",
}
METRICS = {
    "cpu_kv_cache_usage_perc": "vLLM: share of V0's swap space that is in use (cpu_cache_usage_perc).",
    "cache_dtype": "vLLM: the number type of the KV cache, as the metrics page repeats the configuration.",
    "mamba_block_size": "vLLM: tokens of a block of recurrent layers, as the metrics page repeats the configuration.",
    "mamba_page_size_padded": "vLLM: bytes of a recurrent state's page after it was padded to the page of attention.",
    "effective_attention_block_size": (
        "vLLM: tokens of a block of full attention as it was made, over the ranks of -dcp (metrics page, 2026)."
    ),
    "prefix_match_unit": (
        "vLLM: tokens in whose multiples cached prefixes are matched (--prefix-match-unit); by default those of a"
        " block."
    ),
    "kv_offloading_size": (
        "vLLM: GiB of host memory for KV that is moved out of the GPU (--kv-offloading-size), over all tensor-parallel"
        " ranks. It is for reuse and raises no limit."
    ),
    "num_gpu_blocks_of_all_engines": (
        "vLLM: the blocks as the metrics page states them: the sum over the engines of its front end."
    ),
    "max_model_len_at_least": (
        "vLLM: the largest bucket of prompt lengths on the metrics page: the context is at least so long."
    ),
    "generation_tokens": "vLLM: tokens generated since its start, by the metrics page.",
    "prompt_tokens_cached": "vLLM: prompt tokens that came from a cache since its start, by the metrics page.",
    "prompt_tokens_by_source": "vLLM: prompt tokens since its start, by where their KV came from.",
    "prefix_cache_queries": "vLLM: tokens that were looked for in the prefix cache since its start.",
    "prefix_cache_hits": "vLLM: tokens that were found in the prefix cache since its start.",
    "external_prefix_cache_queries": (
        "vLLM: tokens that were looked for in a cache outside (of a KV connector) since its start."
    ),
    "external_prefix_cache_hits": (
        "vLLM: tokens that were found in a cache outside (of a KV connector) since its start."
    ),
    "nixl_num_failed_notifications": (
        "vLLM: notices between prefill and decode that failed: prefill then keeps blocks until they expire."
    ),
    "nixl_bytes_transferred": "vLLM: bytes of KV that were moved between prefill and decode since its start.",
    "nixl_xfer_time_seconds": "vLLM: seconds that moving the KV of a request took.",
    "num_requests_waiting_by_reason": "vLLM: requests in its queue, over all engines, by what they wait for.",
    "num_requests_kv_fetch_by_stage": (
        "vLLM: requests of a decode server that fetch KV from a prefill server, by how far they are. Their blocks are"
        " held already."
    ),
    "request_success": "vLLM: requests that have finished since its start, by the reason of their end.",
    "admission_rejections": (
        "vLLM: requests that were rejected with 503 at the door since its start, by the limit that was met."
    ),
    "engine_sleep_state": "vLLM: whether the engine is awake or asleep, one figure for each state.",
    "request_prompt_tokens": "vLLM: tokens of the prompts of finished requests.",
    "request_generation_tokens": "vLLM: tokens that finished requests generated.",
    "request_params_max_tokens": "vLLM: the output limit (max_tokens) that clients named.",
    "request_max_num_generation_tokens": "vLLM: the most tokens that one output of a request has.",
    "request_num_preemptions": "vLLM: how often a finished request was preempted.",
    "request_prefill_kv_computed_tokens": (
        "vLLM: prompt tokens of a request that were computed, and did not come from a cache."
    ),
    "time_to_first_token_seconds": "vLLM: seconds from the arrival of a request to its first token, queue included.",
    "inter_token_latency_seconds": "vLLM: seconds between two tokens of a request.",
    "request_time_per_output_token_seconds": "vLLM: seconds for each token of a finished request after its first.",
    "time_per_output_token_seconds": "vLLM: seconds for each token after the first, as older versions name it.",
    "e2e_request_latency_seconds": "vLLM: seconds from the arrival of a request to its end.",
    "request_queue_time_seconds": (
        "vLLM: seconds that a request waited in the queue. Where it is long, capacity is short."
    ),
    "request_prefill_time_seconds": "vLLM: seconds that a request spent in prefill.",
    "request_decode_time_seconds": "vLLM: seconds that a request spent in decode.",
    "blocks_per_token": (
        "Blocks of vLLM's pool that one more token of a long request takes, beside those that are fixed: 1 / tokens"
        " of a block for one group of layers."
    ),
}
VLLM = {**ARGUMENTS, **LOG, **METRICS}
