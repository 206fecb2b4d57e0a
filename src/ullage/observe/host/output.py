"""Where a process writes its log: its standard output and its standard error."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from .environment import variable
from .proc import Table, link, read, split
from .reach import from_here
from .running import Output, Proc

_HIDDEN = "what is not for this user to know"


def output_of(proc: str, main: Proc, table: Table, stream: int = 1) -> Output:
    """`stream`: 1 for the standard output, 2 for the standard error."""
    path = f"{proc}/{main.pid}/fd/{stream}"
    target = link(path)
    if not target:
        return Output("unknown", remark="nothing, for it is closed" if is_closed(proc, main.pid, stream) else _HIDDEN)
    if target.startswith("socket:["):
        journal = _is_journals(proc, main, path)
        return Output("journal") if journal else Output("unknown", remark="a socket, and not the journal's")
    if target.startswith("pipe:["):
        return _through_pipe(proc, main, target, table)
    return _of_file(proc, main, path, target)


def is_closed(proc: str, pid: int, stream: int) -> bool:
    """It may be looked at, and has closed that."""
    try:
        return str(stream) not in os.listdir(f"{proc}/{pid}/fd")
    except OSError as error:
        return isinstance(error, FileNotFoundError)


def _of_file(proc: str, main: Proc, path: str, target: str) -> Output:
    try:
        mode, links = (status := os.stat(path)).st_mode, status.st_nlink
    except OSError:
        return Output("unknown", target)
    if stat.S_ISREG(mode):
        if links == 0:
            return Output("file", path, f"the file was deleted: {target.removesuffix(' (deleted)')}")
        return Output("file", from_here(proc, main.pid, target))
    if target == "/dev/null":
        return Output("null", target)
    terminal = target.startswith(("/dev/pts/", "/dev/tty", "/dev/console"))
    return Output("terminal" if terminal else "unknown", target)


def _is_journals(proc: str, main: Proc, path: str) -> bool:
    """systemd names the socket that it gave a process in JOURNAL_STREAM=DEVICE:INODE (systemd.exec(5)). Of one that
    cannot be asked: services have their output in the journal if it is a socket at all.
    """
    named = variable(proc, main.pid, "JOURNAL_STREAM")
    try:
        status = os.stat(path)
    except OSError:
        return False
    if named:
        return named == f"{status.st_dev}:{status.st_ino}"
    return any(part.endswith((".service", ".scope")) for part in main.cgroup.split("/"))


def _through_pipe(proc: str, main: Proc, pipe: str, table: Table) -> Output:
    """Who reads it, among the processes near by. The file of `| tee FILE` is as good as the server's own."""
    for pid in _near(main, table):
        if link(f"{proc}/{pid}/fd/0") == pipe:
            words = split(read(f"{proc}/{pid}/cmdline") or b"")
            files = [word for word in words[1:] if not word.startswith("-")]
            if os.path.basename(words[0] if words else "") == "tee" and files:
                path = os.path.join(link(f"{proc}/{pid}/cwd") or "/", files[0])
                return Output("file", from_here(proc, pid, path), f"through tee (pid {pid})")
            return Output("pipe", remark=f"read by pid {pid} ({table[pid].comm})")
    return Output("pipe")


def _near(main: Proc, table: Table) -> Iterable[int]:
    """Those of its own session, its parent, and the parent's children."""
    for other in table.every():
        if other.pid != main.pid and (other.session == main.session or main.ppid in (other.pid, other.ppid)):
            yield other.pid
