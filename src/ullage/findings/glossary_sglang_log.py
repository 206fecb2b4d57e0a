"""Figures that are read from lines of SGLang's log. What it prints as GB is GiB."""

from __future__ import annotations

SGLANG_LOG = {
    "distributed_gib": (
        "SGLang: GiB that setting up NCCL and the ranks took, before any weights. They are gone before the fraction"
        " is reckoned."
    ),
    "profiled_available_gib": 'SGLang: GiB that were free after the load, as the line "Memory profiling" states.',
    "profiled_total_gib": (
        'SGLang: GiB that were free before the load, as the line "Memory profiling" states under the name of a total.'
        " The fraction is a share of it."
    ),
    "profiled_mem_fraction": (
        'SGLang: the fraction that the pool was reckoned with, as the line "Memory profiling" states.'
    ),
    "rest_memory_gib": 'SGLang: GiB that the fraction left for the pools, as the line "Memory profiling" states.',
    "pool_budget_gib": "SGLang: GiB that DeepSeek-V4's pools were given, as the line of their calculation states.",
    "calculated_tokens": (
        "SGLang: tokens that DeepSeek-V4's pools hold by memory, as the line of their calculation states, before"
        " --max-total-tokens."
    ),
    "c128_state_fixed_gib": (
        "SGLang: GiB of DeepSeek-V4's compressor states that are fixed by the running requests, whatever the pool."
    ),
    "swa_fixed_gib": (
        "SGLang: GiB of DeepSeek-V4's window pool that are fixed by the running requests, whatever the pool."
    ),
    "swa_sizing_mode": (
        "SGLang: how DeepSeek-V4's window pool was sized: `cap` by the running requests, `ratio` as a share of the"
        " pool, or `ring`."
    ),
    "full_tokens": (
        "SGLang: tokens of the pool of full-attention layers, as a sizing line states. Where --max-total-tokens caps"
        " it, the first such line states more than is made."
    ),
    "c4_tokens": "SGLang: slots of DeepSeek-V4's pool that keeps one for 4 tokens: full tokens / 4.",
    "c128_tokens": "SGLang: slots of DeepSeek-V4's pool that keeps one for 128 tokens: full tokens / 128.",
    "c4_state_slots": "SGLang: slots of DeepSeek-V4's compressor states for 4 tokens; they go with the window pool.",
    "c128_state_slots": "SGLang: slots of DeepSeek-V4's compressor states for 128 tokens.",
    "full_and_swa_kv_gib": (
        "SGLang: GiB of keys and values of all layers with those of windows, as one line states them."
    ),
    "kv_line_tokens": (
        "SGLang: tokens of the line that says that a KV cache is allocated. The pool, but for models with windows,"
        " whose line may be the window's."
    ),
    "kv_k_gib": "SGLang: GiB of the keys of the KV pool on one GPU, as the line that allocates it states.",
    "kv_v_gib": "SGLang: GiB of the values of the KV pool on one GPU, as the line that allocates it states.",
    "mamba_conv_state_gib": "SGLang: GiB of the convolution states of recurrent layers, one for each state slot.",
    "mamba_ssm_state_gib": (
        "SGLang: GiB of the states of recurrent layers, one for each state slot; they do not grow with context."
    ),
    "mamba_intermediate_ssm_gib": (
        "SGLang: GiB of recurrent states that speculative decoding keeps for its draft tokens."
    ),
    "mamba_intermediate_conv_gib": (
        "SGLang: GiB of convolution windows that speculative decoding keeps for its draft tokens."
    ),
    "graph_bs": (
        "SGLang: the batch that the last step of the capture was at. Capturing goes from the largest batch down."
    ),
    "avail_at_capture_gib": "SGLang: GiB that were free at a step of the capture of CUDA graphs.",
    "graph_max_bs": "SGLang: the largest batch that CUDA graphs were captured for, of the sizes that a line lists.",
    "avail_before_graph_gib": "SGLang: GiB that were free before CUDA graphs were captured.",
    "avail_after_graph_gib": "SGLang: GiB that were free after CUDA graphs were captured.",
    "reduced_max_running": (
        "SGLang: running requests of a data-parallel rank after the engine lowered them to what the pool allows, as its"
        " line states."
    ),
    "requested_max_running": "SGLang: running requests that were asked for, as the line that lowers them states.",
    "mamba_capped_max_running": (
        "SGLang: running requests that the state slots of recurrent layers allow, as a line states."
    ),
    "ignored_max_total_tokens": (
        "SGLang: a --max-total-tokens above what memory holds, as the line that ignores it states: the argument only"
        " makes a pool smaller."
    ),
    "post_capture_tokens": (
        "SGLang: tokens of the pool as it was sized again after the graphs were captured. What earlier lines state was"
        " an upper bound, in addresses."
    ),
    "post_capture_k_gib": "SGLang: GiB of the keys of a pool that was sized after the capture of graphs.",
    "post_capture_v_gib": "SGLang: GiB of the values of a pool that was sized after the capture of graphs.",
    "post_capture_kv_gib": "SGLang: GiB of keys and values of a pool that was sized after the capture of graphs.",
    "post_capture_free_gib": "SGLang: GiB that were free when the pool was sized after the capture of graphs.",
    "hicache_host_gb": (
        "SGLang: GB of 10^9 bytes of host memory that the host tier of the prefix cache took, over all ranks that write"
        " into the log."
    ),
    "ranks_seen": "SGLang: the ranks whose tags stand before the lines of this log.",
    "nccl_ranks": "SGLang: ranks of the group that NCCL set up, as its own line states: GPUs that serve together.",
    "deprecated_endpoint": (
        "SGLang: an endpoint that somebody asks and that a later release will not have, as the log warns."
    ),
    "retraction_events_in_log": (
        "SGLang: how often the pool ran full in the lines that were read; each throws back some requests."
    ),
    "gained_tokens": "SGLang: tokens that the last retraction gave back to the pool, with the range over all.",
    "new_token_ratio_at_retraction": (
        "SGLang: the new-token ratio that the last retraction set. It falls again from there."
    ),
    "new_token_ratio_before_retraction": "SGLang: the new-token ratio when the pool ran full the last time.",
    "new_token_ratio_range": (
        "SGLang: between what the share of kept-back output moves: from 0.7 down to 0.098, times"
        " --schedule-conservativeness."
    ),
    "swa_kv_line_tokens": "SGLang: tokens of the window pool, as the line that allocates it states.",
    "swa_kv_k_gib": "SGLang: GiB of the keys of the window pool on one GPU, as the line that allocates it states.",
    "swa_kv_v_gib": "SGLang: GiB of the values of the window pool on one GPU, as the line that allocates it states.",
    "swa_kv_total_gib": "SGLang: GiB of the keys and values of the window pool on one GPU.",
    "swa_kv_cache_dtype": "SGLang: the number type of keys and values in the window pool.",
}
