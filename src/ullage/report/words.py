"""Figures as words: exact counts, ranges, GiB, and a missing one as what it is."""

from __future__ import annotations

from ..figure import Figure, Kind

_MARKS = {Kind.PREDICTED: " (predicted)", Kind.INFERRED: " (inferred)", Kind.DEFAULT: " (default)"}


def value_of(figure: Figure) -> str:
    """The bare value: `2,454,784`, `0.83`, `41 to 74; now 68`, or `not known`."""
    if not figure.known:
        return "not set" if figure.note.startswith("not set") else "not known"
    if figure.low is not None and figure.high is not None and figure.low != figure.high:
        return f"{plain(figure.low)} to {plain(figure.high)}" + (
            f"; now {plain(figure.value)}" if "by the live ratio" in figure.note else ""
        )
    return plain(figure.value)


def mark_of(figure: Figure) -> str:
    """What it is where it is no reading: `default`."""
    return _MARKS.get(figure.kind, "").strip(" ()")


def plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return (
            f"{value:,.0f}"
            if value.is_integer() and abs(value) >= 1000
            else f"{value:,.4g}"
            if abs(value) < 1000
            else f"{value:,.2f}"
        )
    return str(value)


def with_unit(figure: Figure) -> str:
    """Value, unit, and a mark where it is no reading: `213,760 tokens (inferred)`."""
    unit = f" {unit_of(figure)}" if figure.known and figure.unit else ""
    return f"{value_of(figure)}{unit}{_MARKS.get(figure.kind, '')}"


def unit_of(figure: Figure) -> str:
    """`1 request`, `2 requests`."""
    is_one = figure.value == 1 and figure.low in (None, 1) and figure.high in (None, 1) and len(figure.unit) > 1
    return figure.unit.removesuffix("s") if is_one and type(figure.value) is int else figure.unit


def told(figure: Figure) -> str:
    """Name, value and the shortest form of where it came from, for the evidence line of a finding."""
    where = (
        f" [{figure.source}]"
        if figure.source and not figure.source.quote
        else f" [{figure.source.evidence} {figure.source.place}]"
        if figure.source
        else ""
    )
    return f"{figure.name} = {with_unit(figure)}{where}" if figure.known else f"{figure.name}: {figure.note}"


def ratio(figure: Figure) -> str:
    """A share of a pool as a percentage, or a range of it: `25%`, `6 to 25%`."""
    if not figure.known:
        return "not known"
    low, high = f"{figure.least:.0%}", f"{figure.most:.0%}"
    return high if low == high else f"{low.rstrip('%')} to {high}"
