"""A file written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..errors import UsageError


def write_whole(path: str, text: str) -> None:
    """Writes beside the file and puts it in its place, so that nobody reads half of it. What is no file (a pipe, a
    device) is written to as it is.
    """
    target = Path(path).resolve()
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_text(text, "utf-8", newline="\n")
            return
        _replace(target, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}", _advice(target, error)) from None


def _advice(target: Path, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"name a file in a folder that you may write to; {target.parent} is not"
    if target.is_dir():
        return "that is a folder: name a file in it"
    return "name a file in a folder that exists" if not target.parent.is_dir() else "look at the disk"


def _replace(target: Path, text: str) -> None:
    handle, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(beside, _mode_of(target))
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise


def _mode_of(target: Path) -> int:
    """The mode that the file has, or that a new one gets."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
