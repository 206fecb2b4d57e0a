"""Pools: what a server has a fixed amount of."""

from __future__ import annotations

from dataclasses import dataclass

from ..figure import Figure
from .admission import Rule
from .demand import Holds
from .request import Shape


@dataclass(frozen=True, slots=True)
class Pool:
    """Something a server has a fixed amount of. `size` is of one partition; a request lives in one partition."""

    name: str
    unit: str
    size: Figure
    rule: Rule | None  # None: nobody asks at the door whether a request will fit
    demand: Holds | None  # None: what a request holds of it is not known; `unknown` says why
    partitions: int = 1
    beyond: str = ""  # what happens to one request more
    overflow: str = ""  # what happens when admitted requests outgrow the pool
    lever: str = ""  # the flag that sizes it
    inputs: tuple[Figure, ...] = ()  # the other figures its rule and demand stand on
    unknown: str = ""
    doubt: str = (
        ""  # what is not known, where the pool may be larger, or none: it then bounds the low end of `safe` only
    )

    within: str = ""  # the pool that this is a bound on a part of: its use is that pool's

    @property
    def counted(self) -> bool:
        return self.size.known and self.demand is not None

    def holds(self, shape: Shape) -> int:
        """Requests of this shape that all fit at their full length, over all partitions (a sum of floors)."""
        assert self.demand is not None, "ask `counted` first"
        free = self.size.count - self.demand.common(shape)
        each = self.demand.finished(shape)
        return self.partitions * max(0, free // each if each else self.size.count)
