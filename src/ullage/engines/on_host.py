"""A server on this host beside what its engine says: its processes, its unit, and what the unit would start next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from ..evidence import CONFIGURED, DOWN, EMBEDDED, INTENDED, LEFTOVER, Argv, Evidence, Process, Unit
from ..figure import Figure, Kind, Source
from .programs import ROUTER
from .server import OnHost, Role, Server

_ADDRESS = re.compile(r"https?://(?:[^@/]*@)?(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:/]+))(?::(?P<port>\d+))?")
Asked = Callable[[Evidence], Mapping[str, Figure]]


def is_of_host(item: Evidence) -> bool:
    """Evidence of the host or of an ullage.toml, which no engine reads."""
    return item.topic in (CONFIGURED, INTENDED) or isinstance(item.content, Process | Unit)


def is_of_no_server(item: Evidence) -> bool:
    """Of the host, and of no server that runs."""
    return item.topic in (LEFTOVER, EMBEDDED, DOWN)


def with_host(server: Server, items: Sequence[Evidence], asked_of: Asked) -> Server:
    """The server with what is known of its processes; as it was where it was not found on this host."""
    owners = {item.origin.owner for item in server.evidence} - {""}
    mine = [item for item in items if item.origin.owner in owners]
    process = next((i for i in mine if isinstance(i.content, Process)), None)
    if process is None or not isinstance(process.content, Process):
        return server
    unit = next((i for i in mine if isinstance(i.content, Unit)), None)
    running, configured = (_command(mine, is_next) for is_next in (False, True))
    on_host = OnHost(
        process.content,
        unit.content if unit is not None and isinstance(unit.content, Unit) else None,
        asked_of(running) if running else {},
        asked_of(configured) if configured else None,
        _environment(running),
        process.read_at,
        configured.place if configured else "",
    )
    found = {**_figures(process, unit), **server.figures}
    evidence = (*server.evidence, *(item for item in (process, unit, configured) if item))
    notes = tuple(dict.fromkeys((*server.notes, *process.content.remarks)))
    return replace(server, host=on_host, figures=found, evidence=evidence, notes=notes)


def only_seen(servers: Sequence[Server], items: Sequence[Evidence]) -> list[Server]:
    """Servers of which nothing but their processes could be read."""
    told = {item.origin.owner for server in servers for item in server.evidence}
    return [
        Server(item.origin.target, item.content.program, _role(item.content), {}, evidence=(item,))
        for item in items
        if isinstance(item.content, Process) and item.origin.owner and item.origin.owner not in told
    ]


def _role(process: Process) -> Role:
    return Role.ROUTER if process.program == ROUTER else Role.UNKNOWN


def is_at(server: Server, url: str) -> bool:
    """Is this the server behind a URL, under whichever of its names?"""
    if server.name.rstrip("/") == url.rstrip("/"):
        return True
    match = _ADDRESS.match(url)
    if server.host is None or match is None:
        return False
    host, port = match["v6"] or match["host"], match["port"]
    return any(_answers(server.host.process, listen, host.lower(), port) for listen in _tcp(server))


def is_of(process: Process, url: str) -> bool:
    """Does the URL lead to the host of this process?"""
    match = _ADDRESS.match(url)
    return match is not None and (match["v6"] or match["host"]).lower() in process.hosts


class _Listen(NamedTuple):
    host: str
    port: str


def _tcp(server: Server) -> list[_Listen]:
    """Of one in a network of its own that is reached from here: the port that this host has for it."""
    process = server.host.process if server.host else None
    published = _ADDRESS.match(server.name) if process and process.network else None
    if published:
        host = published["v6"] or published["host"]
        return [_Listen("" if host in ("127.0.0.1", "::1") else host, published["port"] or "")]
    listens = process.listens if process else ()
    return [_Listen(*text.rpartition(":")[::2]) for text in listens if not text.startswith("unix:")]


def _answers(process: Process, listen: _Listen, host: str, port: str | None) -> bool:
    bound = listen.host.strip("[]")
    here = host in process.hosts if bound in ("0.0.0.0", "::", "") else _same_host(bound, host)
    return here and listen.port == port


def _same_host(bound: str, host: str) -> bool:
    return bound == host or (bound in ("127.0.0.1", "::1") and host == "localhost")


def _command(items: Sequence[Evidence], is_next: bool) -> Evidence | None:
    """The command line that runs, or the one that would be started next."""
    found = (i for i in items if isinstance(i.content, Argv) and (i.topic == CONFIGURED) is is_next)
    return next(found, None)


def _environment(command: Evidence | None) -> Mapping[str, str]:
    return command.content.environment if command and isinstance(command.content, Argv) else MappingProxyType({})


def _figures(process: Evidence, unit: Evidence | None) -> dict[str, Figure]:
    """Under the names that logs give these too."""
    found: dict[str, Figure] = {}
    if isinstance(process.content, Process):
        found["pid"] = Figure("pid", process.content.pid, "", Kind.READ, Source(process.place))
    if unit is not None and isinstance(unit.content, Unit):
        found["unit"] = Figure("unit", unit.content.name, "", Kind.READ, Source(unit.place))
    return found
