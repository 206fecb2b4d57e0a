"""What the cases call the quantities of vLLM, and what Ullage calls them."""

from __future__ import annotations

NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    # start-up logs
    (r"max_total_num_tokens|pool_tokens", ("kv_cache_size_tokens", "pool_tokens")),
    (r"max_concurrency(_x)?", ("kv_cache_max_concurrency",)),
    (r"device_blocks", ("num_gpu_blocks",)),
    (r"cpu_blocks", ("num_cpu_blocks",)),
    (r"weights_gb|weights_gib|model_gib_per_rank", ("weights_gib",)),
    (r"graph_mem_gb|graph_gib", ("graph_gib",)),
    (r"total_gpu_memory_gib", ("total_gib",)),
    (r"desired_gib|wanted_gib", ("budget_gib",)),
    (r"needed_gib", ("needed_kv_gib",)),
    (r"pid|main_pid", ("api_server_pid",)),
    (r"max_len_possible", ("estimated_max_model_len",)),
    (r"kv_gib", ("available_kv_gib",)),
    (r"kv_bytes", ("kv_bytes",)),
    (r"estimated_cudagraph_gib", ("estimated_cudagraph_gib",)),
    (r"equivalent_utilization_without_graph_profiling", ("equivalent_utilization",)),
    (r"utilization", ("gpu_memory_utilization",)),
    (r"metrics_kv_cache_size_tokens", ("kv_cache_size_tokens",)),
    (r"tp", ("tensor_parallel_size",)),
    # metrics and run-time logs
    (r"running|waiting|swapped", (r"num_requests_\g<0>",)),
    (r"kv_usage", ("kv_cache_usage_perc",)),
    (r"kv_percent", ("kv_cache_usage_percent",)),
    (r"prefix_hit_percent", ("prefix_cache_hit_percent",)),
    (r"gen_tok_s", ("generation_tokens_per_s",)),
    (r"prompt_tok_s", ("prompt_tokens_per_s",)),
    (r"(prompt|generation)_tokens_total", (r"\1_tokens",)),
    (r"(prompt|generation)_tokens_sum", (r"request_\1_tokens_sum",)),
    (r"preemptions", ("num_preemptions",)),
    (r"ttft_count", ("time_to_first_token_seconds_count",)),
    (r"success_(\w+)", (r"request_success_\1",)),
    (r"override", ("num_gpu_blocks_override",)),
)
