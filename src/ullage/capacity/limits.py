"""The limits of one server for a request shape: admits, safe, what binds each, what happens beyond, the longest
request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..figure import Figure, derived, missing
from .admission import Admitted
from .pool import Pool
from .request import Shape


class Ceiling(NamedTuple):
    """A bound on the length of one request. `certain` False: it holds in some versions, and which one runs is not
    known.
    """

    what: str
    tokens: Figure
    beyond: str
    certain: bool = True


class Longest(NamedTuple):
    """The longest request that is served: for certain, and if the doubtful ceiling holds too."""

    tokens: Figure
    ceiling: Ceiling | None
    perhaps: Ceiling | None = None

    def refuses(self, shape: Shape) -> Ceiling | None:
        return self.ceiling if self.ceiling and shape.prompt > self.ceiling.tokens.count else None

    def may_refuse(self, shape: Shape) -> Ceiling | None:
        return self.perhaps if self.perhaps and shape.prompt > self.perhaps.tokens.count else None


class PoolLimit(NamedTuple):
    """What one pool, all its partitions together, says of a shape."""

    pool: Pool
    admits: Admitted | None  # None: the pool has no test at the door
    safe: int


class Limits(NamedTuple):
    """The answer for a shape. `safe` never exceeds `admits.low`; `uncounted` names pools that could bind but are not
    known.
    """

    shape: Shape
    admits: Figure
    safe: Figure
    binds: str
    safe_binds: str
    beyond: str
    overflow: str
    why: str  # the sum of the pool that binds
    by_pool: tuple[PoolLimit, ...]
    uncounted: tuple[Pool, ...] = ()
    refused: Ceiling | None = None
    perhaps_refused: Ceiling | None = None

    @property
    def at_most(self) -> bool:
        """Pools that could bind are not known: admits and safe are upper bounds."""
        return bool(self.uncounted) and self.admits.known and self.refused is None


def longest(ceilings: Sequence[Ceiling]) -> Longest:
    """The least of the certain ceilings; a doubtful one is told only where it is lower."""
    known = [c for c in ceilings if c.tokens.known]
    certain = min((c for c in known if c.certain), key=lambda c: c.tokens.count, default=None)
    doubtful = min((c for c in known if not c.certain), key=lambda c: c.tokens.count, default=None)
    if certain is None:
        reason = (
            "; ".join(c.tokens.note for c in ceilings if not c.tokens.known)
            or "neither the context length nor the pool is known"
        )
        return Longest(missing("longest_request", "tokens", reason), None, doubtful)
    tokens = derived(
        "longest_request",
        certain.tokens.count,
        "tokens",
        tuple(c.tokens for c in known if c.certain),
        f"the least: {certain.what}",
    )
    lower = doubtful if doubtful and doubtful.tokens.count < certain.tokens.count else None
    return Longest(tokens, certain, lower)


def limits(pools: Sequence[Pool], ceilings: Sequence[Ceiling], shape: Shape) -> Limits:
    """How many requests of `shape` (output named) run in parallel. Pools that are not known are left out, and named."""
    reach = longest(ceilings)
    refused = reach.refuses(shape)
    counted = [_ask(pool, shape) for pool in pools if pool.counted]
    uncounted = tuple(pool for pool in pools if not pool.counted)
    if refused and counted:
        return _refused(shape, refused, counted, uncounted)
    if all(limit.admits is None for limit in counted):
        return _unknown(shape, uncounted, refused)
    return _least(shape, counted, uncounted, reach.may_refuse(shape))


def summed(together: Limits, each: Sequence[Limits]) -> Limits:
    """Partitions of different sizes: the sum of what each of them holds, instead of the least times their number."""
    least = min(each, key=lambda part: part.safe.count)
    return together._replace(
        admits=_added([part.admits for part in each]),
        safe=_added([part.safe for part in each]),
        why=f"the least of {len(each)} ranks: {least.why}",
        by_pool=tuple(map(_pool_over_ranks, together.by_pool, zip(*(part.by_pool for part in each), strict=True))),
    )


def _pool_over_ranks(together: PoolLimit, each: Sequence[PoolLimit]) -> PoolLimit:
    admits = [part.admits for part in each if part.admits]
    if not admits:
        return PoolLimit(together.pool, None, sum(part.safe for part in each))
    now = [a.now for a in admits if a.now is not None]
    added = Admitted(
        sum(a.low for a in admits), sum(a.high for a in admits), sum(now) if len(now) == len(admits) else None
    )
    return PoolLimit(together.pool, added, sum(part.safe for part in each))


def _added(figures: Sequence[Figure]) -> Figure:
    first, note = figures[0], f"sum over {len(figures)} data-parallel ranks, each {figures[0].note}"
    figure = derived(first.name, sum(f.count for f in figures), first.unit, tuple(figures), note)
    if all(f.low is None and f.high is None for f in figures):
        return figure
    low = sum(f.count if f.low is None else f.low for f in figures)
    high = sum(f.count if f.high is None else f.high for f in figures)
    return replace(figure, low=low, high=high)


def _ask(pool: Pool, shape: Shape) -> PoolLimit:
    assert pool.demand is not None
    if pool.rule is None:
        return PoolLimit(pool, None, pool.holds(shape))
    admits = pool.rule.admits(pool.size.count, pool.demand, shape).times(pool.partitions)
    return PoolLimit(pool, admits, pool.holds(shape))


def _least(shape: Shape, counted: list[PoolLimit], uncounted: tuple[Pool, ...], perhaps: Ceiling | None) -> Limits:
    doors = [(c.pool, c.admits) for c in counted if c.admits is not None]
    low_pool, at_low = min(doors, key=lambda door: door[1].low)
    high_pool, at_high = min(doors, key=lambda door: door[1].high)
    full = min(counted, key=lambda c: c.safe)
    now = min(a.now if a.now is not None else a.high for _, a in doors)
    live = any(a.now is not None for _, a in doors)
    admitted = Admitted(at_low.low, at_high.high, now if live else None)
    safe_pool = full.pool if full.safe <= admitted.low else low_pool
    return Limits(
        shape=shape,
        admits=_admits_figure(admitted, counted, uncounted),
        safe=_safe_figure(counted, admitted.low, safe_pool),
        binds=high_pool.name if low_pool is high_pool else f"{low_pool.name} to {high_pool.name}",
        safe_binds=safe_pool.name,
        beyond=high_pool.beyond,
        overflow=full.pool.overflow if full.safe < admitted.high else "",
        why=_sum(high_pool, shape, at_high.high),
        by_pool=tuple(counted),
        uncounted=uncounted,
        perhaps_refused=perhaps,
    )


def _safe_figure(counted: list[PoolLimit], most: int, pool: Pool) -> Figure:
    """All can finish. A range where a pool in doubt gives the least: the low end is with it, the high end without."""
    low = min(most, *(c.safe for c in counted))
    high = min(most, *(c.safe for c in counted if not c.pool.doubt))
    note = "all can finish at their full length; never more than are admitted"
    figure = derived("safe", low, "requests", _inputs(pool), note)
    return replace(figure, note=f"{note}; {pool.doubt}", low=low, high=high) if low < high else figure


def _sum(pool: Pool, shape: Shape, admitted: int) -> str:
    assert pool.demand is not None
    assert pool.rule is not None
    ranks = f" on each of {pool.partitions} ranks" if pool.partitions > 1 else ""
    return f"{pool.name}{ranks}: {pool.rule.why(pool.size.count, pool.demand, shape, admitted // pool.partitions)}"


def _admits_figure(admitted: Admitted, counted: list[PoolLimit], uncounted: tuple[Pool, ...]) -> Figure:
    inputs = tuple(figure for c in counted for figure in _inputs(c.pool))
    note = "the least over its pools"
    if uncounted:
        note += "; not counted: " + ", ".join(f"{p.name} ({p.unknown or p.size.note})" for p in uncounted)
    value = admitted.now if admitted.now is not None else admitted.low
    spread = admitted.low != admitted.high
    figure = derived("admits", value, "requests", inputs, note)
    return _with_range(figure, admitted) if spread else figure


def _with_range(figure: Figure, admitted: Admitted) -> Figure:
    live = (
        "now, by the live ratio"
        if admitted.now is not None
        else "the low end of a range: which of it holds depends on what runs"
    )
    return Figure(
        figure.name,
        figure.value,
        figure.unit,
        figure.kind,
        inputs=figure.inputs,
        note=f"{figure.note}; {live}",
        low=admitted.low,
        high=admitted.high,
    )


def _inputs(pool: Pool) -> tuple[Figure, ...]:
    return (pool.size, *pool.inputs)


def _refused(shape: Shape, ceiling: Ceiling, counted: list[PoolLimit], uncounted: tuple[Pool, ...]) -> Limits:
    zero = derived("admits", 0, "requests", (ceiling.tokens,), f"{ceiling.what} is {ceiling.tokens.count:,} tokens")
    return Limits(
        shape,
        zero,
        zero.renamed("safe"),
        ceiling.what,
        ceiling.what,
        ceiling.beyond,
        "",
        f"{ceiling.what}: {ceiling.tokens.count:,} tokens",
        tuple(counted),
        uncounted,
        refused=ceiling,
    )


def _unknown(shape: Shape, uncounted: tuple[Pool, ...], refused: Ceiling | None) -> Limits:
    reason = (
        "; ".join(dict.fromkeys(p.size.note if not p.size.known else p.unknown for p in uncounted))
        or "no pool is known"
    )
    return Limits(
        shape,
        missing("admits", "requests", reason),
        missing("safe", "requests", reason),
        "not known",
        "not known",
        "",
        "",
        "",
        (),
        uncounted,
        refused,
    )
