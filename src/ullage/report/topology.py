"""Who routes to whom, as a small tree, and where each server runs on this host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..deployment import Deployment
from ..engines.on_host import is_at
from ..engines.server import OnHost, Role, Server
from ..units import told_duration
from .rows import identity

_TREE = ("├─ ", "└─ ", "│  ", "   ")
_PLAIN = ("|- ", "`- ", "|  ", "   ")
LETTERS = "".join(_TREE)


class Line(NamedTuple):
    """`lead`: the branches of the tree before the words. `strong`: it names a server."""

    lead: str
    text: str
    strong: bool = False


def tree(deployment: Deployment, *, letters: bool) -> Iterator[Line]:
    """Routers with their workers below them; then all others. `letters`: may it be drawn with box-drawing letters?"""
    branches = _TREE if letters else _PLAIN
    below = {router.name: _workers(deployment, router) for router in deployment.routers}
    routed = {server.name for workers in below.values() for server in workers}
    for server in deployment.servers:
        if server.role is Role.ROUTER:
            yield from _router(server, below[server.name], branches)
        elif server.name not in routed:
            yield from _server(server, "", "")


def _workers(deployment: Deployment, router: Server) -> list[Server]:
    found = [s for s in deployment.servers if s is not router and any(is_at(s, url) for url in router.workers)]
    return sorted(found, key=lambda server: (server.role is not Role.PREFILL, deployment.servers.index(server)))


def _router(router: Server, workers: Sequence[Server], branches: Sequence[str]) -> Iterator[Line]:
    fork, last, bar, gap = branches
    live = router.host is not None or router.name.startswith("http")
    away = [url for url in router.workers if live and not any(is_at(worker, url) for worker in workers)]
    children = len(workers) + len(away)
    yield from _server(router, "", bar if children else "")
    for number, worker in enumerate(workers, 1):
        is_last = number == children
        yield from _server(worker, last if is_last else fork, gap if is_last else bar)
    for number, url in enumerate(away, len(workers) + 1):
        yield Line(last if number == children else fork, f"{url}  not read")


def _server(server: Server, lead: str, below: str) -> Iterator[Line]:
    yield Line(lead, identity(server), strong=True)
    if server.host is not None:
        yield Line(below, ", ".join(_place(server.host)))


def _place(host: OnHost) -> Iterator[str]:
    """`pid 812 and 4 more, sglang.service, user llm, up 3 h 5 min`"""
    process = host.process
    more = f" and {len(process.members)} more" if process.members else ""
    yield f"pid {process.pid}{more}"
    if process.unit:
        manager = f" of {process.manager}" if process.manager not in ("", "system") else ""
        yield f"{process.unit}{manager}"
    if process.container:
        yield process.container
    yield f"as {process.user}"
    if process.started_at is not None:
        yield f"up {told_duration(max(0.0, (host.read_at - process.started_at).total_seconds()))}"
