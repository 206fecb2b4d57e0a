"""SGLang's evidence joined: whom it trusts, the use over several nodes, and the gauge kept beside the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...figure import Figure
from ..facts import Facts
from ..join import Joined, first_of, ordered
from ..join import join as join_parts
from ..trust import Trust
from .ranks import POOL, over_ranks

TRUST = Trust(
    # What a server states of itself when asked outranks its log (which may be of another start); gauges can be stale.
    effective=("server_info", "loads", "metrics", "log", "models", "model_info", "flags"),
    usage=("loads", "metrics", "server_info", "log"),
    asked=("flags", "server_info", "log", "model_info", "models", "metrics"),
    identity=("model_path", "served_model_name", "port"),
    pool=POOL,
    # Arguments that SGLang prints after it has resolved them, and that nothing lowers later: printed by the server,
    # they are in effect.
    resolved=frozenset(
        """page_size chunked_prefill_size max_prefill_tokens mem_fraction_static tp_size pp_size dp_size ep_size
        dcp_size max_queued_requests schedule_conservativeness swa_full_tokens_ratio kv_cache_dtype
        disable_radix_cache num_reserved_decode_tokens disaggregation_decode_extra_slots
        speculative_num_draft_tokens enable_metrics host port""".split()
    ),
    resolved_by=("server_info", "log"),
    loose=frozenset(["version", "model_class"]),
    asked_by=("server_info", "flags"),
)


def join(parts: list[Facts]) -> Joined:
    joined = join_parts(parts, TRUST)
    joined.usage = first_of(ordered(_over_nodes(parts), TRUST.usage), "usage")
    joined.usage.update(_gauge_beside_load(parts))
    return joined


def _over_nodes(parts: list[Facts]) -> list[Facts]:
    """Use over the data-parallel ranks of all nodes, where the log of each node holds those of its own."""
    logs = [p for p in parts if p.topic == "log"]
    if len({frozenset(p.rank_usage) for p in logs}) < 2:
        return parts
    told = {name for p in logs for name in p.usage}
    ranks = {rank: found for p in reversed(logs) for rank, found in p.rank_usage.items()}
    used = over_ranks({rank: {n: f for n, f in found.items() if n in told} for rank, found in ranks.items()})
    return [replace(logs[0], usage={**logs[0].usage, **used}), *(p for p in parts if p.topic != "log")]


def _gauge_beside_load(parts: Sequence[Facts]) -> dict[str, Figure]:
    """Where /v1/loads was asked too, the gauge of running requests is kept beside it: the page may be stale."""
    by_topic = {p.topic: p.usage.get("num_running_reqs") for p in parts}
    gauge = by_topic.get("metrics")
    return (
        {"gauge_num_running_reqs": gauge.renamed("gauge_num_running_reqs")} if gauge and by_topic.get("loads") else {}
    )
