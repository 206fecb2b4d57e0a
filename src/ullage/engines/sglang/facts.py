"""SGLang's arguments and quantities as figures: which of them bear on capacity, and what is no value of one."""

from __future__ import annotations

from collections.abc import Mapping

from ...figure import Figure, Kind, Source
from ..facts import plain
from ..quantities import unit_of
from ..server import Role

# Arguments that bear on capacity or identity, by the name they have in ServerArgs. Others are not carried along.
ARGUMENTS = frozenset(
    """model_path served_model_name host port tp_size pp_size dp_size ep_size dcp_size attn_cp_size nnodes node_rank
    dist_init_addr enable_dp_attention context_length mem_fraction_static max_running_requests max_queued_requests
    max_total_tokens chunked_prefill_size max_prefill_tokens prefill_max_requests page_size schedule_policy
    schedule_conservativeness swa_full_tokens_ratio swa_prefix_tails disable_hybrid_swa_memory kv_cache_dtype dtype
    quantization disable_radix_cache disable_cuda_graph cuda_graph_max_bs cuda_graph_max_bs_decode
    speculative_algorithm speculative_num_draft_tokens max_mamba_cache_size mamba_full_memory_ratio
    mamba_scheduler_strategy mamba_radix_cache_strategy disable_overlap_schedule
    enable_hierarchical_cache hicache_ratio hicache_size cpu_offload_gb disaggregation_mode
    disaggregation_transfer_backend disaggregation_bootstrap_port num_reserved_decode_tokens
    disaggregation_decode_extra_slots disaggregation_decode_enable_radix_cache enable_metrics api_key admin_api_key
    allow_auto_truncate preferred_sampling_params attention_backend base_gpu_id decode_log_interval
    gpu_id_step""".split()
)


# Arguments that are words or switches. All others are numbers, and sizes and lengths are at least one.
_NO_NUMBERS = frozenset(
    """model_path served_model_name host dist_init_addr schedule_policy kv_cache_dtype dtype quantization
    speculative_algorithm mamba_scheduler_strategy mamba_radix_cache_strategy disable_overlap_schedule
    disaggregation_mode disaggregation_transfer_backend api_key
    admin_api_key preferred_sampling_params attention_backend enable_dp_attention disable_hybrid_swa_memory
    disable_radix_cache disable_cuda_graph enable_hierarchical_cache disaggregation_decode_enable_radix_cache
    enable_metrics allow_auto_truncate""".split()
)
_SIZES = frozenset(
    ["page_size", "tp_size", "pp_size", "dp_size", "ep_size", "dcp_size", "attn_cp_size", "nnodes", "context_length"]
)


def argument_figures(values: Mapping[str, object], source: Source, kind: Kind = Kind.CONFIGURED) -> dict[str, Figure]:
    """The arguments that are set. One that stands there as None was not asked for, and gives no figure."""
    figures = {}
    for name in sorted(ARGUMENTS & values.keys()):
        value = values[name]
        if isinstance(value, (dict, list, tuple)):
            value = str(value)
        if isinstance(value, (int, float, str, bool)) and plain(value) and _fits(name, value):
            figures[name] = Figure(
                name, value, unit_of(name), kind, source._replace(place=f"{source.place} {name}".strip())
            )
    return figures


def _fits(name: str, value: object) -> bool:
    """A number where the engine takes one: a typing error or a broken answer is no reading."""
    if name in _NO_NUMBERS:
        return True
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and (name not in _SIZES or (isinstance(value, int) and value >= 1))


def role_of(mode: object) -> Role:
    """`disaggregation_mode` (or a metrics label `engine_type`) as a role; "null" is an aggregated server."""
    if mode in ("prefill", "decode"):
        return Role(str(mode))
    return Role.UNIFIED if mode in ("null", "unified", "None") else Role.UNKNOWN
