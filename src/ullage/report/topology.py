"""Who routes to whom, as a small tree, and where each server runs on this host."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ..deployment import Deployment
from ..engines.on_host import is_at
from ..engines.server import OnHost, Role, Server
from ..evidence import Process
from ..units import told_duration
from .rows import identity, model_of

_TREE = ("├─ ", "└─ ", "│  ", "   ")
_PLAIN = ("|- ", "`- ", "|  ", "   ")
_LISTENS_SHOWN = 2
LETTERS = "".join(_TREE)


class Line(NamedTuple):
    """`lead`: the branches of the tree before the words. `strong`: it names a server."""

    lead: str
    text: str
    strong: bool = False


def tree(deployment: Deployment, *, letters: bool) -> Iterator[Line]:
    """Routers with their workers below them, prefill and decode that no router names, all others. `letters`: may it be
    drawn with box-drawing letters?
    """
    branches = _TREE if letters else _PLAIN
    below = {router.name: _workers(deployment, router) for router in deployment.routers}
    drawn = {server.name for workers in below.values() for server in workers}
    chains = {chain[0].name: chain for part in deployment.parts if (chain := _unrouted(part, drawn))}
    for server in deployment.servers:
        if server.role is Role.ROUTER:
            yield from _router(server, below[server.name], branches)
        elif server.name in chains:
            chain = chains[server.name]
            drawn.update(member.name for member in chain)
            yield Line("", _taken_together(deployment, chain))
            yield from _below(chain, (), branches)
        elif server.name not in drawn:
            yield from _server(server, "", "")


def _workers(deployment: Deployment, router: Server) -> list[Server]:
    found = [s for s in deployment.servers if s is not router and any(is_at(s, url) for url in router.workers)]
    return sorted(found, key=lambda server: (server.role is not Role.PREFILL, deployment.servers.index(server)))


def _unrouted(part: Deployment, routed: Collection[str]) -> list[Server]:
    """The prefill and decode servers of a part that no router names, in the order in which they stand; none where one
    of the roles is missing.
    """
    found = [s for s in part.of(Role.PREFILL, Role.DECODE) if s.name not in routed]
    return found if len({server.role for server in found}) == 2 else []


def _taken_together(deployment: Deployment, chain: Sequence[Server]) -> str:
    """Who pairs with whom is the router's choice: here it is inferred."""
    models = {model_of(server) for server in chain} - {""}
    ground = "of one model" if len(models) == 1 else "the only ones"
    where = "names them" if deployment.routers else "was read"
    return f"prefill and decode, taken as a pair: {ground}; no router {where}"


def _router(router: Server, workers: Sequence[Server], branches: Sequence[str]) -> Iterator[Line]:
    live = router.host is not None or router.name.startswith("http")
    away = [url for url in router.workers if live and not any(is_at(worker, url) for worker in workers)]
    yield from _server(router, "", branches[2] if workers or away else "")
    yield from _below(workers, away, branches)


def _below(servers: Sequence[Server], away: Sequence[str], branches: Sequence[str]) -> Iterator[Line]:
    """`away`: URLs of workers of which nothing was read."""
    fork, last, bar, gap = branches
    children = len(servers) + len(away)
    for number, server in enumerate(servers, 1):
        is_last = number == children
        yield from _server(server, last if is_last else fork, gap if is_last else bar)
    for number, url in enumerate(away, len(servers) + 1):
        yield Line(last if number == children else fork, f"{url}  not read")


def _server(server: Server, lead: str, below: str) -> Iterator[Line]:
    yield Line(lead, identity(server), strong=True)
    if server.host is not None:
        yield Line(below, ", ".join(_place(server.host)))
        yield from (Line(below, text) for text in [", ".join(_where(server.host.process))] if text)


def _place(host: OnHost) -> Iterator[str]:
    """`pid 812 and 4 more, sglang.service, as llm in /srv, up 3 h 5 min`"""
    process = host.process
    more = f" and {len(process.members)} more" if process.members else ""
    yield f"pid {process.pid}{more}"
    if process.unit:
        manager = f" of {process.manager}" if process.manager not in ("", "system") else ""
        yield f"{process.unit}{manager}"
    if process.container:
        yield process.container
    yield f"as {process.user}" + (f" in {process.cwd}" if process.cwd else "")
    if process.started_at is not None:
        yield f"up {told_duration(max(0.0, (host.read_at - process.started_at).total_seconds()))}"


def _where(process: Process) -> Iterator[str]:
    """`listens on 0.0.0.0:30000, writes to the journal`"""
    more = len(process.listens) - _LISTENS_SHOWN
    if process.listens:
        yield f"listens on {' and '.join(process.listens[:_LISTENS_SHOWN])}" + (f", {more} more" if more > 0 else "")
    if process.output:
        yield f"writes to {process.output}"
