"""Log records that are one JSON object a line: docker's json-file, `journalctl -o json`, structured loggers."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

from . import json_text

_MESSAGES = ("message", "msg", "text", "log", "textPayload")
_TIMES = ("time", "timestamp", "ts", "@timestamp")
_STREAMS = ("service", "container", "container_name")
_JOURNAL_STREAMS = ("CONTAINER_NAME", "_SYSTEMD_USER_UNIT", "_SYSTEMD_UNIT", "SYSLOG_IDENTIFIER", "_COMM")


class Record(NamedTuple):
    stream: str
    pid: int | None
    time: str
    message: str


def record_of(line: str) -> Record | None:
    try:
        data = json_text.load(line)
    except ValueError:
        return None
    return record(data)


def record(data: Any) -> Record | None:
    """The record in a JSON object; None where it is no log record."""
    if not isinstance(data, dict):
        return None
    if "MESSAGE" in data:
        return _journal(data)
    for name in _MESSAGES:
        if isinstance(data.get(name), str):
            return Record(_first(data, _STREAMS), None, _first(data, _TIMES), data[name].rstrip("\r\n"))
    return None


def is_certain(data: Any) -> bool:
    """A record even where it stands alone: a lone `{"message": ...}` may be any document."""
    return isinstance(data, dict) and ("MESSAGE" in data or {"log", "stream", "time"} <= data.keys())


def _journal(data: dict[str, Any]) -> Record:
    identifier = str(data.get("SYSLOG_IDENTIFIER") or "")
    stream = identifier if identifier == "systemd" else _first(data, _JOURNAL_STREAMS).removesuffix(".service")
    time = data.get("_SOURCE_REALTIME_TIMESTAMP", data.get("__REALTIME_TIMESTAMP"))  # as journalctl's other forms do
    return Record(stream, _number(data.get("_PID")), _time(time), _message(data["MESSAGE"]))


def _message(value: Any) -> str:
    """Journald prints a message with control characters as the list of its bytes, and a huge one as null."""
    if isinstance(value, list):
        if all(isinstance(item, int) and 0 <= item < 256 for item in value):
            return bytes(value).decode("utf-8", errors="replace")
        return "\n".join(_message(item) for item in value)
    return "" if value is None else str(value)


def _time(value: Any) -> str:
    micros = _number(value)
    if micros is None or not 0 <= micros < 10**17:
        return ""
    return datetime.fromtimestamp(micros / 1e6, timezone.utc).isoformat()


def _number(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _first(data: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((str(data[name]) for name in names if isinstance(data.get(name), (str, int, float))), "")
