"""The kept lines of a log, decoded, masked and sorted by whose they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from ..evidence import Evidence, Log, LogLine, Origin
from ..masking import Masker
from . import prefixes
from .log_blocks import Found

_OF_SYSTEMD = re.compile(
    r"systemd\[\d+\]: |Main process exited|Failed with result|Scheduled restart job"
    r"|^(?:Start|Stopp)(?:ed|ing) \S+\.service\b"
)


class Record(NamedTuple):
    stream: str
    pid: int | None
    line: LogLine


def by_stream(
    found: Iterable[Found], keep: re.Pattern[bytes], masker: Masker, *, numbered: bool
) -> dict[str, list[Record]]:
    """What systemd says of the one service in a file belongs to that service."""
    records = [record for item in found for record in _records(item, keep, masker, numbered)]
    others = {record.stream for record in records} - {prefixes.SYSTEMD}
    home = others.pop() if len(others) == 1 else prefixes.SYSTEMD
    streams: dict[str, list[Record]] = {}
    for record in records:
        stream = home if record.stream == prefixes.SYSTEMD else record.stream
        streams.setdefault(stream, []).append(record)
    return streams


def evidence(
    streams: dict[str, list[Record]], name: str, read_at: datetime, *, numbered: bool, gaps: tuple[str, ...]
) -> list[Evidence]:
    """One item a stream; one without lines where nothing was kept."""
    return [
        Evidence(
            Origin(name, stream, pid=_pid(records)),
            name,
            "",
            read_at,
            Log(tuple(record.line for record in records), numbered, gaps),
        )
        for stream, records in (streams or {"": []}).items()
    ]


def _pid(records: list[Record]) -> int | None:
    pids = [record.pid for record in records if record.pid is not None and record.stream != prefixes.SYSTEMD]
    return pids[-1] if pids else None


def _records(found: Found, keep: re.Pattern[bytes], masker: Masker, numbered: bool) -> Iterator[Record]:
    number = found.line + 1 if numbered else found.offset
    pieces = _pieces(found.data.decode("utf-8", errors="replace"))
    for piece in pieces:
        if (found.sure and len(pieces) == 1) or _wanted(piece, keep):
            yield _record(piece, number, masker)


def _pieces(text: str) -> list[prefixes.Stripped]:
    """The records on the line, each joined with what continues it."""
    pieces: list[prefixes.Stripped] = []
    for piece in prefixes.records(text):
        if pieces and prefixes.continues(pieces[-1], piece.rest):
            pieces[-1] = prefixes.join(pieces[-1], piece)
        elif piece.rest:
            pieces.append(piece)
    return pieces


def _wanted(piece: prefixes.Stripped, keep: re.Pattern[bytes]) -> bool:
    if piece.stream == prefixes.SYSTEMD or prefixes.is_boot(piece.rest) or _OF_SYSTEMD.search(piece.rest):
        return True
    return keep.search(piece.rest.encode()) is not None


def _record(piece: prefixes.Stripped, number: int, masker: Masker) -> Record:
    """A line of systemd keeps its tag, or nobody could tell it from the engine's own."""
    stream, rest = piece.stream, piece.rest
    if stream == prefixes.SYSTEMD:
        rest = f"systemd[{piece.pid or 1}]: {rest}"
    elif prefixes.is_boot(rest):
        stream = prefixes.SYSTEMD
    return Record(masker.text(stream), piece.pid, LogLine(number, masker.text(rest), masker.text(piece.time)))
