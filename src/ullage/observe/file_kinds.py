"""Files that hold nothing to read, each with one line of why."""

from __future__ import annotations

import re

from ..evidence import Failure

_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip"}
_CONTROL = bytes({*range(1, 32), 127} - set(b"\t\n\r\b\f\x1b"))
_MOST_CONTROL = 0.05
_MOST_NUL_RUNS = 1 / 3  # UTF-16 without its mark has a NUL at every other byte; a command line of /proc has fewer


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
        return None
    return Failure("binary", "not a text", "name a log, a JSON or metrics page, or a command line")


def _binary(sample: bytes) -> bool:
    text = sample.replace(b"\0", b"")
    control = len(text) - len(text.translate(None, _CONTROL))
    runs = len(re.findall(rb"\0+", sample))
    return not text or control > _MOST_CONTROL * len(text) or runs > _MOST_NUL_RUNS * len(sample)
