"""Metrics pages in the Prometheus text format, also cut, pasted or doubled ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..evidence import Sample, Samples
from ..masking import Masker

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_NUMBER = r"[-+]?(?:[0-9][0-9_]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+|[nN]a[nN]|[iI]nf(?:inity)?)"
_SAMPLE = re.compile(rf"\s*(?:{_NAME}\s*)(?:\{{.*\}})?\s*{_NUMBER}(?:\s+-?[0-9]+)?\s*(?:# .*)?$")
_COMMENT = re.compile(rf"\s*#\s+(?:HELP|TYPE)\s+{_NAME}\b")
_SHOWN_PROBLEMS = 20
_SHOWN_TEXT = 60

Numbered = list[tuple[int, str]]
Labels = tuple[tuple[str, str], ...]


def looks_like_metrics(text: str) -> bool:
    """True when a comment of the format stands near the top, or most of the first lines are samples."""
    head = [line for line in text[:65536].splitlines()[:60] if line.strip()]
    if any(_COMMENT.match(line) for line in head[:20]):
        return True
    lines = [line for line in head if not line.lstrip().startswith("#")][:20]
    return sum(_SAMPLE.match(line) is not None for line in lines) > 0.6 * len(lines)


def parse(text: str, masker: Masker) -> Samples:
    """Every series once: of a doubled one, the first value. A line that is no sample is reported, not fatal.

    Comments are left out before parsing: the parser would rename counters by their TYPE, and names stay as sent.
    """
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"]
    masks = _Masks(masker)
    samples = _all_at_once(numbered, masks)
    if samples is not None:
        return Samples(samples)
    return _line_by_line(numbered, masks, masker)


class _Masks:
    """The masked labels; the same values come again and again."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._known: dict[tuple[str, str], str] = {}

    def labels(self, labels: dict[str, str]) -> dict[str, str]:
        return {name: self._value(name, value) for name, value in labels.items()}

    def _value(self, name: str, value: str) -> str:
        known = self._known.get((name, value))
        if known is None:
            known = self._known[name, value] = self._masker.value(name, value)
        return known


def _all_at_once(numbered: Numbered, masks: _Masks) -> tuple[Sample, ...] | None:
    """None when any line is bad or any series comes twice."""
    try:
        found = list(_samples("\n".join(line for _, line in numbered), masks))
    except ValueError:
        return None
    return tuple(found) if len({_series(sample) for sample in found}) == len(found) else None


def _line_by_line(numbered: Numbered, masks: _Masks, masker: Masker) -> Samples:
    first: dict[tuple[str, Labels], Sample] = {}
    problems: list[str] = []
    for number, line in numbered:
        sample = _sample(line, masks)
        if sample is None:
            cut = ", the page may be cut off here" if number == numbered[-1][0] else ""
            problems.append(f"line {number}: not a metric{cut}: {masker.text(line.strip()[:_SHOWN_TEXT])}")
        elif first.setdefault(_series(sample), sample) is not sample:
            problems.append(f"line {number}: {sample.name} comes twice with the same labels, the first is kept")
    return Samples(tuple(first.values()), _few(problems))


def _sample(line: str, masks: _Masks) -> Sample | None:
    try:
        return next(_samples(line, masks), None)
    except ValueError:
        return None


def _few(problems: list[str]) -> tuple[str, ...]:
    hidden = len(problems) - _SHOWN_PROBLEMS
    return tuple(problems[:_SHOWN_PROBLEMS]) + ((f"{hidden} more like these",) if hidden > 0 else ())


def _series(sample: Sample) -> tuple[str, Labels]:
    return sample.name, tuple(sorted(sample.labels.items()))


def _samples(text: str, masks: _Masks) -> Iterator[Sample]:
    from prometheus_client.parser import text_string_to_metric_families  # slow to import

    try:
        for family in text_string_to_metric_families(text):
            for name, labels, value, *_ in family.samples:
                yield Sample(name, masks.labels(labels), float(value))
    except (IndexError, KeyError, OverflowError) as error:  # the parser's own stumbles over broken lines
        raise ValueError(str(error)) from error
