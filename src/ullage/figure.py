"""Figure: one quantity with its unit, its kind, and where it came from. A missing one says why it is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

Value = int | float | str | bool


class Kind(str, Enum):
    """How a figure came to be known, from the strongest to the weakest."""

    READ = "read"  # the running system stated it
    CONFIGURED = "configured"  # somebody asked for it; not proof that it is in effect
    DEFAULT = "default"  # the engine's own value where nothing was asked
    DERIVED = "derived"  # arithmetic on other figures, by a formula of the engine
    PREDICTED = "predicted"  # what a change would give
    INFERRED = "inferred"  # the explanation that fits the other figures
    MISSING = "missing"  # not known; the note says why


class Source(NamedTuple):
    """One evidence item, and the place in it where a figure stands."""

    evidence: str  # a URL, a file, "--flags"
    place: str = ""  # "line 12", "internal_states[0].memory_usage.kvcache"
    quote: str = ""  # the (masked) words themselves, where they are short

    def __str__(self) -> str:
        where = f"{self.evidence} {self.place}".strip()
        return f"{where}: {self.quote}" if self.quote else where


@dataclass(frozen=True, slots=True)
class Figure:
    """A frozen quantity. A value needs a source, inputs, or (for a default) a note that states its ground."""

    name: str
    value: Value | None
    unit: str
    kind: Kind
    source: Source | None = None
    inputs: tuple[Figure, ...] = ()
    note: str = ""
    low: float | None = None
    high: float | None = None
    observed_at: str | None = None

    def __post_init__(self) -> None:
        if self.value is None:
            if self.kind is not Kind.MISSING or not self.note:
                raise ValueError(f"{self.name}: a figure without a value must be missing, with a reason")
            return
        for number in (self.value, self.low, self.high):
            if isinstance(number, float) and not math.isfinite(number):
                raise ValueError(f"{self.name}: {number} is not a quantity")
        if self.kind is Kind.MISSING or not (self.source or self.inputs or self._stands_on_its_note()):
            raise ValueError(f"{self.name}: a value needs a source")

    def _stands_on_its_note(self) -> bool:
        return self.kind is Kind.DEFAULT and bool(self.note)

    @property
    def known(self) -> bool:
        return self.value is not None

    @property
    def number(self) -> int | float:
        """The value of a known numeric figure. Raises TypeError for a missing or textual one: ask `known` first."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise TypeError(f"{self.name} is not a number: {self.value!r} ({self.note})")
        return self.value

    @property
    def count(self) -> int:
        """The value as a whole number (tokens, requests, slots)."""
        return int(self.number)

    @property
    def least(self) -> int | float:
        """The low end of the range; the value of a figure that is none."""
        return self.number if self.low is None else self.low

    @property
    def most(self) -> int | float:
        """The high end of the range; the value of a figure that is none."""
        return self.number if self.high is None else self.high

    def between(self, low: int | float, high: int | float) -> Figure:
        """The same quantity known as a range; as it is where the ends are one."""
        return replace(self, low=low, high=high) if low != high else self

    def renamed(self, name: str, note: str = "") -> Figure:
        """The same reading under the name of another quantity."""
        return replace(self, name=name, note=note or self.note)

    def walk(self) -> Iterator[Figure]:
        """This figure and all it was computed from, depth first."""
        yield self
        for figure in self.inputs:
            yield from figure.walk()


def read(name: str, value: Value, unit: str, source: Source, *, note: str = "", at: str | None = None) -> Figure:
    return Figure(name, value, unit, Kind.READ, source, note=note, observed_at=at)


def configured(name: str, value: Value, unit: str, source: Source, *, note: str = "") -> Figure:
    return Figure(name, value, unit, Kind.CONFIGURED, source, note=note)


def default(name: str, value: Value, unit: str, note: str) -> Figure:
    return Figure(name, value, unit, Kind.DEFAULT, note=note)


def derived(name: str, value: Value, unit: str, inputs: tuple[Figure, ...], note: str = "") -> Figure:
    return Figure(name, value, unit, Kind.DERIVED, inputs=inputs, note=note)


def inferred(name: str, value: Value, unit: str, inputs: tuple[Figure, ...], note: str) -> Figure:
    return Figure(name, value, unit, Kind.INFERRED, inputs=inputs, note=note)


def missing(name: str, unit: str, reason: str) -> Figure:
    return Figure(name, None, unit, Kind.MISSING, note=reason)
