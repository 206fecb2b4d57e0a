"""Admission: how many requests of a shape a scheduler lets into one partition of a pool. Engines supply the rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .pool import Demand
    from .request import Shape


@dataclass(frozen=True, slots=True)
class Admitted:
    """Requests let in: one number, or a range where the rule moves, and the number at its present setting if known."""

    low: int
    high: int
    now: int | None = None

    @classmethod
    def exactly(cls, count: int) -> Admitted:
        return cls(count, count)

    def times(self, partitions: int) -> Admitted:
        return Admitted(self.low * partitions, self.high * partitions, None if self.now is None else self.now * partitions)


class Rule(Protocol):
    """An engine's test at the door of a pool of `size` units."""

    def admits(self, size: int, demand: Demand, shape: Shape) -> Admitted: ...


@dataclass(frozen=True, slots=True)
class FitsNow:
    """A request is let in while what it holds at admission is free; nothing is kept back for its growth."""

    def admits(self, size: int, demand: Demand, shape: Shape) -> Admitted:
        each = demand.admitted(shape)
        return Admitted.exactly(max(0, (size - demand.common(shape)) // each) if each else size)
