"""Data-parallel ranks: counts add up over them, shares are the fullest's, and of their pools the least counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...figure import Figure, Kind, Source, derived
from .facts import readings
from .quantities import unit_of

POOL = "max_total_num_tokens"
_SUMMED = ("num_running_reqs", "num_queue_reqs", "num_used_tokens", "gen_tokens_per_s")

Ranks = Mapping[str, Mapping[str, Figure]]


def over_ranks(ranks: Ranks) -> dict[str, Figure]:
    """Counts summed over data-parallel ranks, shares by the fullest."""
    usage: dict[str, Figure] = {}
    for name in dict.fromkeys(name for rank in ranks.values() for name in rank):
        figures = tuple(rank[name] for rank in ranks.values() if name in rank)
        usage[name] = together(name, figures)
    return usage


def together(name: str, figures: tuple[Figure, ...]) -> Figure:
    """One quantity of several ranks: a count summed, a share by the fullest."""
    if len(figures) == 1:
        return figures[0]
    numbers = [f.number for f in figures]
    if is_count(name):
        return derived(name, sum(numbers), unit_of(name), figures, f"sum over {len(figures)} data-parallel ranks")
    return derived(name, max(numbers), unit_of(name), figures, f"the fullest of {len(figures)} data-parallel ranks")


def is_count(name: str) -> bool:
    """Does the quantity add up over ranks? Shares, ratios and rates per request do not."""
    return name in _SUMMED or name.endswith(("_reqs", "_tokens", "_slots", "_total", "_tokens_per_s"))


def rank_pools(sizes: Iterable[tuple[object, object, Source]]) -> dict[str, dict[str, Figure]]:
    """The pool of each rank by (rank, size, source), where several are told apart."""
    pools = {f"DP{rank}": readings([(POOL, size, source)]) for rank, size, source in sizes}
    return {rank: pool for rank, pool in pools.items() if pool} if len(pools) > 1 else {}


def least_pool(ranks: Ranks) -> dict[str, Figure]:
    """The pool by the least rank, with the range, where ranks hold different pools."""
    sizes = tuple(rank[POOL] for rank in ranks.values() if POOL in rank)
    low, high = min((f.number for f in sizes), default=0), max((f.number for f in sizes), default=0)
    if low == high:
        return {}
    note = "the least of the data-parallel ranks"
    return {POOL: Figure(POOL, low, "tokens", Kind.DERIVED, inputs=sizes, note=note, low=low, high=high)}


def ranks_counted(ranks: Iterable[object], source: Source, where: str) -> dict[str, Figure]:
    """How many data-parallel ranks there are, where all that were seen are those from 0 on."""
    seen = {str(rank) for rank in ranks}
    if len(seen) < 2 or seen != {str(n) for n in range(len(seen))}:
        return {}
    note = f"the data-parallel ranks {where}"
    return {"dp_size": Figure("dp_size", len(seen), "", Kind.INFERRED, source, note=note)}
