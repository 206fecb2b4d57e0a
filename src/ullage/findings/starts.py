"""Findings about starts and sources: figures of another start, ranks and sources that disagree."""

from __future__ import annotations

from collections.abc import Iterator

from ..deployment import Deployment
from ..engines.server import EarlierStart, Role, Server
from .base import Hit, Severity, rule

_TOLD = (
    "max_total_num_tokens",
    "mem_fraction_static",
    "context_len",
    "max_running_requests",
    "chunked_prefill_size",
    "swa_full_tokens_ratio",
)


@rule("earlier-start-differs", Severity.INFO, "The log holds earlier starts with other figures")
def earlier_start_differs(deployment: Deployment) -> Iterator[Hit]:
    """A log or a journal holds every start of a server; only the last one is running.

    Searching it for a figure finds the figures of all starts. They are not ranks of one server: free memory is
    MIN-reduced over ranks, so ranks of one group report the same pool. Ullage counts the last start and names the
    others.
    """
    for server in deployment.workers:
        seen = set()
        for start in reversed(server.earlier):
            changed = tuple(name for name in _TOLD if _changed(server, start, name))
            values = tuple(start.figures[name].value for name in changed)
            if changed and values not in seen:
                seen.add(values)
                yield _earlier(server, start, changed)


def _changed(server: Server, start: EarlierStart, name: str) -> bool:
    before, now = start.figures.get(name), server.figures.get(name)
    return before is not None and now is not None and before.value != now.value


def _earlier(server: Server, start: EarlierStart, changed: tuple[str, ...]) -> Hit:
    parts = [
        f"{name} {_plain(start.figures[name].value)} (now {_plain(server.figures[name].value)})" for name in changed
    ]
    evidence = tuple(f for name in changed for f in (start.figures[name], server.figures[name]))
    began = f" of {start.began}" if start.began else ""
    return Hit(
        server.name,
        f"an earlier start{began} had {', '.join(parts)}",
        evidence,
        "count the figures of the current start only; these are history, not ranks",
    )


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


@rule("ranks-disagree", Severity.WARNING, "Data-parallel ranks or replicas hold different pools")
def ranks_disagree(deployment: Deployment) -> Iterator[Hit]:
    """Each data-parallel rank has a pool of its own, and a request lives in one rank: the sum of what each holds, not
    the sum of tokens.

    Ranks of different size fill unevenly, and a long request may fit one and not the other. The limits here are the sum
    over the ranks, which is reached only if each request is sent where there is room. Replicas behind one router that
    differ have the same effect.
    """
    for server in deployment.workers:
        pools = {r.name: f for r in server.ranks if (f := r.figures.get("max_total_num_tokens"))}
        if len({f.value for f in pools.values()}) > 1:
            sizes = ", ".join(f"{name} {f.count:,}" for name, f in pools.items())
            yield Hit(
                server.name,
                f"pools differ by rank: {sizes}",
                tuple(pools.values()),
                "find what else runs on the GPUs of the smaller rank, and restart it",
            )
    for role in (Role.UNIFIED, Role.DECODE, Role.PREFILL):
        yield from _replicas(deployment, role)


def _replicas(deployment: Deployment, role: Role) -> Iterator[Hit]:
    replicas = [s for s in deployment.of(role) if s.figure("max_total_num_tokens").known]
    models = {str(s.figure("served_model_name").value or s.figure("model_path").value) for s in replicas}
    for name in ("max_total_num_tokens", "context_len", "max_running_requests"):
        figures = tuple(s.figures[name] for s in replicas if name in s.figures)
        if len(replicas) > 1 and len(models) == 1 and len({f.value for f in figures}) > 1:
            told = ", ".join(f"{s.name} {_plain(s.figures[name].value)}" for s in replicas if name in s.figures)
            yield Hit(
                f"{role.value} replicas",
                f"{name} differs: {told}",
                figures,
                "start the replicas with the same flags, or route by what each holds",
            )


@rule("sources-disagree", Severity.WARNING, "Two sources state different figures for one quantity")
def sources_disagree(deployment: Deployment) -> Iterator[Hit]:
    """Server info, metrics, log and flags speak of the same server and do not agree. Both figures are shown; the first
    is the one used.

    The usual cause is evidence of another start (an old log, flags edited since). For flags: the server runs with what
    it started with until it is restarted.
    """
    for server in deployment.workers:
        for found in server.disagreements:
            told = " against ".join(f"{_plain(f.value)} ({f.source or f.note})" for f in found.figures)
            yield Hit(server.name, f"{found.quantity}: {told}", found.figures, f"using the first: {found.why}")
