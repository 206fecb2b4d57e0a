"""Finds the servers that run on this host, as far as this user may see them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple, Protocol

from .collisions import Placed, with_collisions
from .config_files import Settings, changed_since, effective_words, settings_of
from .door import Door
from .environment import variables
from .families import Family, families
from .net_tables import Socket, listening, network_of
from .output import output_of
from .proc import Table, link, processes, started_at, whole
from .reach import reached
from .rights import hidden, sudo, unreadable
from .running import Embedded, Found, Leftover, Proc, Running, Unreadable
from .sockets import listens_of

_GUESSED = "its sockets are not readable: the port is taken from its flags"
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[\d.]*\w?$")  # that runs what an engine forks and spawns
_DELETED = " (deleted)"  # what the kernel puts behind the name of a file that is no more
_NO_TABLES = "the tables of its network are not readable: where it listens is not known"


class Programs(Protocol):
    """What there is to know about the programs (see `engines.programs`), handed in: a reader knows no engine."""

    def command_of(self, words: Sequence[str]) -> tuple[str, int]: ...

    def title_of(self, title: str) -> str: ...

    def readable(self, words: Sequence[str]) -> tuple[str, ...]: ...

    def environment_of(self, program: str) -> re.Pattern[str]: ...

    def door_of(self, program: str, words: Sequence[str], environment: Mapping[str, str]) -> Door: ...


class _Host(NamedTuple):
    """What all servers are looked up in. `sockets`: by network, as far as it was read."""

    programs: Programs
    proc: str
    table: Table
    sockets: dict[int, tuple[Socket, ...]]
    fix: str


def find_servers(programs: Programs, proc: str = "/proc", fix: str = "") -> Found:
    """`fix`: the line that reads what may not be read now."""
    seen, servers, titled, ranks = _candidates(programs, proc)
    unseen = hidden(proc, fix or sudo())
    if not servers and not titled:
        return Found((), (), unseen, seen)
    host = _Host(programs, proc, Table(proc, {*servers, *titled, *ranks}), {}, fix or sudo())
    found, left = families(servers, titled, host.table, lambda a, b: programs.readable(a) == programs.readable(b))
    read = [item for family in found if (item := _server(host, family))]
    every = [placed for placed, _ in read]
    lines = (*unseen, *(line for _, lines in read for line in lines))
    leftovers, embedded = _without_server(proc, left)
    running = tuple(with_collisions(placed, every) for placed in every)
    return Found(running, tuple(leftovers), lines, seen, tuple(embedded))


def told(running: Running, words: Sequence[str], programs: Programs, proc: str = "/proc") -> Running:
    """A server whose command line is lost under its title, with the one that its unit states: what it listens on and
    how it is reached follow from that.
    """
    host = _Host(programs, proc, Table(proc, ()), {}, "")
    bare = running._replace(remarks=())
    before = _placed(host, bare, known=False).running.remarks
    after = _placed(host, bare._replace(words=tuple(words)), known=True).running
    return after._replace(remarks=(*(r for r in running.remarks if r not in before), *after.remarks))


class _Candidates(NamedTuple):
    """`seen`: how many processes there are. By pid, `servers`: what it is, and its words; `titled`: of which server it
    bears a title; `ranks`: what may be a rank or a helper of one.
    """

    seen: int
    servers: dict[int, tuple[str, tuple[str, ...]]]
    titled: dict[int, str]
    ranks: set[int]


def _candidates(programs: Programs, proc: str) -> _Candidates:
    found = _Candidates(0, {}, {}, set())
    seen = 0
    for pid, words in processes(proc):
        seen += 1
        if program := programs.command_of(words)[0]:
            found.servers[pid] = (program, words)
        elif words and (program := programs.title_of(words[0])):
            found.titled[pid] = program
        elif words and _PYTHON.match(words[0]):
            found.ranks.add(pid)
        elif program := programs.command_of(really := _really(proc, pid, words))[0]:
            found.servers[pid] = (program, really)
    return found._replace(seen=seen)


def _really(proc: str, pid: int, words: tuple[str, ...]) -> tuple[str, ...]:
    """Its command line with the program that really runs, where it was called by another name (`exec -a NAME`,
    `ExecStart=@`); () where it was not, or where that may not be read.
    """
    program = link(f"{proc}/{pid}/exe").removesuffix(_DELETED) if len(words) > 1 else ""
    called = words[0] if words else ""
    return (program, *words[1:]) if program and program.rpartition("/")[2] != called.rpartition("/")[2] else ()


def _server(host: _Host, family: Family) -> tuple[Placed, list[Unreadable]] | None:
    """None where it has ended, or its pid is another program's by now."""
    main = whole(host.proc, family.main)
    words = main.words if main else ()
    if main is not None and not host.programs.command_of(words)[0]:
        words = _really(host.proc, main.pid, words)
    if main is None or host.programs.command_of(words)[0] != family.program:
        return None
    main = main._replace(
        words=words, environment=variables(host.proc, main.pid, host.programs.environment_of(family.program))
    )
    members = tuple(member for pid in family.members if (member := whole(host.proc, pid)))
    stated, remark = _stated(host, main, family.program)
    head = host.programs.command_of(stated)[1]
    settings = settings_of(host.proc, main._replace(words=stated), head, host.fix)
    edited = changed_since(settings, started_at(main.start_ticks, datetime.now(timezone.utc), host.proc))
    merged = effective_words(stated, head, settings)
    output, errors = (output_of(host.proc, main, host.table, stream) for stream in (1, 2))
    running = Running(
        family.program,
        main,
        members,
        output=output,
        remarks=tuple(filter(None, (remark, _of_program(host.proc, main), _of_settings(settings, edited=edited)))),
        words=merged,
        errors=errors if errors != output else None,
        foreign=network_of(host.proc, main.pid) not in (0, network_of(host.proc, "self")),
    )
    lost = _is_title(stated)
    known = not (lost or settings.unreadable or edited) and main.environment is not None
    lines = unreadable(host.proc, running, host.fix, lost=lost)
    if settings.unreadable:
        lines.append(settings.unreadable)
    placed = _placed(host, running, known=known)
    return placed._replace(running=placed.running._replace(words=stated if edited else merged)), lines


def _placed(host: _Host, running: Running, *, known: bool) -> Placed:
    """With what it listens on and how it is reached. `known`: all that could name its port was read."""
    main, network = running.main, network_of(host.proc, running.main.pid)
    door = host.programs.door_of(running.program, running.words, main.environment or {})
    sockets = _sockets(host, main.pid, network)
    if not network:
        return Placed(running._replace(remarks=(*running.remarks, _NO_TABLES)), door, network, sockets)
    listens, seen = listens_of(host.proc, (main, *running.members), sockets, door)
    reach = reached(main, listens, door, sure=known, proc=host.proc)
    remarks = (*running.remarks, *([] if seen else [_GUESSED]), *reach.remarks)
    return Placed(running._replace(listens=listens, urls=reach.urls, remarks=remarks), door, network, sockets)


def _stated(host: _Host, main: Proc, program: str) -> tuple[tuple[str, ...], str]:
    """(its command line, a remark). One lost under a title may stand behind the program that started it and waits for
    it: `sudo -u llm python -m sglang_router.launch_router --port 8000`.
    """
    pid = main.ppid
    for _ in range(3 if _is_title(main.words) else 0):
        parent = whole(host.proc, pid)
        words = parent.words if parent else ()
        for n in range(1, len(words)):
            if host.programs.command_of(words[n:])[0] == program:
                return words[n:], f"its flags are read from the process that started it (pid {pid})"
        pid = parent.ppid if parent else 0
    return main.words, ""


def _is_title(words: Sequence[str]) -> bool:
    return len(words) == 1 and "::" in words[0]


def _sockets(host: _Host, pid: int, network: int) -> tuple[Socket, ...]:
    if network not in host.sockets:
        host.sockets[network] = listening(host.proc, pid)
    return host.sockets[network]


def _of_program(proc: str, main: Proc) -> str:
    program = link(f"{proc}/{main.pid}/exe")
    name = program.removesuffix(_DELETED)
    return f"{name} was removed or replaced since it started: it runs on with the old one" if name != program else ""


def _of_settings(settings: Settings, *, edited: bool) -> str:
    if not settings.path or settings.unreadable:
        return ""
    if edited:
        return f"{settings.path} was changed after the start: with which of its settings it runs is not known"
    return f"some of its settings are those of {settings.path}"


def _without_server(proc: str, families: Sequence[Family]) -> tuple[list[Leftover], list[Embedded]]:
    left, embedded = [], []
    for family in families:
        members = tuple(member for pid in family.members if (member := whole(proc, pid)))
        parent = whole(proc, family.main) if family.main else None
        if members and parent:
            embedded.append(Embedded(family.program, parent, members))
        elif members and not family.main:
            left.append(Leftover(family.program, members))
    return left, embedded
