"""On which addresses the processes of a server listen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from .net_tables import Socket
from .proc import link
from .running import Listen, Proc


def listens_of(
    proc: str, processes: Sequence[Proc], sockets: Iterable[Socket], ports: Sequence[int]
) -> tuple[tuple[Listen, ...], bool]:
    """(what they listen on, was it seen in their own files).

    The sockets of another user's processes are not for us: then the port is theirs that their flags name, where a
    socket of that user listens on it.
    """
    sockets = list(sockets)
    main = processes[0]
    owners = {inode: p.pid for p in reversed(processes) for inode in _inodes(proc, p.pid) or ()}
    if _inodes(proc, main.pid) is not None:
        return tuple(Listen(s.host, s.port, owners[s.inode], s.path) for s in sockets if s.inode in owners), True
    guessed = [s for s in sockets if s.port in ports and s.uid == main.uid]
    return tuple(Listen(s.host, s.port, None) for s in guessed), False


def _inodes(proc: str, pid: int) -> list[int] | None:
    """Of the sockets that a process has open; None where that is not for us to know."""
    try:
        entries = os.listdir(f"{proc}/{pid}/fd")
    except OSError as error:
        return [] if isinstance(error, FileNotFoundError) else None
    names = (link(f"{proc}/{pid}/fd/{entry}") for entry in entries)
    return [int(name[8:-1]) for name in names if name.startswith("socket:[")]
