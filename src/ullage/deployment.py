"""Deployment: servers with their roles, the router in front, and the limits of the whole for a request shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from .capacity.chain import ChainLimits, chain
from .capacity.limits import Limits, Longest, limits, longest, summed
from .capacity.pool import Pool
from .capacity.request import Shape
from .engines.on_host import is_at
from .engines.server import Role, Server
from .evidence import Evidence
from .figure import Figure, derived, missing

STANDARD_PROMPTS = (4096, 32768, 131072)
_NO_CHAIN_VLLM = (
    "chain not computed: in vLLM a prompt is computed first and held on prefill until decode has read it, decode takes"
    " its blocks before the transfer, and the proxy between them decides how many wait where; the limits are each"
    " server's own"
)
_INPUT_MARGIN = 8  # tokens by which an input limit may lie below the context that it comes from


class Deployment(NamedTuple):
    """What was found. Prefill and decode servers together are one chain; anything else answers for itself."""

    servers: tuple[Server, ...]
    failed: tuple[Evidence, ...] = ()  # what could not be read
    others: tuple[Evidence, ...] = ()  # on this host: processes of servers that are gone, units that do not stay up

    def of(self, *roles: Role) -> tuple[Server, ...]:
        return tuple(s for s in self.servers if s.role in roles)

    @property
    def routers(self) -> tuple[Server, ...]:
        return self.of(Role.ROUTER)

    @property
    def workers(self) -> tuple[Server, ...]:
        return tuple(s for s in self.servers if s.role is not Role.ROUTER)

    @property
    def parts(self) -> tuple[Deployment, ...]:
        """Deployments that have nothing to do with each other, in the order of their first servers."""
        groups = _apart(self.servers)
        if len(groups) < 2:
            return (self,)
        return tuple(self._replace(servers=tuple(s for s in self.servers if s in group)) for group in groups)

    @property
    def is_chain(self) -> bool:
        return self._has_both_roles and not self.no_chain

    @property
    def no_chain(self) -> str:
        """Why prefill and decode are not reckoned as one chain, although both are there."""
        engines = {s.engine for s in self.of(Role.PREFILL, Role.DECODE)}
        if not self._has_both_roles:
            return ""
        if len(engines) == 1:
            return _NO_CHAIN_VLLM if engines == {"vLLM"} else ""
        return f"chain not computed: its roles are served by different engines ({', '.join(sorted(engines))})"

    @property
    def _has_both_roles(self) -> bool:
        return bool(self.of(Role.PREFILL) and self.of(Role.DECODE))

    @property
    def router(self) -> Server | None:
        return self.routers[0] if self.routers else None

    @property
    def context(self) -> Figure:
        """The longest context that every server of the deployment accepts."""
        stated = [c.tokens for s in self.workers for c in s.ceilings if c.what == "context length" and c.tokens.known]
        known = [figure for figure in stated if figure.count > 0]
        if not known:
            return missing("context_len", "tokens", "no server states its context length")
        return min(known, key=lambda f: f.count)


def _apart(servers: Sequence[Server]) -> list[list[Server]]:
    """Each router with its workers; other prefill and decode servers together, or by model where each model has both;
    all others together, for each of them answers for itself.
    """
    groups = _routed(servers)
    routed = [s for group in groups for s in group]
    pairs = [s for s in servers if s not in routed and s.role in (Role.PREFILL, Role.DECODE)]
    chains = [*groups, *_by_model(pairs)]
    rest = [s for s in servers if s not in routed and s not in pairs]
    lone = [s for s in rest if s.role is Role.ROUTER]
    if len(chains) == 1 and lone and len(lone) == len(rest):
        return [[*chains[0], *lone]]
    found = [group for group in (*chains, rest) if group]
    return sorted(found, key=lambda group: min(map(servers.index, group)))


def _routed(servers: Sequence[Server]) -> list[list[Server]]:
    """Routers with those of their workers that are here; routers that share a worker are one deployment."""
    groups: list[list[Server]] = []
    for router in (s for s in servers if s.role is Role.ROUTER):
        group = [router, *(s for s in servers if s is not router and any(is_at(s, url) for url in router.workers))]
        shared = [other for other in groups if any(s in other for s in group)]
        groups = [other for other in groups if other not in shared]
        if len(group) > 1:
            groups.append([*group, *(s for other in shared for s in other if s not in group)])
    return groups


def _by_model(servers: Sequence[Server]) -> list[list[Server]]:
    by_model: dict[str, list[Server]] = {}
    for server in servers:
        by_model.setdefault(_model(server), []).append(server)
    whole = all({s.role for s in group} == {Role.PREFILL, Role.DECODE} for group in by_model.values())
    return list(by_model.values()) if whole else [list(servers)]


def _model(server: Server) -> str:
    path = next((f.value for n in ("model_path", "model", "served_model_name") if (f := server.figure(n)).known), "")
    return str(path).rstrip("/").rsplit("/", 1)[-1].lower()


class Answer(NamedTuple):
    """Limits for one shape: of the chain as a whole, or per server."""

    label: str
    shape: Shape
    by_server: Mapping[str, Limits]
    chain: ChainLimits | None


def answer(deployment: Deployment, shape: Shape, label: str = "", servers: Sequence[Server] | None = None) -> Answer:
    """`servers`: those that the answer is of; all workers where none are given."""
    by_server = {s.name: server_limits(s, shape) for s in (deployment.workers if servers is None else servers)}
    whole = None
    if deployment.is_chain:
        parts = [[by_server[s.name] for s in deployment.of(role)] for role in (Role.PREFILL, Role.DECODE)]
        whole = chain(router_cap(deployment.router), *parts)
    return Answer(label or f"{shape.prompt:,}", shape, by_server, whole)


def standard_answers(deployment: Deployment, at: Sequence[int] = (), requests: Sequence[Shape] = ()) -> list[Answer]:
    """The table: 4,096 / 32,768 / 131,072 and what was asked for, by length; one full context; request shapes.

    Each server, or the chain as a whole, has its own full context, and no standard lengths above it.
    """
    return [row for part in deployment.parts for row in _answers(part, at, requests)]


def _answers(deployment: Deployment, at: Sequence[int], requests: Sequence[Shape]) -> list[Answer]:
    full = {s.name: full_context(group, context) for group, context in _contexts(deployment) for s in group}
    rows = []
    for length in sorted({*STANDARD_PROMPTS, *at}):
        shape = Shape(length)
        shown = [s for s in deployment.workers if _is_shown(shape, full.get(s.name), asked=length in at)]
        rows += [answer(deployment, shape, servers=shown)] if shown else []
    for shape in dict.fromkeys(full.values()):
        rows.append(answer(deployment, shape, "full", [s for s in deployment.workers if full.get(s.name) == shape]))
    return rows + [answer(deployment, shape, describe(shape)) for shape in requests]


def _contexts(deployment: Deployment) -> list[tuple[Sequence[Server], int]]:
    """Servers with the context that one request of theirs may take: those of a chain together."""
    groups = [deployment.workers] if deployment.is_chain else [(server,) for server in deployment.workers]
    stated = [(group, Deployment(tuple(group)).context) for group in groups]
    return [(group, context.count) for group, context in stated if context.known]


def _is_shown(shape: Shape, full: Shape | None, *, asked: bool) -> bool:
    return full is None or (shape != full and (asked or shape.prompt < full.total))


def describe(shape: Shape) -> str:
    output = "no limit named" if shape.output is None else f"{shape.output:,}"
    return f"{shape.prompt:,} + {output}" + (f", {shape.shared:,} shared" if shape.shared else "")


def server_limits(server: Server, shape: Shape) -> Limits:
    """A shape whose client names no output is filled in by the server's default: unbounded means the whole context."""
    resolved = shape.resolved(unnamed_output(server, shape.prompt))
    together = limits(server.pools, server.ceilings, resolved)
    each = [limits(_of_rank(server, size), server.ceilings, resolved) for size in differing_pools(server)]
    return summed(together, each) if each and together.admits.known and not together.refused else together


def differing_pools(server: Server) -> tuple[Figure, ...]:
    """The KV pool of each data-parallel rank, where all are known and they differ."""
    kv = next((p for p in server.pools if p.name == "KV pool"), None)
    by_rank = tuple(f for r in server.ranks if kv and (f := r.figures.get(kv.size.name)))
    return by_rank if kv and kv.partitions > 1 and kv.size.low is not None and len(by_rank) == kv.partitions else ()


def _of_rank(server: Server, size: Figure) -> list[Pool]:
    return [replace(pool, size=size if pool.name == "KV pool" else pool.size, partitions=1) for pool in server.pools]


def unnamed_output(server: Server, prompt: int) -> int:
    value = server.default_output.value
    if isinstance(value, int):
        return value
    context = next((c.tokens for c in server.ceilings if c.what == "context length" and c.tokens.known), None)
    return max(0, context.count - prompt) if context else 0


def full_context(servers: Sequence[Server], context: int) -> Shape:
    """One request that takes a whole context. Servers take a few tokens less as prompt: those are output."""
    stated = [c.tokens.count for s in servers for c in s.ceilings if c.certain and c.tokens.known]
    prompt = min((limit for limit in stated if context - _INPUT_MARGIN <= limit < context), default=context)
    return Shape(prompt, context - prompt)


def reach_of(server: Server) -> Longest:
    """The longest single request of a server."""
    return longest(server.ceilings)


def router_cap(router: Server | None) -> Figure | None:
    """A router's limit on parallel requests, where it is one. sglang-router's is a bucket that refills: no cap."""
    return router.figures.get("parallel_requests_cap") if router else None


def total_context(server: Server) -> Figure:
    """Tokens that all requests together can hold: the pool of every partition."""
    if server.total_context is not None:
        return server.total_context
    kv = next((p for p in server.pools if p.name == "KV pool"), None)
    if kv is None or not kv.size.known:
        return missing("total_context_tokens", "tokens", kv.size.note if kv else "no KV pool is known")
    if kv.partitions == 1:
        return kv.size.renamed("total_context_tokens")
    if by_rank := differing_pools(server):
        note = f"sum over {kv.partitions} data-parallel ranks"
        return derived("total_context_tokens", sum(f.count for f in by_rank), "tokens", by_rank, note)
    return derived(
        "total_context_tokens",
        kv.size.count * kv.partitions,
        "tokens",
        (kv.size,),
        f"{kv.partitions} data-parallel ranks",
    )
