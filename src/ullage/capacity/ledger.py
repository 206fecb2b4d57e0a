"""The ledger of one device: where its memory went. Parts and what is unaccounted for sum to the whole, to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..figure import Figure, missing
from .ledger_sums import less

UNACCOUNTED = "unaccounted"
_PID = re.compile(r"(?<=^process )\d+ ")
_REST = "the whole less all parts; below zero, the stated figures overlap by that much"


@dataclass(frozen=True, slots=True)
class Part:
    """Something that takes memory, in bytes. `of_it`: what it consists of, which is not counted again."""

    name: str
    size: Figure
    of_it: tuple[Part, ...] = ()
    free: bool = False  # nobody holds it: it is on tap
    why: str = ""  # one line for the reader

    def within(self) -> Iterator[Part]:
        """All that stands below it."""
        for part in self.of_it:
            yield part
            yield from part.within()


@dataclass(frozen=True, slots=True)
class Ledger:
    """`whole`: what is shared out here, in bytes: the card's memory, or what was free when the server began.

    `usable`: what the server could have at most. `unknown`: lines that cannot be told, missing figures with reasons.
    """

    device: str
    whole: Figure
    parts: tuple[Part, ...]
    usable: Figure | None = None
    held: Figure | None = None  # what the driver counts for the server's own processes
    server: str = ""
    of_whole: str = "total"  # what `whole` is
    unknown: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def unaccounted(self) -> Figure:
        """What no part explains. Missing where the whole is."""
        if not self.whole.known:
            return missing(UNACCOUNTED, "bytes", f"the whole is not known: {self.whole.note}")
        return less(UNACCOUNTED, self.whole, [part.size for part in self.parts], _REST)

    @property
    def free(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.free)

    @property
    def left(self) -> Figure | None:
        """What can be given away: what is free, less what is kept of it."""
        if not self.free:
            return None
        first = self.free[0]
        kept = [part.size for part in first.of_it]
        return less(first.size.name, first.size, kept, "less what is kept of it") if kept else first.size

    def part(self, name: str) -> Part | None:
        """The part of this name, at whatever depth."""
        every = (found for top in self.parts for found in (top, *top.within()))
        return next((found for found in every if found.name == name), None)

    def differs(self, other: Ledger) -> float:
        """By how many bytes the two differ at most, in any line; infinity where their lines are not the same."""
        mine, others = self._lines(), other._lines()
        if mine.keys() != others.keys() or self.remarks != other.remarks:
            return float("inf")
        return max((abs(mine[name] - others[name]) for name in mine), default=0)

    def _lines(self) -> dict[str, int | float]:
        lines: dict[str, int | float] = {"": self.whole.number} if self.whole.known else {}
        for part in self.parts:
            name = "free" if part.free else _PID.sub("", part.name)
            lines[name] = lines.get(name, 0) + part.size.number
        return lines


def ledger(device: str, whole: Figure, parts: Sequence[Part | None]) -> Ledger:
    """A ledger of the parts that are known."""
    return Ledger(device, whole, tuple(part for part in parts if part is not None))


def with_rest(part: Part, name: str) -> Part:
    """The part with a last line of what the lines below it leave of it."""
    if not part.of_it:
        return part
    rest = less(name, part.size, [inner.size for inner in part.of_it], "what these leave of it")
    return replace(part, of_it=(*part.of_it, Part(name, rest)))
