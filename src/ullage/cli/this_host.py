"""What runs on this host, as evidence: processes, their units and logs, what the units would start, and the endpoints.

Nothing is written, and no port is asked that no server found here listens on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from ..engines import programs
from ..engines.read import COMMANDS, TOPICS_OF
from ..evidence import CONFIGURED, DOWN, Argv, Content, Evidence, Failure, Log, Origin, Process, Unit
from ..masking import Masker
from ..observe.at_once import at_once
from ..observe.host.container_ref import ContainerRef, container_of, remark_of
from ..observe.host.environment import names, variable
from ..observe.host.evidence import not_readable, of_no_server, process_of
from ..observe.host.find import find_servers, told
from ..observe.host.journal import read_journal
from ..observe.host.proc import runs, started_at
from ..observe.host.reach import UNREACHED
from ..observe.host.rights import sudo
from ..observe.host.running import Output, Running
from ..observe.host.unit_files import Start, read_unit_files
from ..observe.host.units import UnitName, managers, read_units, unit_of, units_naming
from ..observe.log_file import LogScan
from ..observe.prefixes import SYSTEMD
from .configured import configured

if TYPE_CHECKING:
    from ..observe.host.containers import Container

_AT_ONCE = 8


class HostView(NamedTuple):
    """`items`: what was read. By URL, `urls`: whose evidence its answers are; `pages`: the metrics page of a server
    that has it on a port of its own; `topics`: what it is asked.
    """

    items: tuple[Evidence, ...]
    urls: dict[str, Origin]
    pages: dict[str, str]
    topics: dict[str, frozenset[str]]
    processes_seen: int


@dataclass
class _Server:
    """One server that was found, and what its evidence is filed under."""

    running: Running
    unit: UnitName | None
    container: ContainerRef | None
    urls: tuple[str, ...] = ()
    items: list[Evidence] = field(default_factory=list)

    @property
    def origin(self) -> Origin:
        pid = self.running.main.pid
        return Origin(self.urls[0] if self.urls else f"pid {pid}", pid=pid, owner=self.running.owner)


def look_around(scan: LogScan, masker: Masker, *, history: bool = False) -> HostView:
    """Everything but the endpoints. `history`: earlier starts of the units too."""
    found = find_servers(programs)
    servers = [_server(running) for running in found.servers]
    units = read_units({s.unit for s in servers if s.unit}, masker)
    sources = _Sources(servers, units, re.compile(COMMANDS), scan, masker, history)
    for server in servers:
        _read_flags(server, sources)
    _keep_apart(servers)
    at_once(lambda server: _read(server, sources), servers, _AT_ONCE)
    servers = [server for server in servers if runs(server.running.main)]
    items = [item for server in servers for item in server.items]
    flags_known = {s.running.main.pid for s in servers if any(item.remark == _OF_UNIT for item in s.items)}
    items += [*not_readable(found, flags_known), *of_no_server(found, masker), *_down(servers, sources)]
    pages = {server.urls[0]: page for server in servers if server.urls and (page := _page(server))}
    urls = {server.urls[0]: server.origin for server in servers if server.urls}
    topics = {server.urls[0]: TOPICS_OF[server.running.program] for server in servers if server.urls}
    return HostView(tuple(items), urls, pages, topics, found.processes_seen)


def _keep_apart(servers: Sequence[_Server]) -> None:
    """Of two that would be reached at one URL, as far as can be read, the first is."""
    taken: set[str] = set()
    for server in servers:
        server.urls = tuple(url for url in server.urls[:1] if url not in taken)
        taken.update(server.urls)


def _server(running: Running) -> _Server:
    cgroup = running.main.cgroup
    return _Server(running, unit_of(cgroup), container_of(cgroup), running.urls)


class _Sources(NamedTuple):
    servers: Sequence[_Server]
    units: dict[UnitName, Evidence]
    commands: re.Pattern[str]
    scan: LogScan
    masker: Masker
    history: bool


def _read_flags(server: _Server, sources: _Sources) -> None:
    """Its unit, and its command line: where a title is written over that, the one in the unit's files."""
    unit = _unit(server, sources)
    command = _command(server, sources.masker)
    if not command and (command := _command_of_unit(server, unit)):
        words = next(item.content.words for item in command if isinstance(item.content, Argv))
        server.running = told(server.running, words, programs)
        server.urls = server.running.urls
    server.items = [*command, *unit]


def _read(server: _Server, sources: _Sources) -> None:
    """All other evidence of one server; everything under its origin."""
    container = _inspected(server.container, sources.masker) if server.container else None
    if (known := _read_one(container)) and not server.urls:
        _publish(server, known)
    process = _process(server, container, sources.masker)
    items = [_evidence(server, f"pid {process.pid}", "process", process), *server.items]
    if isinstance(container, Failure) and server.container:
        items.append(_evidence(server, str(server.container), "", container))
    items += _log(server, container, sources)
    server.items = [item._replace(origin=_filed(server, item)) for item in items]


def _inspected(ref: ContainerRef, masker: Masker) -> Container | Failure:
    from ..observe.host.containers import read_container

    return read_container(ref, masker)


def _read_one(container: Container | Failure | None) -> Container | None:
    return None if isinstance(container, Failure) else container


def _publish(server: _Server, container: Container) -> None:
    """Where this host publishes its port, it is reached after all."""
    listens, tls = server.running.listens, programs.door_of(server.running.program, server.running.words, {}).tls
    server.urls = container.urls([(listen.host, listen.port) for listen in listens], tls=tls)
    if server.urls:
        remarks = tuple(remark for remark in server.running.remarks if not remark.endswith(UNREACHED))
        server.running = server.running._replace(remarks=remarks)


def _filed(server: _Server, item: Evidence) -> Origin:
    return item.origin if item.topic == _SHARED else server.origin._replace(stream=item.origin.stream)


def _process(server: _Server, container: Container | Failure | None, masker: Masker) -> Process:
    unit = server.unit
    outside = remark_of(server.running.main.cgroup)
    known = _read_one(container)
    remarks = [outside] * bool(outside) + [*(known.remarks if known else ())]
    return process_of(server.running, remarks, masker)._replace(
        unit=unit.name if unit else "",
        manager=unit.manager if unit else "",
        container=_shown(server.container, container),
    )


def _shown(ref: ContainerRef | None, container: Container | Failure | None) -> str:
    if ref is None:
        return ""
    known = _read_one(container)
    return f"{ref.runtime} {known.name}" if known and known.name else str(ref)


def _evidence(server: _Server, place: str, topic: str, content: Content) -> Evidence:
    return Evidence(server.origin, place, topic, datetime.now(timezone.utc), content)


def _command(server: _Server, masker: Masker) -> list[Evidence]:
    """None where a title is written over it: no flag is known then, which is not the same as none given."""
    running = server.running
    words = running.words or running.main.words
    if len(words) == 1 and "::" in words[0]:
        return []
    argv = Argv(masker.words(programs.readable(words)), masker.environment(running.main.environment or {}))
    return [_evidence(server, f"command line of pid {running.main.pid}", "", argv)]


def _command_of_unit(server: _Server, unit: Sequence[Evidence]) -> list[Evidence]:
    """In its stead, the command that the unit's files hold, where none of them is younger than the process."""
    began = started_at(server.running.main.start_ticks, datetime.now(timezone.utc))
    files = [file for item in unit if isinstance(item.content, Unit) for file in item.content.files]
    if began is None or not files or any(file.changed_at is None or file.changed_at > began for file in files):
        return []
    told = [item for item in unit if item.topic == CONFIGURED and isinstance(item.content, Argv)]
    return [item._replace(topic="", remark=_OF_UNIT) for item in told]


def _unit(server: _Server, sources: _Sources) -> list[Evidence]:
    """The unit as it is loaded with the files that decide, and what they would start now."""
    loaded = sources.units.get(server.unit) if server.unit else None
    if server.unit is None or loaded is None:
        return []
    if not isinstance(loaded.content, Unit):
        return [loaded]
    paths = [file.path for file in loaded.content.files]
    files = read_unit_files(server.unit, paths, sources.commands, sources.masker, _start(server))
    unit = loaded.content._replace(files=files.files or loaded.content.files)
    near = [other for other in sources.servers if other.unit == server.unit]
    alone = sum(other.running.program == server.running.program for other in near) == 1
    told = configured(server.running, files, sources.masker, alone=alone)
    first = near[0] is server  # for all of them it is said once what could not be read
    return [loaded._replace(topic="unit", content=unit), *(item for item in told if first or not item.failed)]


def _start(server: _Server) -> Start | None:
    main = server.running.main
    began = started_at(main.start_ticks, datetime.now(timezone.utc))
    return Start(began, names("/proc", main.pid)) if began else None


_OF_UNIT = "its command line is written over by its title: the flags are those of its unit's files"
_SHARED = "shared log"  # topic of a log that several servers write into: what it says tells whose it is


def _log(server: _Server, container: Container | Failure | None, sources: _Sources) -> list[Evidence]:
    """Its log, from wherever its output goes."""
    if server.container is not None:
        from ..observe.host.containers import read_container_log

        return read_container_log(server.container, sources.scan, sources.masker, _read_one(container))
    outputs = [output for output in (server.running.errors, server.running.output) if output]
    logs = [item for output in outputs for item in _of_output(server, output, sources)]
    kept = [item for item in logs if not isinstance(item.content, Log) or item.content.lines]
    return kept or logs[:1]


def _of_output(server: _Server, output: Output, sources: _Sources) -> list[Evidence]:
    if output.kind in ("journal", "unknown") and server.unit is not None:
        return _journal(server, server.unit, sources)
    if output.kind == "file" or (output.kind == "pipe" and output.path):
        return _file(server, output.path, sources)
    return []


def _journal(server: _Server, unit: UnitName, sources: _Sources) -> list[Evidence]:
    loaded = sources.units.get(unit)
    running, current = server.running, loaded.content.invocation if loaded and isinstance(loaded.content, Unit) else ""
    invocation = _started_in(running) or current
    alone = sum(other.unit == unit for other in sources.servers) == 1
    pids = () if alone else (running.main.pid, *(member.pid for member in running.members))
    if not invocation:
        unknown = Failure("no start", "systemd does not tell which start of the unit it is of", sudo())
        return [] if loaded and loaded.failed else [_evidence(server, f"journal of {unit.name}", "", unknown)]
    found = read_journal(unit, invocation, pids, sources.scan, sources.masker, history=sources.history)
    return [_of_program(item) for item in found] if all(i.origin.stream == SYSTEMD for i in found) else found


def _of_program(item: Evidence) -> Evidence:
    """Of a journal in which nothing but systemd speaks no engine can be read."""
    if not isinstance(item.content, Log):
        return item
    why = "no line in it is the server's own, only systemd's"
    return item._replace(content=Failure("silent", "; ".join((why, *item.content.gaps))))


def _started_in(running: Running) -> str:
    """The start of its unit that a process is of, by its own environment: systemd may know of a later one that it has
    outlived, or of none where the unit's file is gone.
    """
    named = variable("/proc", running.main.pid, "INVOCATION_ID")
    return named if re.fullmatch("[0-9a-f]{32}", named) else ""


def _file(server: _Server, path: str, sources: _Sources) -> list[Evidence]:
    from ..observe.files import read_file

    writers = [s for s in sources.servers if any(_is_one(path, p) for p in _outputs(s))]
    if len(writers) > 1 and writers[0] is not server:
        return []
    found = read_file(path, sources.scan, sources.masker, sources.commands)
    logs = [item for item in found if isinstance(item.content, Log | Failure)]
    return [item._replace(topic=_SHARED) for item in logs] if len(writers) > 1 else logs


def _outputs(server: _Server) -> list[str]:
    outputs = (server.running.output, server.running.errors)
    return [output.path for output in outputs if output and output.kind in ("file", "pipe") and output.path]


def _is_one(path: str, other: str) -> bool:
    """One file, which may have a path of its own for each process that sees it."""
    if path == other:
        return True
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _page(server: _Server) -> str:
    """The metrics page of a router, which has a port of its own, where it listens on that."""
    running = server.running
    if running.program != programs.ROUTER or not server.urls:
        return ""
    door = programs.door_of(running.program, running.words or running.main.words, running.main.environment or {})
    port = next((listen.port for listen in running.listens if listen.port in door.others), None)
    host = re.sub(r":\d+$", "", server.urls[0])
    return f"{host}:{port}/metrics" if port else ""


def _down(servers: Sequence[_Server], sources: _Sources) -> list[Evidence]:
    """Units whose server ends as soon as it began: no process of theirs may be there to be found, or it has ended while
    it was read.
    """
    up = {server.unit for server in servers}
    ended = {name: item for name, item in sources.units.items() if name not in up}
    found = {**ended, **units_naming(sources.commands, sources.masker, managers())}
    return [item._replace(topic=DOWN) for name, item in found.items() if name not in up and not item.failed]
