"""The environment of a process: only the variables that bear on a server are kept."""

from __future__ import annotations

import re

from .proc import read


def variables(proc: str, pid: int, kept: re.Pattern[str]) -> dict[str, str] | None:
    """Those whose name matches; None where they may not be read, or the process has written a title over them."""
    data = read(f"{proc}/{pid}/environ")
    return None if data is None or (data and not data.strip(b"\0")) else dict(_kept(data, kept))


def names(proc: str, pid: int) -> frozenset[str]:
    """The names of all that it was started with; none where they may not be read."""
    data = read(f"{proc}/{pid}/environ") or b""
    return frozenset(
        entry.partition(b"=")[0].decode("utf-8", "replace") for entry in data.split(b"\0") if b"=" in entry
    )


def variable(proc: str, pid: int, name: str) -> str:
    """One variable, for a question that it answers; "" where it is not set or not readable."""
    return (variables(proc, pid, re.compile(f"{re.escape(name)}$")) or {}).get(name, "")


def _kept(data: bytes, kept: re.Pattern[str]) -> list[tuple[str, str]]:
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in data.split(b"\0"))
    return [(name, value) for name, equals, value in pairs if equals and kept.match(name)]
