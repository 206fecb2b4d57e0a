"""Admission: how many requests of a shape a scheduler lets into one partition of a pool. Engines supply the rules."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from .demand import Holds
from .request import Shape


class Admitted(NamedTuple):
    """Requests let in: one number, or a range where the rule moves, and the number at its present setting if known."""

    low: int
    high: int
    now: int | None = None

    @classmethod
    def exactly(cls, count: int) -> Admitted:
        return cls(count, count)

    def times(self, partitions: int) -> Admitted:
        return Admitted(
            self.low * partitions, self.high * partitions, None if self.now is None else self.now * partitions
        )


class Rule(Protocol):
    """An engine's test at the door of a pool of `size` units."""

    def admits(self, size: int, demand: Holds, shape: Shape) -> Admitted: ...

    def why(self, size: int, demand: Holds, shape: Shape, count: int) -> str:
        """The sum that lets `count` in and turns the next away, in words."""
        ...


class FitsNow:
    """A request is let in while what it holds at admission is free; nothing is kept back for its growth."""

    def admits(self, size: int, demand: Holds, shape: Shape) -> Admitted:
        each = demand.admitted(shape)
        return Admitted.exactly(max(0, (size - demand.common(shape)) // each) if each else size)

    def why(self, size: int, demand: Holds, shape: Shape, count: int) -> str:
        each, common = demand.admitted(shape), demand.common(shape)
        return spelled(
            size, count, each, common, f"each holds {each:,}" + (f", all share {common:,}" if common else "")
        )


def spelled(size: int, count: int, each: int, once: int, opening: str) -> str:
    """`75 take 2,438,400 of 2,454,784; one more needs 2,470,912`, after the words that say what one takes."""
    taken, next_taken = once + count * each, once + (count + 1) * each
    return f"{opening}; {count:,} take {taken:,} of {size:,}, one more needs {next_taken:,}"
