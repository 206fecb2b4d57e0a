"""Findings about servers as they run on this host: whether they serve, who has a port, and what is left of those that
are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from ..deployment import Deployment
from ..engines.server import OnHost, Server
from ..evidence import EMBEDDED, LEFTOVER, Document, Failure, Process, Samples
from ..figure import Figure, Kind, Source
from ..units import told_duration
from .base import Hit, Severity, rule
from .unit_commands import journal_of, unit_command

_STARTING = timedelta(minutes=30)  # large models load this long


@rule("not-serving", Severity.ERROR, "The process runs, and does not serve")
def not_serving(deployment: Deployment) -> Iterator[Hit]:
    """systemd calls a unit "active (running)" as soon as its process exists: that is no proof of a server. This one
    listens on nothing, or nobody answers where it listens.

    Loading a large model takes minutes, and capturing graphs some more; the log says how far it is. Where its last line
    is old, it hangs. (`Type=notify` or a health check in the unit would have told.)
    """
    for server in deployment.servers:
        host = server.host
        if host is None or (why := _silent(deployment, server)) is None:
            continue
        age = _age(host)
        young = age is not None and age < _STARTING and not server.figure("ready").known
        state = f"; {host.unit.name} is {host.unit.state}" if host.unit else ""
        since = f" for {told_duration(age.total_seconds())}" if age is not None else ""
        yield Hit(
            server.name,
            f"pid {host.process.pid} has run{since} and {why}{state}",
            (server.figure("pid"),),
            _what_to_do(host, young=young),
            Severity.INFO if young and not host.process.stopped else None,
        )


@rule("start-never-ends", Severity.WARNING, "The server serves, and systemd still waits for it to start")
def start_never_ends(deployment: Deployment) -> Iterator[Hit]:
    """A unit of `Type=notify` waits for a word from its program, one of `Type=oneshot` or `Type=forking` for the end of
    its first process. No engine here gives such a word or ends: after `TimeoutStartSec=` (90 s unless it is set; never
    for oneshot) systemd kills the server, whatever it does by then. What waits for the unit waits too.
    """
    for server in deployment.servers:
        unit = server.host.unit if server.host else None
        if unit is None or unit.state != "activating (start)":
            continue
        if any(isinstance(item.content, Document | Samples) for item in server.evidence):
            yield Hit(
                server.name,
                f"{unit.name} is {unit.state}, although the server answers: systemd still waits for its start to end",
                (server.figure("unit"),),
                f"set Type=exec in {unit.name}, if nothing tells systemd that it is ready",
            )


def _what_to_do(host: OnHost, *, young: bool) -> str:
    if host.process.stopped:
        return f"let it go on: kill -CONT {' '.join(map(str, host.process.stopped))}"
    return "wait for its log to say that it is ready" if young else f"read the end of its log ({_log_of(host)})"


def _silent(deployment: Deployment, server: Server) -> str | None:
    """Why it cannot be serving; None where it answers, or where that cannot be told from here."""
    host = server.host
    if host is not None and host.process.stopped:
        return f"is stopped (pid {', '.join(map(str, host.process.stopped))}: SIGSTOP, Ctrl-Z or a debugger)"
    if host is None or host.process.network:
        return None
    if not host.process.listens:
        return None if host.process.sockets_hidden else "listens on nothing"
    failed = [item.content for item in deployment.failed if item.origin.owner in _owners(server)]
    dead = next((f for f in failed if isinstance(f, Failure) and f.status in ("timeout", "refused")), None)
    answered = any(isinstance(item.content, Document | Samples) for item in server.evidence)
    return f"does not answer: {dead.reason}" if dead and not answered else None


def _owners(server: Server) -> set[str]:
    return {item.origin.owner for item in server.evidence} - {""}


def _age(host: OnHost) -> timedelta | None:
    return host.read_at - host.process.started_at if host.process.started_at else None


def _log_of(host: OnHost) -> str:
    return journal_of(host.unit) if host.unit else host.process.output or "not known where"


@rule("port-taken", Severity.ERROR, "Two servers are told to use one port")
def port_taken(deployment: Deployment) -> Iterator[Hit]:
    """Two server processes name one port, and only one of them can have it (or both have it by SO_REUSEPORT, and the
    kernel deals requests out between them). The other fails late, after it has loaded its model, or serves nobody.

    Typical after an old server was not stopped before a new one was started by hand. Servers that listen on different
    addresses, or in different networks, share no port.
    """
    by_port: dict[tuple[str, object], dict[int, Server]] = {}
    for server in deployment.servers:
        asked = server.host.asked.get("port") if server.host else None
        if server.host and asked is not None and asked.known:
            on_port = by_port.setdefault((server.host.process.network, asked.value), {})
            on_port.setdefault(server.host.process.pid, server)
    for (_, port), sharing in by_port.items():
        told = _rivals(list(sharing.values()), str(port))
        if told:
            yield told


def _rivals(sharing: Sequence[Server], port: str) -> Hit | None:
    owners = [s for s in sharing if _on(s, port)]
    hidden = [s for s in sharing if _host(s).process.sockets_hidden]
    if len(sharing) < 2 or (len(owners) == len(sharing) and not _meet(owners, port)):
        return None
    names = " and ".join(f"pid {_host(s).process.pid}" for s in sharing)
    others = sharing if hidden else [s for s in sharing if s not in owners] or sharing[1:]
    has = _both(owners) if len(owners) != 1 else f"pid {_host(owners[0]).process.pid} listens on it"
    has = "which of them listens on it is not readable" if hidden and owners else has
    return Hit(
        ", ".join(s.name for s in others),
        f"{names} are both told to use port {port}: {has}",
        tuple(_host(s).asked["port"] for s in sharing),
        f"stop the one that is not wanted ({' or '.join(_stop(_host(s)) for s in others)}), or give it a port of its"
        " own",
    )


def _on(server: Server, port: str) -> set[str]:
    """The addresses on which it listens on that port."""
    places = [listen.rpartition(":") for listen in _host(server).process.listens if not listen.startswith("unix:")]
    return {address for address, _, number in places if number == port}


def _meet(servers: Sequence[Server], port: str) -> bool:
    """Does a request to one of them reach another too? All addresses take in each of them."""
    places = [address for server in servers for address in _on(server, port)]
    return len(set(places)) < len(places) or bool({"0.0.0.0", "[::]"} & set(places))


def _stop(host: OnHost) -> str:
    return unit_command("systemctl", host.unit, "stop") if host.unit else f"kill {host.process.pid}"


def _host(server: Server) -> OnHost:
    if server.host is None:
        raise TypeError(f"{server.name} was not found on this host")
    return server.host


def _both(owners: Sequence[Server]) -> str:
    return "both listen, and requests are dealt out between them" if owners else "none of them listens yet"


@rule("left-over-processes", Severity.ERROR, "Processes of a server that is gone hold its memory")
def left_over(deployment: Deployment) -> Iterator[Hit]:
    """The server's first process is gone, and its children live on: they keep the GPU's memory and often the port, so
    that the next start fails for memory. (sgl-project/sglang issue 241, vllm-project/vllm issue 25127.)

    End them by their process ids, never by name: another server on the host has children of the same name. With
    `KillMode=control-group`, systemd's default, a unit leaves none behind.
    """
    for item in deployment.others:
        process = item.content
        if isinstance(process, Process) and item.topic == LEFTOVER:
            pids = [process.pid, *(member.pid for member in process.members)]
            figure = Figure("pid", process.pid, "", Kind.READ, Source(item.place))
            told = ", ".join(str(pid) for pid in pids)
            yield Hit(
                f"pid {process.pid}",
                f"{len(pids)} {process.program} process{'es' if len(pids) > 1 else ''} without a server: {told}",
                (figure,),
                f"kill {' '.join(str(pid) for pid in pids)}",
            )


@rule("engine-inside-a-program", Severity.INFO, "An engine runs inside another program")
def engine_inside(deployment: Deployment) -> Iterator[Hit]:
    """A script or a notebook made an engine of its own (`LLM(...)`): it answers at no URL, so nothing of it can be
    asked, and it holds GPU memory all the same.

    `ullage memory` shows what it takes of each GPU. It ends with its program.
    """
    for item in deployment.others:
        process = item.content
        if isinstance(process, Process) and item.topic == EMBEDDED:
            yield Hit(
                f"pid {process.pid}",
                f"{process.title} runs {process.program} inside itself",
                (Figure("pid", process.pid, "", Kind.READ, Source(item.place)),),
                "count its GPU memory as taken: ullage memory",
            )
