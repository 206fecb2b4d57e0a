"""What a container wrote since it started, by `docker logs`: the begin, and where that is long the end, of both streams
in the order of time.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from heapq import merge
from io import BytesIO
from typing import NamedTuple

from ...evidence import Content, Evidence, Failure, Log, Origin
from ...masking import Masker
from ..log_file import LogScan, read_log
from .container_cli import Printed, ask, failure, late
from .containers import Container, time_of

TIME_LIMIT_S = 4.0  # for the begin, and again for the end
TAIL_LINES = 2000
_BEFORE = timedelta(seconds=2)  # the first lines can be older than the start as it is written down
_SILENT = timedelta(seconds=60)  # that no server is silent for at its start
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z(?= |\n)")
_NOT_KEPT = {
    "none": ("keeps no log (log driver none)", "start it with --log-driver json-file"),
    "passthrough": ("hands its output on, and keeps no log", "name its unit's journal or the file as a target"),
}

Line = tuple[bytes, bytes]  # (the time it bears, all of it; further lines without a time belong to it)


class _Part(NamedTuple):
    lines: list[Line]
    whole: bool  # nothing comes after them
    said: str  # by the program itself
    late: bool


def read(container: Container, scan: LogScan, masker: Masker) -> list[Evidence]:
    place = f"log of {container.ref}" + (f" ({container.name})" if container.name else "")
    read_at = datetime.now(timezone.utc)
    found = _lines(container, scan, masker)
    if isinstance(found, Failure):
        return [Evidence(Origin(place), place, "", read_at, found)]
    lines, gaps = found
    handle = BytesIO(b"".join(text for _, text in lines))
    items = read_log(handle, place, scan, masker, read_at)
    return [item._replace(content=_with_gaps(item.content, gaps)) for item in items]


def _with_gaps(content: Content, gaps: list[str]) -> Content:
    return content._replace(gaps=(*gaps, *content.gaps), collected=True) if isinstance(content, Log) else content


def _lines(container: Container, scan: LogScan, masker: Masker) -> tuple[list[Line], list[str]] | Failure:
    if container.log_driver in _NOT_KEPT:
        reason, advice = _NOT_KEPT[container.log_driver]
        return Failure("no log", f"{container.ref} {reason}", advice)
    since = container.started_at and container.started_at - _BEFORE
    head = _part(container, ["--since", since.isoformat()] if since else [], scan.start_bytes)
    if isinstance(head, Failure):
        return head
    if not head.lines and head.said:
        return failure(container.ref, head.said, masker.text(head.said))
    gaps = _begin(container, head.lines) if head.lines or head.whole else []
    if head.whole:
        return head.lines, gaps
    tail = _part(container, ["--tail", str(TAIL_LINES)], scan.start_bytes)
    further, gap = ([], "") if isinstance(tail, Failure) else _beyond(head, tail)
    if not head.lines and not further:
        return late(container.ref, TIME_LIMIT_S)
    late_gap = f"{container.ref.runtime} logs gave no more of its begin within {TIME_LIMIT_S:g} s" if head.late else ""
    return [*head.lines, *further], [*gaps, *filter(None, (gap, late_gap))]


def _beyond(head: _Part, tail: _Part) -> tuple[list[Line], str]:
    """The lines of the end that the begin has not, and what lies between the two, in words."""
    last = head.lines[-1][0] if head.lines else b""
    further = [line for line in tail.lines if line[0] > last]
    gaps = []
    if last and len(further) == len(tail.lines):
        gaps.append(f"from {_time(last)}" + (f" to {_time(further[0][0])}" if further else " on"))
    if further and not tail.whole:
        gaps.append(f"from {_time(further[-1][0])} on")
    return further, f"lines {' and '.join(gaps)} were not read" if gaps else ""


def _part(container: Container, words: list[str], most_bytes: int) -> _Part | Failure:
    ref = container.ref
    printed = ask(ref, "logs", "--timestamps", *words, ref.id, time_limit_s=TIME_LIMIT_S, most_bytes=most_bytes)
    if isinstance(printed, Failure):
        return printed
    (lines, _), (others, said) = _stamped(printed.output, printed), _stamped(printed.errors, printed)
    whole = printed.code is not None
    return _Part(list(merge(lines, others, key=lambda line: line[0])), whole, said, printed.late)


def _stamped(data: bytes, printed: Printed) -> tuple[list[Line], str]:
    """The lines with their times, and what stands before the first: the program's own words. A cut line is left out."""
    lines: list[Line] = []
    said: list[bytes] = []
    whole = data if printed.code is not None else data[: data.rfind(b"\n") + 1]
    for text in whole.splitlines(keepends=True):
        stamp = _STAMP.match(text)
        if stamp:
            lines.append((stamp[0], text))
        elif lines:
            lines[-1] = (lines[-1][0], lines[-1][1] + text)
        else:
            said.append(text)
    return lines, b"".join(said).decode("utf-8", "replace").strip()


def _begin(container: Container, lines: list[Line]) -> list[str]:
    """Is the begin of this start still there?"""
    started = container.started_at
    first = time_of(lines[0][0].decode("ascii")) if lines else None
    if first is None:
        return [f"no line since the container started {_shown(started)}"] if started else []
    if started is None or first - started < _SILENT:
        return []
    told = f"the log begins {_shown(first)}, the container started {_shown(started)}"
    return [f"rotated: {told}" if container.log_rotates else f"{told}: it was silent, or the begin was removed"]


def _shown(time: datetime | None) -> str:
    return f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC" if time else "?"


def _time(stamp: bytes) -> str:
    return _shown(time_of(stamp.decode("ascii")))
