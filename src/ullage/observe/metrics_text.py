"""Metrics pages in the Prometheus text format, also cut, pasted or doubled ones."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING

from ..evidence import Sample, Samples
from ..masking import Masker

if TYPE_CHECKING:
    from prometheus_client import Metric

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+|[nN]a[nN]|[iI]nf(?:inity)?)"
_SAMPLE = re.compile(rf"\s*{_NAME}\s*(?:\{{.*\}})?\s*{_NUMBER}(?:\s+-?[0-9]+)?\s*(?:# .*)?$")
_COMMENT = re.compile(rf"\s*#\s+(?:HELP|TYPE)\s+{_NAME}\b")
_BUCKET = re.compile(rf"{_NAME}(?<!_tokens)_bucket\{{")
_QUOTED = re.compile(rf'\s*"(?:# (?:HELP|TYPE) |{_NAME}(?:\{{|\s)).*\\n', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_SHOWN_PROBLEMS = 20
_SHOWN_TEXT = 60
_IMPORT = Lock()
_MASKED_TEXT = 4096  # masked before it is cut: half a secret is not known for one

Series = tuple[str, tuple[tuple[str, str], ...]]
Numbered = tuple[int, str]


def looks_like_metrics(text: str) -> bool:
    """True when a comment of the format stands near the top, or most of the first lines are samples."""
    head = [line for line in text[:65536].splitlines()[:60] if line.strip()]
    if any(_COMMENT.match(line) for line in head[:20]):
        return True
    lines = [line for line in head if not line.lstrip().startswith("#")][:20]
    return sum(_SAMPLE.match(line) is not None for line in lines) > 0.6 * len(lines)


def unquoted(text: str) -> str:
    """A page that is sent as one JSON string (llama.cpp b7010 to b7190: issue 17384), cut or whole, as the page."""
    if not _QUOTED.match(text):
        return text
    body = text.strip().removeprefix('"').removesuffix('"')
    return _ESCAPED.sub(lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), body)


def parse(text: str, masker: Masker) -> Samples:
    """Every series once: of a doubled one, the first value. A line that is no sample is reported, not fatal.

    Comments are left out: the TYPE of a counter would have the library rename it, and names stay as sent. Buckets of
    histograms are left out too, but for those of token counts: they are most of a page, and sums and counts are kept.
    """
    lines = text.rstrip().split("\n")
    wanted = [(n, line) for n, line in enumerate(map(str.strip, lines), 1) if line and not _skipped(line)]
    samples, problems = _whole(wanted, masker) or _one_by_one(wanted, len(lines), masker)
    kept, doubled = _first_of_each(samples)
    return Samples(tuple(kept), _few([*problems, *doubled]))


def _skipped(line: str) -> bool:
    return line[0] == "#" or _BUCKET.match(line) is not None


def _whole(lines: list[Numbered], masker: Masker) -> tuple[list[Sample], list[str]] | None:
    """The page in one go; None where the library stumbles over a line of it."""
    found = _by_library("\n".join(line for _, line in lines), masker)
    return None if found is None else (found, [])


def _one_by_one(lines: list[Numbered], last: int, masker: Masker) -> tuple[list[Sample], list[str]]:
    samples: list[Sample] = []
    problems = []
    for number, line in lines:
        found = _by_library(line, masker)
        if found is None:
            cut = ", the page may be cut off here" if number == last else ""
            problems.append(f"line {number}: not a metric{cut}: {masker.text(line[:_MASKED_TEXT])[:_SHOWN_TEXT]}")
        else:
            samples += found
    return samples, problems


def _library() -> Callable[[str], Iterable[Metric]]:
    """Pages are read in several threads, and only one of them may import."""
    with _IMPORT:
        return _parser_alone()


@cache
def _parser_alone() -> Callable[[str], Iterable[Metric]]:
    """prometheus_client's parser, without the package around it: that imports web servers, which takes as long as the
    whole rest of a run. Whoever imports the package later gets it whole.
    """
    name = "prometheus_client"
    spec = None if name in sys.modules else find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations)
    try:
        from prometheus_client.parser import text_string_to_metric_families
    finally:
        if spec is not None:
            del sys.modules[name]
    return text_string_to_metric_families


def _by_library(text: str, masker: Masker) -> list[Sample] | None:
    text_string_to_metric_families = _library()
    try:
        return [
            Sample(name, {label: masker.value(label, value) for label, value in labels.items()}, float(value))
            for family in text_string_to_metric_families(text)
            for name, labels, value, *_ in family.samples
        ]
    except (ValueError, IndexError, KeyError, OverflowError):  # the last three: its own stumbles over broken lines
        return None


def _first_of_each(samples: list[Sample]) -> tuple[list[Sample], list[str]]:
    first: dict[Series, Sample] = {}
    for sample in samples:
        first.setdefault((sample.name, tuple(sorted(sample.labels.items()))), sample)
    kept = {id(sample) for sample in first.values()}
    doubled = [s.name for s in samples if id(s) not in kept]
    return list(first.values()), [f"{name} comes twice with the same labels, the first is kept" for name in doubled]


def _few(problems: list[str]) -> tuple[str, ...]:
    hidden = len(problems) - _SHOWN_PROBLEMS
    return tuple(problems[:_SHOWN_PROBLEMS]) + ((f"{hidden} more like these",) if hidden > 0 else ())
