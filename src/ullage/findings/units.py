"""Findings about systemd's units: what their files say now against what runs, and whether they stay up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..deployment import Deployment
from ..engines.server import OnHost, Server
from ..evidence import CONFIGURED, Argv, ConfigFile, Failure, Unit
from ..figure import Figure, Source, read
from ..units import told_duration
from .base import Hit, Severity, rule
from .compared import NO_MATTER, of, setting_of, told, unequal
from .unit_commands import journal_of, manager_owner, unit_command

_CLOCK_SET_S = 2.0
_VARIABLE = re.compile(r"\$(?:\{\w|\w)")
_SINCE = "running since before the edit with"
_Edit = tuple[str, Figure, Figure]  # a quantity, as the files say now, as the process was started


@rule("restart-pending", Severity.WARNING, "The unit's files ask for something else than what runs")
def restart_pending(deployment: Deployment) -> Iterator[Hit]:
    """A server keeps the flags that it was started with. Its unit file, a drop-in, an environment file, a script or a
    `--config` file was edited since, and the next start (by hand, after a crash, after a reboot) will be another
    server.

    Restart it when that suits, or take the edit back. With `daemon-reload` pending, systemd itself would still start
    the old command. Where nothing that was read here differs, the finding only says that a file changed.
    """
    for server in deployment.servers:
        if server.host is None:
            continue
        changed = [file for file in _files(server.host) if _is_newer(file, server.host)]
        edits = _edits(server)
        if edits and (changed or server.host.unit is None or server.host.unit.reload_pending):
            yield _pending(server, server.host, edits, changed)
        elif changed and not edits:
            yield _touched(server, server.host, changed)


@rule("unit-differs", Severity.WARNING, "What runs is not what its unit's files say")
def unit_differs(deployment: Deployment) -> Iterator[Hit]:
    """The command line of the running process differs from the one in its unit's files, and none of them was edited
    since it started.

    A script adds or replaces flags, a variable comes from somewhere else, or the process was started by hand within the
    unit. Believe what runs; and look at what starts it before you rely on the files.
    """
    for server in deployment.servers:
        host = server.host
        if host is None or host.unit is None or host.unit.reload_pending:
            continue
        edits = _edits(server)
        if edits and not any(_is_newer(file, host) for file in _files(host)):
            differing = "; ".join(told(server, name, now, "it runs with", then) for name, now, then in edits)
            yield Hit(
                server.name,
                f"{differing} (in {host.configured_in}, not edited since the start)",
                _evidence(server, edits),
                f"look at what {host.unit.name} really starts: {unit_command('systemctl', host.unit, 'cat')}",
            )


def _pending(server: Server, host: OnHost, edits: Sequence[_Edit], changed: Sequence[ConfigFile]) -> Hit:
    differing = "; ".join(told(server, name, now, _SINCE, then) for name, now, then in edits)
    unit = host.unit
    restart = unit_command("systemctl", unit, "restart") if unit else "restart the server"
    reload = "daemon-reload, then " if unit and unit.reload_pending else ""
    reload = reload and f"systemctl{' --user' if unit and manager_owner(unit) else ''} {reload}"
    where = f" ({', '.join(file.path for file in changed)})" if changed else ""
    return Hit(
        server.name,
        f"{differing}{where}: restart pending",
        _evidence(server, edits),
        f"{reload}{restart} when it suits, or take the edit back",
    )


def _touched(server: Server, host: OnHost, changed: Sequence[ConfigFile]) -> Hit:
    files = ", ".join(file.path for file in changed)
    unread = " (its command line there is not known)" if host.configured is None else ""
    unread = " (some of its command line there is not known)" if _is_in_part(server) else unread
    unread = " (what it read of its --config file is not known)" if _has_settings_elsewhere(server) else unread
    return Hit(
        server.name,
        f"changed since the start: {files}{unread}; nothing that was read there differs from what runs",
        tuple(read("changed_at", str(file.changed_at), "", Source(file.path)) for file in changed),
        "look at what was edited: the next start reads it",
        Severity.INFO,
    )


def _edits(server: Server) -> list[_Edit]:
    host = server.host
    if host is None or host.configured is None:
        return []
    known = host.configured if _is_in_part(server) else [*host.configured, *host.asked]
    names = [n for n in dict.fromkeys(known) if n not in NO_MATTER]
    pairs = [(name, of(host.configured, name), _asked(server, host, name)) for name in names]
    return [(name, now, then) for name, now, then in pairs if then and unequal(now, then)]


def _is_in_part(server: Server) -> bool:
    """Do its files name variables whose values could not be read? They may hold any flag that is not there."""
    commands = [item.content for item in server.evidence if isinstance(item.content, Argv) and item.topic == CONFIGURED]
    return any(_VARIABLE.search(word) for command in commands for word in command.words)


def _asked(server: Server, host: OnHost, name: str) -> Figure | None:
    """As the process was started. Of settings in a file that could not be read as it was then, what its log says;
    None where that says nothing.
    """
    if name in host.asked or not _has_settings_elsewhere(server):
        return of(host.asked, name)
    setting = setting_of(server, name)
    return setting.requested if setting and setting.requested.known else None


def _has_settings_elsewhere(server: Server) -> bool:
    """Where its `--config` file was read as it was at the start, its settings stand in its place."""
    commands = [item.content for item in server.evidence if isinstance(item.content, Argv) and item.topic != CONFIGURED]
    return any(word.partition("=")[0] == "--config" for command in commands for word in command.words)


def _evidence(server: Server, edits: Sequence[_Edit]) -> tuple[Figure, ...]:
    told = tuple(figure for _, *both in edits for figure in both if figure.known)
    return told or (server.figure("pid"),)


def _files(host: OnHost) -> Sequence[ConfigFile]:
    return host.unit.files if host.unit else ()


def _is_newer(file: ConfigFile, host: OnHost) -> bool:
    """Was it written after the start? Where the clock was set in between, nobody can tell."""
    began = host.process.started_at
    if file.changed_at is None or began is None or _clock_was_set(host):
        return False
    return file.changed_at > began


def _clock_was_set(host: OnHost) -> bool:
    return host.unit is not None and abs(host.unit.clock_moved_s or 0) > _CLOCK_SET_S


@rule("unit-gone", Severity.WARNING, "The unit's file is no more")
def unit_gone(deployment: Deployment) -> Iterator[Hit]:
    """The server runs on in a unit whose file was removed or renamed, or that was masked. When it ends, or after a
    reboot, nothing starts it again under this name; and what would be started next cannot be compared with what runs.

    Put the file back, or start the server under its new unit when that suits.
    """
    for server in deployment.servers:
        unit = server.host.unit if server.host else None
        if unit is not None and _is_masked(deployment, server):
            yield Hit(
                server.name,
                f"{unit.name} is {unit.state}, and it is masked: nothing starts it again",
                (server.figure("unit"),),
                f"{unit_command('systemctl', unit, 'unmask')}, or start it under another unit when that suits",
            )
        elif unit is not None and unit.gone:
            yield Hit(
                server.name,
                f"{unit.name} is {unit.state}, and its file is no more: nothing starts it again",
                (server.figure("unit"),),
                "put its file back, or start it under its new unit when that suits",
            )


def _is_masked(deployment: Deployment, server: Server) -> bool:
    owners = {item.origin.owner for item in server.evidence} - {""}
    failed = [item.content for item in deployment.failed if item.origin.owner in owners and item.topic == CONFIGURED]
    return any(isinstance(content, Failure) and content.status == "masked" for content in failed)


@rule("clock-set", Severity.INFO, "The clock was set while the server ran")
def clock_set(deployment: Deployment) -> Iterator[Hit]:
    """systemd writes down when a unit became active, by the wall clock and by the clock since boot. Where these two no
    longer agree the wall clock was set in between, so times in the journal, in logs and of files cannot be compared
    across that moment.

    Ages are reckoned by the clock since boot; whether a file was edited after the start is not told.
    """
    for server in deployment.servers:
        if server.host and server.host.unit and _clock_was_set(server.host):
            moved = server.host.unit.clock_moved_s or 0
            figure = read("clock_moved_s", round(moved, 1), "s", Source(server.host.unit.name, "ActiveEnterTimestamp"))
            way = "forward" if moved > 0 else "back"
            yield Hit(
                server.name,
                f"the clock was set {way} by {told_duration(abs(moved))} since {server.host.unit.name} became active",
                (figure,),
                "do not compare times before and after; keep the clock with a time service",
            )


@rule("does-not-stay-up", Severity.ERROR, "systemd starts the server again and again")
def does_not_stay_up(deployment: Deployment) -> Iterator[Hit]:
    """The unit's process ends, and systemd starts it anew (`Restart=`) until it gives up. What it served in between is
    lost, and each start loads the model again.

    The end of the journal of the start before says why: out of memory, a port that is taken, a flag that this version
    does not know.
    """
    for item in deployment.others:
        if isinstance(item.content, Unit):
            yield _restarted(item.content.name, item.content, Severity.ERROR)
    for server in deployment.servers:
        unit = server.host.unit if server.host else None
        if unit is not None and unit.restarts:
            yield _restarted(server.name, unit, Severity.WARNING)


def _restarted(where: str, unit: Unit, severity: Severity) -> Hit:
    count = read("restarts", unit.restarts or 0, "", Source(unit.name, "NRestarts"))
    times = f"started again {count.count} time{'s' if count.value != 1 else ''}" if count.value else ""
    waits = "waits to be started again" if "auto-restart" in unit.state and not times else ""
    result = f"the last end: {unit.result}" if unit.result not in ("", "success") else ""
    told = [_state(unit), times or waits or "not started again", result]
    return Hit(
        where,
        f"{unit.name} {', '.join(filter(None, told))}",
        (count,),
        f"read how it ended: {journal_of(unit)}",
        severity,
    )


def _state(unit: Unit) -> str:
    """`is active (running)`, and `has failed` for "failed (failed)"; since when, where it does not run."""
    since = f" (since {unit.since:%Y-%m-%d %H:%M:%S} UTC)" if unit.since and not unit.state.startswith("active") else ""
    return f"has failed{since}" if unit.state == "failed (failed)" else f"is {unit.state}{since}"
