"""Everything that a memory report shows, in one value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from ..capacity.ledger import Ledger
from ..capacity.ledger_tap import Setting
from ..capacity.limits import Ceiling
from ..capacity.pool import Pool
from ..capacity.request import Shape
from ..deployment import Deployment, describe, full_context, server_limits
from ..engines.ledger import Account, accounts_of
from ..engines.read import Unclaimed, failures, read
from ..engines.server import Server
from ..evidence import Evidence, Failure, Gpus
from ..figure import Figure, Kind

_USUAL = 32768  # tokens of the request that settings are compared by, where none is asked for
_OF_MEMORY = ("--mem-fraction-static", "--gpu-memory-utilization", "-c", "--kv-unified-per-slot", "--swa-full")


class Buys(NamedTuple):
    """The requests of a shape that a server holds safely at each of its settings, by the setting's value."""

    label: str
    safe: dict[float, Figure]


class Memory(NamedTuple):
    accounts: tuple[Account, ...]
    buys: dict[str, tuple[Buys, ...]]  # by server
    unserved: tuple[Ledger, ...]
    servers: tuple[Server, ...]
    failed: tuple[tuple[Evidence, Failure], ...]
    unclaimed: tuple[Unclaimed, ...]
    echoes: tuple[str, ...]
    margin: int
    read_at: datetime


def memory_of(
    items: Sequence[Evidence],
    margin: int,
    at: Sequence[int] = (),
    requests: Sequence[Shape] = (),
    echoes: Sequence[str] = (),
) -> Memory:
    """Evidence in, the ledgers and what is on tap out. `margin`: bytes that are to stay free on each GPU."""
    servers, unclaimed = read(items)
    accounts, unserved = accounts_of(servers, items, margin)
    return Memory(
        tuple(accounts),
        {account.server.name: tuple(_buys(account, at, requests)) for account in accounts},
        tuple(unserved),
        tuple(servers),
        tuple(failures(items, servers)),
        tuple(u for u in unclaimed if not isinstance(u.evidence.content, Gpus)),
        tuple(echoes),
        margin,
        min((item.read_at for item in items), default=datetime.now().astimezone()),
    )


def _buys(account: Account, at: Sequence[int], requests: Sequence[Shape]) -> Iterator[Buys]:
    """What each setting holds of each shape."""
    for label, shape in _shapes(account.server, at, requests):
        safe = {s.value: _safe(account, s, shape) for s in account.tap.settings}
        if any(figure.known for figure in safe.values()):
            yield Buys(label, safe)


def _shapes(server: Server, at: Sequence[int], requests: Sequence[Shape]) -> Iterator[tuple[str, Shape]]:
    """What is asked for; else a usual length, or the whole context where that is shorter."""
    context = Deployment((server,)).context
    yield from ((f"{length:,}", Shape(length)) for length in at)
    yield from ((describe(shape), shape) for shape in requests)
    if at or requests:
        return
    if context.known and context.count <= _USUAL:
        yield f"{context.count:,}", full_context([server], context.count)
    else:
        yield f"{_USUAL:,}", Shape(_USUAL)


def _safe(account: Account, setting: Setting, shape: Shape) -> Figure:
    """Requests that all finish, with the pools that the setting gives. A range where the pool is one."""
    now, pool = account.tap.pool, setting.pool
    assert now is not None, "settings stand on a pool"
    sizes = (pool.number, pool.least, pool.most)
    found = [server_limits(with_pool(account.server, now, size), shape).safe for size in sizes]
    if pool is now or not all(figure.known for figure in found):
        return found[0]
    inputs = (*found[0].inputs, pool)
    figure = replace(found[0], kind=Kind.PREDICTED, inputs=inputs, source=None, low=None, high=None)
    return figure.between(found[1].least, found[2].most)


def with_pool(server: Server, now: Figure, size: int | float) -> Server:
    """The server with its memory pools larger or smaller in the same proportion."""
    share = size / now.number
    pools = tuple(_scaled(pool, share, now, size) for pool in server.pools)
    return replace(server, pools=pools, ceilings=tuple(_raised(ceiling, share) for ceiling in server.ceilings))


def _scaled(pool: Pool, share: float, now: Figure, size: int | float) -> Pool:
    if not pool.size.known or not pool.lever.startswith(_OF_MEMORY):
        return pool
    exact = pool.size.name == now.name and pool.size.value == now.value
    return replace(pool, size=_times(pool.size, share, int(size) if exact else None))


def _raised(ceiling: Ceiling, share: float) -> Ceiling:
    if ceiling.what != "KV pool" or not ceiling.tokens.known:
        return ceiling
    return ceiling._replace(tokens=_times(ceiling.tokens, share))


def _times(figure: Figure, share: float, exact: int | None = None) -> Figure:
    if share == 1:
        return figure
    value = exact if exact is not None else int(figure.number * share)
    note = "in proportion to the pool"
    return Figure(figure.name, value, figure.unit, Kind.PREDICTED, inputs=(figure,), note=note)
