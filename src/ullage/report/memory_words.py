"""Bytes as words: GiB with two decimals (MiB for what is smaller than that), and a range where it tells something."""

from __future__ import annotations

from typing import NamedTuple

from ..capacity.ledger import Ledger
from ..figure import Figure, Kind
from ..units import GIB, MIB

LABEL = 23  # columns of a label and the space after it
_TELLING = 0.0101  # of a unit: a range wider than what one printed figure leaves open is told
_LARGE = 4 * GIB
_SIZES = ("GiB", "MiB", "bytes", "GB")


class Scale(NamedTuple):
    """The unit of one ledger."""

    unit: str
    size: int

    def told(self, figure: Figure) -> str:
        return self.number(figure.number) if figure.known else "not known"

    def number(self, value: int | float) -> str:
        return f"{value / self.size:,.2f}".replace("-0.00", "0.00")

    def range_of(self, figure: Figure) -> str:
        """`0.42 to 0.46`; nothing for a figure that is exact, or known to a step of its print."""
        if not figure.known or figure.low is None or figure.high is None:
            return ""
        if (figure.high - figure.low) / self.size <= _TELLING:
            return ""
        return f"{self.number(figure.low)} to {self.number(figure.high)}"


def scale_of(ledger: Ledger) -> Scale:
    """GiB, or MiB where the largest line is small."""
    sizes = [part.size.number for part in ledger.parts] + ([ledger.whole.number] if ledger.whole.known else [])
    return Scale("GiB", GIB) if max(sizes, default=_LARGE) >= _LARGE else Scale("MiB", MIB)


def is_reckoned(figure: Figure) -> bool:
    """Does it come from a formula, on counts, and not from sizes that were measured or stated?"""
    leaves = [part for part in figure.walk() if not part.inputs]
    return any(part.unit not in _SIZES or part.kind is Kind.DEFAULT for part in leaves)


def in_words(size: int) -> str:
    """`1 GiB`, `512 MiB`, `1.5 GiB`; small ones in bytes."""
    if size < MIB:
        return f"{size:,} bytes"
    return f"{size / GIB:,.4g} GiB" if size >= GIB else f"{size / MIB:,.4g} MiB"
