"""Data-parallel ranks: counts add up over them, shares are the fullest's, and of their pools the least counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...figure import Figure, Kind, Source, derived
from ..facts import readings
from ..quantities import unit_of

POOL = "max_total_num_tokens"
_SUMMED = ("num_running_reqs", "num_queue_reqs", "num_used_tokens", "gen_tokens_per_s")

_LEAST = (POOL, "swa_max_total_num_tokens", "max_running_requests")

Reading = tuple[str, object, Source]
Ranks = Mapping[str, Mapping[str, Figure]]


def over_ranks(ranks: Ranks) -> dict[str, Figure]:
    """Counts summed over data-parallel ranks, shares by the fullest. A count that one of them does not state has no
    sum; the rank "" stands for all.
    """
    usage: dict[str, Figure] = {}
    for name in dict.fromkeys(name for rank in ranks.values() for name in rank):
        figures = tuple(rank[name] for rank in ranks.values() if name in rank)
        if not (is_count(name) and any(rank and name not in found for rank, found in ranks.items())):
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


def rank_limits(found: Iterable[tuple[object, Iterable[Reading]]]) -> dict[str, dict[str, Figure]]:
    """The pools and limits of each rank by (rank, readings), where several are told apart."""
    limits = {f"DP{rank}": readings(r for r in stated if r[0] in _LEAST) for rank, stated in found}
    return {rank: figures for rank, figures in limits.items() if figures} if len(limits) > 1 else {}


def least_of(ranks: Ranks) -> dict[str, Figure]:
    """The pools and limits by the least rank, with the range, where ranks differ."""
    stated = {name: [rank[name] for rank in ranks.values() if name in rank] for name in _LEAST}
    return {name: _least(name, figures) for name, figures in stated.items() if len({f.value for f in figures}) > 1}


def _least(name: str, figures: list[Figure]) -> Figure:
    low, high = min(f.number for f in figures), max(f.number for f in figures)
    note = "the least of the data-parallel ranks"
    return Figure(name, low, unit_of(name), Kind.DERIVED, inputs=tuple(figures), note=note, low=low, high=high)


def ranks_counted(ranks: Iterable[object], source: Source, where: str) -> dict[str, Figure]:
    """How many data-parallel ranks there are, where all that were seen are those from 0 on."""
    seen = {str(rank) for rank in ranks}
    if len(seen) < 2 or seen != {str(n) for n in range(len(seen))}:
        return {}
    note = f"the data-parallel ranks {where}"
    return {"dp_size": Figure("dp_size", len(seen), "", Kind.INFERRED, source, note=note)}
