"""The process table, read from /proc itself: of thousands of processes only those that matter are read whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from .running import Proc

_MOST_BYTES = 2**20  # of one file of /proc
_FIRST_BYTES = 2**14  # of a command line: enough to see whose it is
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Stat(NamedTuple):
    """What /proc/PID/stat tells."""

    pid: int
    comm: str  # at most 15 bytes of its name or title
    state: str
    ppid: int
    pgid: int
    session: int
    start_ticks: int


def read(path: str, most: int = _MOST_BYTES) -> bytes | None:
    """A file of /proc; None where it is gone or not for us. Quick: thousands of them are read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        pieces, length = [], 0
        while length < most and (piece := os.read(handle, min(most - length, 65536))):
            pieces.append(piece)
            length += len(piece)
        return b"".join(pieces)
    except OSError:  # the process is gone, or another user's
        return None
    finally:
        os.close(handle)


def _beginning(path: str, most: int = 4096) -> bytes | None:
    """What one reading gives of a file of /proc: enough of a short one, and twice as quick."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(handle, most)
    except OSError:
        return None
    finally:
        os.close(handle)


def link(path: str) -> str:
    """Where a link of /proc leads; "" where it is gone or not for us."""
    try:
        return os.fsdecode(os.readlink(path))
    except (OSError, ValueError):
        return ""


def processes(proc: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every process with the beginning of its command line; of one that has none (a kernel thread, a zombie, a title
    made empty) its name.
    """
    for entry in os.listdir(proc):
        if entry.isdigit() and (line := _beginning(f"{proc}/{entry}/cmdline", _FIRST_BYTES)) is not None:
            yield int(entry), split(line) or split(_beginning(f"{proc}/{entry}/comm") or b"")


def split(line: bytes) -> tuple[str, ...]:
    """The words of /proc/PID/cmdline. One that set a title has left NULs behind it, and no other words."""
    text = line.rstrip(b"\n\0").decode("utf-8", "replace")
    return tuple(text.split("\0")) if text else ()


def stat(proc: str, pid: int) -> Stat | None:
    """None where the process is gone. Its name may hold spaces and parentheses."""
    data = _beginning(f"{proc}/{pid}/stat")
    opened, closed = (data.find(b"("), data.rfind(b")")) if data else (-1, -1)
    if data is None or opened < 0:
        return None
    rest = data[closed + 1 :].split(None, 20)
    try:
        name = data[opened + 1 : closed].decode("utf-8", "replace")
        return Stat(pid, name, rest[0].decode(), int(rest[1]), int(rest[2]), int(rest[3]), int(rest[19]))
    except (IndexError, ValueError):
        return None


def runs(process: Proc, proc: str = "/proc") -> bool:
    """Does it still run? Its pid may be another's by now."""
    now = stat(proc, process.pid)
    return now is not None and now.start_ticks == process.start_ticks and now.state not in "ZX"


class Table(Mapping[int, Stat]):
    """Who begat whom, by pid. At first those that could be a server's, for to read all of thousands takes time; any
    other is read when it is asked for by its pid.
    """

    def __init__(self, proc: str, pids: Iterable[int]) -> None:
        self._proc = proc
        self._read: dict[int, Stat | None] = {pid: stat(proc, pid) for pid in pids}

    def __getitem__(self, pid: int) -> Stat:
        if pid not in self._read:
            self._read[pid] = stat(self._proc, pid)
        found = self._read[pid]
        if found is None:
            raise KeyError(pid)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter([pid for pid, found in self._read.items() if found])

    def __len__(self) -> int:
        return sum(found is not None for found in self._read.values())

    def every(self) -> Iterator[Stat]:
        """All that there are now."""
        pids = (int(entry) for entry in os.listdir(self._proc) if entry.isdigit())
        return (found for pid in pids if (found := self.get(pid)))


def whole(proc: str, pid: int) -> Proc | None:
    """All of one process but its environment. None where it ends meanwhile, or its pid is given to another."""
    before, line = stat(proc, pid), read(f"{proc}/{pid}/cmdline")
    if before is None or line is None:
        return None
    uid = _uid(read(f"{proc}/{pid}/status") or b"")
    words = split(line)
    found = Proc(
        pid,
        before.ppid,
        before.start_ticks,
        uid,
        user_of(uid),
        words,
        words[0] if len(words) == 1 and "::" in words[0] else before.comm,
        before.pgid,
        before.session,
        cgroup_of((read(f"{proc}/{pid}/cgroup") or b"").decode("utf-8", "replace")),
        inode_of(link(f"{proc}/{pid}/ns/net")),
        link(f"{proc}/{pid}/cwd"),
        None,
        before.state in "Tt",
    )
    after = stat(proc, pid)
    return found if after and after.start_ticks == before.start_ticks and after.state not in "ZX" else None


def cgroup_of(text: str) -> str:
    """The path that says where a process belongs. On a hybrid host systemd keeps its own hierarchy, and the v2 one may
    be bare.
    """
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        paths.setdefault(controllers, path)
    of_systemd, unified = paths.get("name=systemd", ""), paths.get("", "")
    return (of_systemd if unified in ("", "/") else unified) or unified or next(iter(paths.values()), "")


def inode_of(name: str) -> int | None:
    """`net:[4026531840]` -> 4026531840."""
    number = name.rpartition("[")[2].removesuffix("]")
    return int(number) if number.isascii() and number.isdigit() else None


@cache
def user_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def started_at(start_ticks: int, now: datetime, proc: str = "/proc") -> datetime | None:
    """When a process began: now - (uptime - ticks / Hz). By the clock that runs since boot, which nobody sets; a wall
    clock that was set since then has no part in it.
    """
    words = (read(f"{proc}/uptime") or b"").split()
    try:
        return now - timedelta(seconds=float(words[0]) - start_ticks / _TICKS_PER_S)
    except (IndexError, ValueError, OverflowError):
        return None


def _uid(status: bytes) -> int:
    """The effective one, as who may do what goes by it."""
    line = next((line for line in status.splitlines() if line.startswith(b"Uid:")), b"")
    return int(line.split()[2]) if len(line.split()) > 2 else -1
