"""Which processes are one server: a server, its ranks and helpers; and what a server that is gone has left behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .proc import Stat

_ADOPTS = re.compile(
    r"systemd|init|tini.*|dumb-init|docker-init|catatonit|conmon|containerd-shim.*|s6-.*|runsv.*|supervisord"
    r"|(?:ba|da|z|a|k)?sh|busybox|tmux.*|screen|SCREEN"
)


class Family(NamedTuple):
    """The pids of one server. `main`: of what is no server, the program that runs the engine inside itself; 0 where it
    is gone.
    """

    program: str
    main: int
    members: tuple[int, ...]


def families(
    servers: Mapping[int, tuple[str, tuple[str, ...]]],
    titled: Mapping[int, str],
    table: Mapping[int, Stat],
    same: Callable[[tuple[str, ...], tuple[str, ...]], bool],
) -> tuple[list[Family], list[Family]]:
    """(servers, engines without one: inside another program, or left by a server that is gone).

    `servers`: by pid, what it is and its words. `titled`: by pid, the server whose title it bears. `same`: are two
    command lines one? A server that forked has its own line again as a child.
    """
    mains = {pid: program for pid, (program, words) in servers.items() if not _repeats(pid, servers, table, same)}
    members = _below(mains, table, set(mains))
    taken = {*mains, *(pid for pids in members.values() for pid in pids)}
    orphans = {pid: titled[pid] for pid in titled if pid not in taken and pid in table and table[pid].state not in "ZX"}
    lost: dict[tuple[str, int, int, int], list[int]] = {}
    for pid, below in _below(orphans, table, {*taken, *orphans}).items():
        if main := _beside(pid, titled[pid], mains, table):
            members[main] += (pid, *below)
        else:
            key = (titled[pid], _embedding(pid, orphans, table), table[pid].session, table[pid].pgid)
            lost.setdefault(key, []).extend((pid, *below))
    found = [Family(program, pid, tuple(sorted(members[pid]))) for pid, program in sorted(mains.items())]
    return found, [Family(program, main, tuple(sorted(pids))) for (program, main, _, _), pids in lost.items()]


def _below(tops: Mapping[int, str], table: Mapping[int, Stat], apart: set[int]) -> dict[int, list[int]]:
    """By process, all that descends from it, but for those that stand apart and what descends from them."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.ppid, []).append(pid)
    seen = set(apart)
    found: dict[int, list[int]] = {top: [] for top in tops}
    for top, below in found.items():
        rest = [top] if top in table else []
        while rest:
            parent = table[rest.pop()]
            own = [c for c in children.get(parent.pid, ()) if c not in seen and _is_child(table[c], parent)]
            seen.update(own)
            below += own
            rest += own
    return found


def _is_child(process: Stat, parent: Stat) -> bool:
    """A parent is older than its child: where it is not, the pid was given out again while we read."""
    return process.ppid == parent.pid and process.start_ticks >= parent.start_ticks


def _repeats(
    pid: int,
    servers: Mapping[int, tuple[str, tuple[str, ...]]],
    table: Mapping[int, Stat],
    same: Callable[[tuple[str, ...], tuple[str, ...]], bool],
) -> bool:
    """Is it a fork or a re-start of the server above it? With other words it is a server of its own: a router's
    child that listens on its own port.
    """
    above = _nearest(pid, servers, table)
    return bool(above) and servers[above][0] == servers[pid][0] and same(servers[above][1], servers[pid][1])


def _nearest(pid: int, among: Mapping[int, object], table: Mapping[int, Stat]) -> int:
    """The closest of a process' ancestors that is one of these, 0 for none."""
    seen = {pid}
    child = table.get(pid)
    while child and child.ppid not in seen:
        parent = table.get(child.ppid)
        if parent is None or not _is_child(child, parent):
            return 0
        if parent.pid in among:
            return parent.pid
        seen.add(parent.pid)
        child = parent
    return 0


def _embedding(pid: int, orphans: Mapping[int, str], table: Mapping[int, Stat]) -> int:
    """The program that began an engine's processes inside itself (`LLM(...)` in a script), 0 where it is gone: then an
    init of the host or of a container has adopted them, or a shell that is one.
    """
    child = table[pid]
    seen = {pid}
    while child.ppid in orphans.keys() - seen and _is_child(child, table[child.ppid]):
        child = table[child.ppid]
        seen.add(child.pid)
    parent = table.get(child.ppid)
    if parent is None or parent.pid == 1 or parent.session != child.session or not _is_child(child, parent):
        return 0
    return 0 if _ADOPTS.fullmatch(parent.comm) else parent.pid


def _beside(pid: int, program: str, mains: Mapping[int, str], table: Mapping[int, Stat]) -> int:
    """A process whose parent is gone belongs to the server in its process group that is older than it. One that is
    older than that server is left from another.
    """
    own = table[pid]
    near = [table[main] for main, of in mains.items() if of == program and main in table]
    near = [m for m in near if m.pgid == own.pgid != 0 and m.session == own.session]
    older = [main for main in near if main.start_ticks <= own.start_ticks]
    return max(older, key=lambda main: main.start_ticks).pid if older else 0
