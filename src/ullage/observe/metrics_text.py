"""Metrics pages in the Prometheus text format, also cut, pasted or doubled ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..evidence import Sample, Samples
from ..masking import Masker

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+|[nN]a[nN]|[iI]nf(?:inity)?)"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*"'
_LABELS = rf"\{{(?P<labels>(?:{_LABEL}(?:,{_LABEL})*,?)?)\}}"
_PLAIN = re.compile(rf"(?P<name>{_NAME})(?:{_LABELS})?[ \t]+(?P<value>{_NUMBER})(?:[ \t]+-?[0-9]+)?")
_PLAIN_LABEL = re.compile(r'([a-zA-Z0-9_]+)="([^"]*)"')
_SAMPLE = re.compile(rf"\s*{_NAME}\s*(?:\{{.*\}})?\s*{_NUMBER}(?:\s+-?[0-9]+)?\s*(?:# .*)?$")
_COMMENT = re.compile(rf"\s*#\s+(?:HELP|TYPE)\s+{_NAME}\b")
_SHOWN_PROBLEMS = 20
_SHOWN_TEXT = 60

Series = tuple[str, tuple[tuple[str, str], ...]]


def looks_like_metrics(text: str) -> bool:
    """True when a comment of the format stands near the top, or most of the first lines are samples."""
    head = [line for line in text[:65536].splitlines()[:60] if line.strip()]
    if any(_COMMENT.match(line) for line in head[:20]):
        return True
    lines = [line for line in head if not line.lstrip().startswith("#")][:20]
    return sum(_SAMPLE.match(line) is not None for line in lines) > 0.6 * len(lines)


def parse(text: str, masker: Masker) -> Samples:
    """Every series once: of a doubled one, the first value. A line that is no sample is reported, not fatal.

    Comments are left out: the TYPE of a counter would have the library rename it, and names stay as sent.
    """
    labels = _Labels(masker)
    first: dict[Series, Sample] = {}
    problems: list[str] = []
    lines = text.rstrip().split("\n")
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line[0] == "#":
            continue
        sample = _plain(line, labels) or _odd(line, labels)
        if sample is None:
            cut = ", the page may be cut off here" if number == len(lines) else ""
            problems.append(f"line {number}: not a metric{cut}: {masker.text(line[:_SHOWN_TEXT])}")
        elif first.setdefault((sample.name, labels.key(sample)), sample) is not sample:
            problems.append(f"line {number}: {sample.name} comes twice with the same labels, the first is kept")
    return Samples(tuple(first.values()), _few(problems))


class _Labels:
    """Masked labels; the same ones come again and again."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._plain: dict[str, dict[str, str]] = {}
        self._keys: dict[int, tuple[tuple[str, str], ...]] = {}  # of the dicts in `_plain`, which live as long

    def plain(self, text: str) -> dict[str, str]:
        known = self._plain.get(text)
        if known is None:
            known = self._plain[text] = self.masked(dict(_PLAIN_LABEL.findall(text)))
            self._keys[id(known)] = tuple(sorted(known.items()))
        return known

    def masked(self, labels: dict[str, str]) -> dict[str, str]:
        return {name: self._masker.value(name, value) for name, value in labels.items()}

    def key(self, sample: Sample) -> tuple[tuple[str, str], ...]:
        return self._keys.get(id(sample.labels)) or tuple(sorted(sample.labels.items()))


def _plain(line: str, labels: _Labels) -> Sample | None:
    """The usual line, without escapes, at a tenth of the library's time."""
    match = _PLAIN.fullmatch(line)
    return Sample(match["name"], labels.plain(match["labels"] or ""), float(match["value"])) if match else None


def _odd(line: str, labels: _Labels) -> Sample | None:
    """Escapes, exemplars, quoted names: whatever the library can read."""
    try:
        return next(_by_library(line, labels), None)
    except (ValueError, IndexError, KeyError, OverflowError):  # the last three: its own stumbles over broken lines
        return None


def _by_library(line: str, labels: _Labels) -> Iterator[Sample]:
    from prometheus_client.parser import text_string_to_metric_families  # slow to import

    for family in text_string_to_metric_families(line):
        for name, found, value, *_ in family.samples:
            yield Sample(name, labels.masked(found), float(value))


def _few(problems: list[str]) -> tuple[str, ...]:
    hidden = len(problems) - _SHOWN_PROBLEMS
    return tuple(problems[:_SHOWN_PROBLEMS]) + ((f"{hidden} more like these",) if hidden > 0 else ())
