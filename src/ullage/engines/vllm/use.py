"""Use over the data-parallel engines: counts add up, shares are the fullest's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...figure import Figure, derived
from ..quantities import unit_of

_SHARES = ("kv_cache_usage_perc", "kv_cache_usage_percent", "cpu_kv_cache_usage_percent")
_NO_SUM = ("prefix_cache_hit_percent", "external_prefix_cache_hit_percent")
Engines = Mapping[str, Mapping[str, Figure]]


class Used(NamedTuple):
    together: dict[str, Figure]
    by_engine: dict[str, dict[str, Figure]]  # empty where there is one


def over_engines(engines: Engines) -> Used:
    """A count that one of the engines does not state has no sum."""
    names = dict.fromkeys(name for figures in engines.values() for name in figures)
    together = {}
    for name in names:
        figures = tuple(found[name] for found in engines.values() if name in found)
        if len(figures) == len(engines) or name in _SHARES:
            together[name] = _together(name, figures)
    return Used(together, {rank: dict(found) for rank, found in engines.items()} if len(engines) > 1 else {})


def _together(name: str, figures: tuple[Figure, ...]) -> Figure:
    if len(figures) == 1:
        return figures[0]
    numbers = [figure.number for figure in figures]
    if name in _SHARES:
        return derived(name, max(numbers), unit_of(name), figures, f"the fullest of {len(figures)} engines")
    if name in _NO_SUM:
        return derived(name, min(numbers), unit_of(name), figures, f"the least of {len(figures)} engines")
    return derived(name, sum(numbers), unit_of(name), figures, f"sum over {len(figures)} engines")
