"""What collectors put before a line: journald, docker, compose, kubectl, terminals. Pure text functions.

An engine's own tag (`[2026-02-27 14:33:22 TP1] ...`, `2026-11-29 20:59:37  INFO smg::server: ...`) is part of its line
and stays; so does a wrapper that no known collector writes (`[ERROR] ...`).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from ..quoting import outside
from . import json_lines


class Stripped(NamedTuple):
    stream: str
    pid: int | None
    time: str
    rest: str
    partial: bool = False  # the container runtime cut the record here: the next line goes on


SYSTEMD = "systemd"
_MANAGERS = "init.scope"  # systemd's own unit, the tag of its lines by `journalctl -o with-unit`
_ROUNDS = 4

_ESCAPES = re.compile(
    r"(?:\x1b|\\u001b|#033)\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|[\ud800-\udfff\ufeff]"
)
_REST = r"(?P<rest>(?s:.*))"
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?"
_ZONE = r"(?:Z|[+-]\d\d:?\d\d)"
_SHORT = r"(?:[^\W\d_]{2,6}\.?|\d{1,2}[月월]) {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d+)?"
_FULL = r"[^\W\d_]{2,4}\.? \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [A-Z+-][\w+-]*"
_OTHER = r"\[ *\d+\.\d+\]|\d{9,11}\.\d{6}"
_TAG = r"(?P<tag>[^\s:\[\]]+|\([^\s:\[\]]+\))"
_HOST = r"(?:[^\s:\[\]]+ )?"
_PID = r"\[(?P<pid>\d{1,18})\]"
_JOURNAL = re.compile(rf"(?P<time>{_SHORT}|{_FULL}) {_HOST}{_TAG}(?:{_PID})?:(?: {_REST}|$)")
# With a time that others print as well, only a tag with its process id (or the kernel's, which has none) is journald's.
_JOURNAL_ISO = re.compile(rf"(?P<time>{_ISO}{_ZONE}|{_OTHER}) {_HOST}{_TAG}(?:{_PID}|(?<= kernel)):(?: {_REST}|$)")
_BOOT = re.compile(r"-- (?:Boot|Reboot|Logs begin|Journal begins|No entries)\b.*")
_SYMBOL = re.compile(r"\[[^\w\s\[\]]{1,2}\] ")

# Rust's own time stamp is followed by a level and a module path, and belongs to the program.
_STAMP = re.compile(
    rf"(?P<time>{_ISO}{_ZONE}) (?! ?(?:TRACE|DEBUG|INFO|WARN|ERROR) [\w:]+:)(?:std(?:out|err) (?P<flag>[FP]) )?{_REST}"
)
_COMPOSE = re.compile(rf"(?P<stream>[A-Za-z0-9][\w.@-]{{0,126}}) {{1,64}}\|(?: {_REST}|$)")
_KUBECTL = re.compile(rf"\[(?P<stream>pod/[^\s\]]+)\] ?{_REST}")

# `level=INFO ts=... msg="..."`: the message is the record.
_LOGFMT_STARTS = ("level=", "time=", "ts=", "timestamp=", "lvl=", "logger=", "severity=", "caller=")
_LOGFMT = re.compile(
    r"""(?:[\w.]+=(?:"(?:[^"\\]|\\.)*"|[^\s"]*) +)*?(?:msg|message)="(?P<message>(?:[^"\\]|\\.)*)(?:"|$)"""
)
_LOGFMT_TIME = re.compile(r"""(?:^| )(?:time|ts|timestamp)=(?:"([^"]*)"|(\S+))""")

_ENGINE_TAG = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[ \]]")
_BREAK = re.compile(r"[\r\n]+")
_INDENTED = re.compile(r"[ \t]{2,}\S")


def clean(line: str) -> str:
    """Without colours, cursor movements and other control characters (a tab stays)."""
    return line if line.isascii() and line.isprintable() and "#033" not in line else _ESCAPES.sub("", line)


def strip(line: str) -> Stripped:
    """`line` is one record, without its line end."""
    found = Stripped("", None, "", clean(line))
    for _ in range(_ROUNDS):
        outer = _outermost(found.rest)
        if outer is None:
            break
        found = Stripped(
            outer.stream or found.stream,
            outer.pid or found.pid,
            outer.time or found.time,
            outer.rest,
            outer.partial or found.partial,
        )
    return found


def _outermost(text: str) -> Stripped | None:
    """The first prefix of the text, taken off; None if there is none."""
    if text.startswith("{"):
        return _json(text)
    if text.startswith("-- ") and _BOOT.fullmatch(text):
        return None
    match = _JOURNAL.fullmatch(text) or _JOURNAL_ISO.fullmatch(text)
    if match:
        return _journal(match)
    match = _STAMP.fullmatch(text)
    if match:
        return Stripped("", None, match["time"], match["rest"], match["flag"] == "P")
    if text.startswith(_LOGFMT_STARTS) and (match := _LOGFMT.match(text)):
        return Stripped("", None, _logfmt_time(text), _unescaped(match["message"]))
    match = _KUBECTL.fullmatch(text) or _COMPOSE.fullmatch(text)
    return Stripped(match["stream"], None, "", match["rest"] or "") if match else None


def _logfmt_time(text: str) -> str:
    match = _LOGFMT_TIME.search(text)
    return (match[1] or match[2]) if match else ""


def _unescaped(quoted: str) -> str:
    return clean(re.sub(r"\\(.)", lambda escape: {"n": " ", "t": "\t"}.get(escape[1], escape[1]), quoted))


def _journal(match: re.Match[str]) -> Stripped:
    tag, rest = match["tag"], match["rest"] or ""
    if tag == SYSTEMD or tag.endswith(_MANAGERS):
        tag = SYSTEMD
        rest = _SYMBOL.sub("", rest, count=1)
    return Stripped(tag, int(match["pid"]) if match["pid"] else None, match["time"], rest)


def _json(text: str) -> Stripped | None:
    record = json_lines.record_of(text)
    if record is None:
        return None
    return Stripped(record.stream, record.pid, record.time, clean(record.message))


def is_boot(text: str) -> bool:
    return text.startswith("-- ") and _BOOT.fullmatch(text) is not None


def records(line: str) -> list[Stripped]:
    """A physical line, split where a progress bar rewrote it and where another record is glued on."""
    found: list[Stripped] = []
    for piece in _lines(line.rstrip("\r\n")):
        first = strip(piece)
        parts = [part for text in _lines(first.rest) for part in _unglued(text)]
        found += [first._replace(rest=part) for part in parts]
    return found


def _lines(text: str) -> list[str]:
    return _BREAK.split(text) if "\r" in text or "\n" in text else [text]


def _unglued(text: str) -> list[str]:
    """Cut before each tag of an engine that does not stand at the begin, nor in the text of a request."""
    tags = (tag.start() for tag in _ENGINE_TAG.finditer(text, 1))
    cuts = [0, *outside(text, tags), len(text)]
    if len(cuts) == 2:
        return [text]
    parts = [text[begin:end] for begin, end in pairwise(cuts)]
    return [part.rstrip() for part in parts if part.strip()]


def continues(previous: Stripped, text: str) -> bool:
    """An indented line after one that ends with a comma belongs to it, and any line after a cut one."""
    return previous.partial or (previous.rest.rstrip().endswith(",") and _INDENTED.match(text) is not None)


def join(previous: Stripped, piece: Stripped) -> Stripped:
    rest = previous.rest + piece.rest if previous.partial else f"{previous.rest.rstrip()} {piece.rest.strip()}"
    return previous._replace(rest=rest, partial=piece.partial)
