"""A log of any size: the part around its last start, its end, and earlier starts within reach.

Bounds, whatever the size: a backward search over the file for start markers (reading speed), and a regular expression
over at most `whole_bytes` (a file up to that size), else over `start_bytes` + `tail_bytes` + a few earlier starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from ..evidence import Evidence
from ..masking import Masker
from .handles import readable
from .log_blocks import Found, blocks, found_in
from .log_choice import LogWords, chosen
from .log_starts import earlier_starts, last_start
from .log_streams import by_stream, evidence
from .log_thin import Thin

MIB = 2**20
_EARLIER_STARTS = 6
_BEFORE_A_START = 2 * MIB
_AFTER_AN_EARLIER_START = 4 * MIB

Span = tuple[int, int]


@dataclass(frozen=True)
class LogScan:
    """What to look for, by kind of log, and how far."""

    kinds: tuple[LogWords, ...]
    history_bytes: int = 64 * MIB  # how far before the last start earlier ones are looked for
    start_bytes: int = 16 * MIB
    tail_bytes: int = 4 * MIB
    line_bytes: int = MIB
    whole_bytes: int = 96 * MIB
    lines_per_kind: int = 2000  # of lines that matched with the same words; of the last life's begin, and of its end


def read_log(handle: BinaryIO, name: str, scan: LogScan, masker: Masker, read_at: datetime) -> list[Evidence]:
    with readable(handle) as text:
        return _read_log(text, name, scan, masker, read_at)


def _read_log(handle: BinaryIO, name: str, scan: LogScan, masker: Masker, read_at: datetime) -> list[Evidence]:
    size = handle.seek(0, 2)
    words = chosen(handle, size, scan.kinds)
    start = last_start(handle, size, words.starts)
    whole = size <= scan.whole_bytes
    spans = [(0, size)] if whole else _spans(handle, size, start, scan, words.starts)
    thin = Thin(start or 0, size - scan.tail_bytes, scan.lines_per_kind)
    for found in _read(handle, spans, words.keep, scan.line_bytes):
        thin.add(found)
    gaps = [*_gaps(spans, size, start), *thin.gaps()]
    streams = by_stream(thin.kept(), words.keep, masker, numbered=whole)
    return evidence(streams, name, read_at, numbered=whole, gaps=tuple(masker.text(gap) for gap in gaps))


def _spans(handle: BinaryIO, size: int, start: int | None, scan: LogScan, markers: tuple[bytes, ...]) -> list[Span]:
    """What is read of a file too large to be read whole, in its order, without overlaps."""
    spans = [(size - scan.tail_bytes, size)]
    if start is None:
        spans.append((0, min(scan.start_bytes, size)))
    else:
        spans.append((start - _BEFORE_A_START, start + scan.start_bytes))
        earlier = earlier_starts(handle, start - scan.history_bytes, start, markers, _EARLIER_STARTS)
        spans += [(begin - _BEFORE_A_START, min(begin + _AFTER_AN_EARLIER_START, start)) for begin in earlier]
    return _merged([(max(0, begin), min(size, end)) for begin, end in spans])


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _read(handle: BinaryIO, spans: list[Span], keep: re.Pattern[bytes], line_bytes: int) -> Iterator[Found]:
    for begin, end in spans:
        for block in blocks(handle, begin, end, line_bytes):
            yield from found_in(block, keep, line_bytes)


def _gaps(spans: list[Span], size: int, start: int | None) -> Iterator[str]:
    edges = [0, *(edge for span in spans for edge in span), size]
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        if end > begin:
            yield f"{_size(end - begin)} {_where(begin, start)} not read"


def _where(begin: int, start: int | None) -> str:
    if start is None:
        return "in the middle"
    if begin >= start:
        return "between the start and the end"
    return "at the beginning" if begin == 0 else "before the last start"


def _size(count: int) -> str:
    return f"{count / MIB:.0f} MiB" if count >= MIB else f"{count} bytes"
