"""Events: what one line of a log says, whichever engine printed it; and the rules that tell it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ..evidence import Evidence, Log, LogLine
from ..figure import Figure, Kind, Source
from ..quoting import in_quotes
from .quantities import unit_of

Value = int | float | str
_ABSURD = 10**15
_QUOTE = 160


@dataclass(frozen=True, slots=True)
class Event:
    """One parsed line. `rank` is the engine's own tag ("DP1 TP6 EP6"), "" where it prints none."""

    step: Enum
    rank: str
    time: str
    line: LogLine
    values: Mapping[str, Value] = field(default_factory=dict)


class LineRule(NamedTuple):
    """A kind of line: a literal that stands in every such line, and the quantities in it as named groups of a pattern,
    which is compiled when the first such line is met.
    """

    step: Enum
    needle: str
    pattern: str

    def match(self, body: str) -> re.Match[str] | None:
        return re.search(self.pattern, body) if says(body, self.needle) else None


def says(body: str, needle: str) -> bool:
    """Does the engine say it itself, not in the text of a request that it logs?"""
    place = body.find(needle)
    return place >= 0 and not in_quotes(body, place)


def values_of(match: re.Match[str]) -> dict[str, Value]:
    return numbers((name, text) for name, text in match.groupdict().items() if text is not None)


def numbers(pairs: Iterable[tuple[str, str]], words: frozenset[str] = frozenset()) -> dict[str, Value]:
    """Whole numbers, fractions, or the words themselves. What is too large to be a quantity is left out. `words`: names
    whose digits count nothing.
    """
    found = {name: text if name in words else _number(text) for name, text in pairs}
    return {name: value for name, value in found.items() if isinstance(value, str) or value < _ABSURD}


def _number(text: str) -> Value:
    """`1,048,576` too: some engines group digits."""
    plain = text.replace(",", "") if _GROUPED.fullmatch(text) else text
    try:
        return float(plain) if "." in plain else int(plain)
    except ValueError:
        return text


_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")


def source_of(evidence: Evidence, event: Event, quote: str = "") -> Source:
    """The line of an event, with its own words where none are given."""
    stream = f"{evidence.place} [{evidence.origin.stream}]" if evidence.origin.stream else evidence.place
    return Source(stream, place_of(evidence, event.line), quote or event.line.text[:_QUOTE])


def place_of(evidence: Evidence, line: LogLine) -> str:
    """Where a line stands in its log: `line 812`, `byte 90210`, `2026-11-30T13:12:04+00:00, read as line 12`."""
    log = evidence.content
    if isinstance(log, Log) and log.collected:
        return f"{line.time}, read as line {line.number}" if line.time else f"read as line {line.number}"
    return f"{'line' if isinstance(log, Log) and log.numbered else 'byte'} {line.number}"


def figure_of(name: str, value: Value, evidence: Evidence, event: Event, quote: str = "") -> Figure:
    source = source_of(evidence, event, quote)
    return Figure(name, value, unit_of(name), Kind.READ, source, observed_at=event.time or None)


def first(events: Iterable[Event], *steps: Enum) -> Event | None:
    return next((event for event in events if event.step in steps), None)


def needles(rules: Sequence[LineRule], *more: bytes) -> re.Pattern[bytes]:
    """What a log reader has to keep for these rules: their literals, and further patterns."""
    literals = sorted({re.escape(rule.needle.encode()) for rule in rules})
    return re.compile(b"|".join([*literals, *more]))
