"""Files that hold nothing to read, each with one line of why."""

from __future__ import annotations

import re
from itertools import groupby, pairwise

from ..evidence import Failure

_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip"}
_CONTROL = bytes({*range(1, 32), 127} - set(b"\t\n\r\b\f\x1b"))
_MOST_CONTROL = 0.05
_MOST_NUL_RUNS = 1 / 3  # UTF-16 without its mark has a NUL at every other byte; a command line of /proc has fewer

_EXPORTED = re.compile(r"__CURSOR=")
_VERBOSE = re.compile(r"(?:-- [^\n]*\n)?\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \S+ \[s=[0-9a-f]{32};")
_JOURNAL = "capture it with -o short-iso or -o json"
_TIME = re.compile(r"\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)")
_JSON_TIME = re.compile(r'"__REALTIME_TIMESTAMP"\s*:\s*"(\d+)"')
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
_TIMES, _STEPS = 1000, 2  # lines that are looked at; steps back, all of them, that no clock makes


def unopened(error: OSError) -> Failure:
    if isinstance(error, FileNotFoundError):
        return Failure("missing", "no such file")
    if isinstance(error, IsADirectoryError):
        return Failure("directory", "a directory, not a file", "name the files in it")
    if isinstance(error, PermissionError):
        return Failure("unreadable", "no permission to read it", "run with more rights, or copy it")
    return Failure("unreadable", error.strerror or "it cannot be read")


def unreadable(head: bytes, tail: bytes) -> Failure | None:
    """`tail` decides where the head is all NUL: a log that was truncated while it was written begins like that."""
    if not head.strip():
        return Failure("empty", "nothing in it")
    for magic, program in _PACKED.items():
        if head.startswith(magic):
            return Failure("packed", f"compressed with {program}", "unpack it first, or pipe it in: ullage limits -")
    sample = head if head.strip(b"\0") else tail
    if not _binary(sample):
        return _of_journal(head.decode("utf-8", errors="replace"))
    return Failure("binary", "not a text", "name a log, a JSON or metrics page, or a command line")


def _binary(sample: bytes) -> bool:
    text = sample.replace(b"\0", b"")
    control = len(text) - len(text.translate(None, _CONTROL))
    runs = len(re.findall(rb"\0+", sample))
    return not text or control > _MOST_CONTROL * len(text) or runs > _MOST_NUL_RUNS * len(sample)


def _of_journal(head: str) -> Failure | None:
    """What journalctl and others print that would be taken for something else."""
    if _EXPORTED.match(head) or _VERBOSE.match(head):
        return Failure("not read", "all fields of a journal (journalctl -o export or verbose)", _JOURNAL)
    if _newest_first(head):
        return Failure(
            "reversed", "its newest line stands first (journalctl -r)", "capture it without -r, or turn it: tac"
        )
    return None


def _newest_first(text: str) -> bool:
    """Are all its times in falling order? One step back is a clock that was set, or a new year."""
    times = [time for time, _ in groupby(filter(None, map(_time_of, text.split("\n")[:_TIMES])))]
    return len(times) > _STEPS and all(later > earlier for later, earlier in pairwise(times))


def _time_of(line: str) -> str:
    """The time of a line, to be compared with others of its form; "" where it has none."""
    found = _TIME.match(line) or _JSON_TIME.search(line)
    if found is None:
        return ""
    text = found[1]
    month = _MONTHS.find(text[:3])
    return text if month < 0 else f"{month:03}{text[3:]}"
