"""What is on tap: what a lever would buy of the memory that is idle, and what else gives memory back. Predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..figure import Figure, Kind

NO_SETTING = "no setting leaves this margin: give a smaller --margin"


class Setting(NamedTuple):
    """The lever at a value: the pool that follows, and what is then left of the memory, in bytes."""

    value: float
    pool: Figure
    left: Figure


class Way(NamedTuple):
    """Something else that gives memory back. `gives`: bytes on each GPU, or tokens of the pool.

    `worth`: what the bytes would buy of the pool, and `by`: through what.
    """

    what: str  # the change, with the flag and its value
    gives: Figure
    price: str
    worth: Figure | None = None
    by: str = ""

    def worth_at(self, cost: Figure, unit: str, by: str) -> Way:
        """With what its bytes buy, at `cost` bytes for one of the pool."""
        if self.gives.unit != "bytes" or not cost.number:
            return self
        count, note = int(self.gives.number / cost.number), "bytes / bytes of one"
        inputs = (self.gives, cost)
        return self._replace(worth=Figure("worth", count, unit, Kind.PREDICTED, inputs=inputs, note=note), by=by)


class Check(NamedTuple):
    """A figure that is stated, beside what the same formula gives for it."""

    of: str
    predicted: Figure
    stated: Figure

    @property
    def error(self) -> float:
        """Of the stated figure: 0.01 is one percent too many."""
        return (self.predicted.number - self.stated.number) / self.stated.number if self.stated.number else 0.0


class OnTap(NamedTuple):
    """`now` and `pool`: the lever and its pool as they are. `each`: what +0.01 of a fraction buys of the pool.

    `best`: the most that leaves the margin. `unknown`: why nothing can be predicted, where that is so.
    """

    lever: str
    now: Figure | None = None
    pool: Figure | None = None
    left: Figure | None = None
    each: Figure | None = None
    best: Setting | None = None
    settings: tuple[Setting, ...] = ()
    ways: tuple[Way, ...] = ()
    checks: tuple[Check, ...] = ()
    warns: tuple[str, ...] = ()  # what to know before `best` is set
    says: tuple[str, ...] = ()
    grows: tuple[Figure, ...] = ()  # what grows with the context flag and not with use
    unknown: str = ""


def fractions_between(now: float, best: float, most: int = 8) -> list[float]:
    """Values to show: as it is, one hundredth more, every five hundredths, the best; fewer where they are many."""
    if best <= now:
        return [now] if best == now else [best, now]
    fives = [n / 100 for n in range(5, 100, 5) if now + 0.011 < n / 100 < best - 0.001]
    steps = fives[:: max(1, math.ceil(len(fives) / (most - 3)))] if fives else []
    return sorted({now, min(round(now + 0.01, 4), best), *steps, best})


def hundredths(value: float) -> float:
    """Down to two decimals: 0.9799999 that should be 0.98 stays so."""
    return math.floor(value * 100 + 1e-6) / 100


def named(figures: Sequence[Figure | None]) -> tuple[Figure, ...]:
    """Those that are known."""
    return tuple(figure for figure in figures if figure is not None and figure.known)
