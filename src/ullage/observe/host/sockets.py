"""On which addresses the processes of a server listen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from .door import Door
from .net_tables import Socket
from .proc import link
from .running import Listen, Proc


def listens_of(
    proc: str, processes: Sequence[Proc], sockets: Iterable[Socket], door: Door
) -> tuple[tuple[Listen, ...], bool]:
    """(what they listen on, was it seen in their own files).

    The sockets of another user's processes are not for us: then the port is theirs that their flags name, where a
    socket of that user listens on it, and the Unix socket that they name.
    """
    main = processes[0]
    sockets = [s._replace(path=s.path and absolute(main, s.path)) for s in sockets]
    owners = {inode: p.pid for p in reversed(processes) for inode in _inodes(proc, p.pid) or ()}
    if _inodes(proc, main.pid) is not None:
        return tuple(Listen(s.host, s.port, owners[s.inode], s.path) for s in sockets if s.inode in owners), True
    path = door.socket and absolute(main, door.socket)
    guessed = [s for s in sockets if (s.port in door.ports and s.uid == main.uid) or (path and s.path == path)]
    return tuple(Listen(s.host, s.port, None, s.path) for s in guessed), False


def absolute(main: Proc, path: str) -> str:
    """As the server has it; as it is written where its working directory is not readable."""
    return os.path.normpath(os.path.join(main.cwd, path))


def _inodes(proc: str, pid: int) -> list[int] | None:
    """Of the sockets that a process has open; None where that is not for us to know."""
    try:
        entries = os.listdir(f"{proc}/{pid}/fd")
    except OSError as error:
        return [] if isinstance(error, FileNotFoundError) else None
    names = (link(f"{proc}/{pid}/fd/{entry}") for entry in entries)
    return [int(name[8:-1]) for name in names if name.startswith("socket:[")]
