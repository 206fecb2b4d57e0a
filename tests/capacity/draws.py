"""Pools, shapes and ceilings as hypothesis draws them: whatever an engine could state, small enough to bind."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st

from ullage.capacity.admission import FitsNow, Rule
from ullage.capacity.demand import Demand
from ullage.capacity.pool import Pool
from ullage.capacity.request import Shape
from ullage.engines.sglang.admission import DecodeReserve, PrefillPass, TokenRatio
from ullage.figure import Figure, Source, missing, read

PAGES = st.sampled_from([1, 2, 4, 16, 64])
RATIOS = st.sampled_from([Fraction(n, 16) for n in range(17)])
CLIPS = st.integers(1, 200)
SIZES = st.integers(0, 3000)
few = settings(max_examples=40)  # a set of pools takes its time to draw; 1,500 examples have passed too


def stated(name: str, value: int, unit: str = "tokens") -> Figure:
    return read(name, value, unit, Source("a test"))


def sized(pool: Pool, size: int) -> Pool:
    """The same pool with another size."""
    return replace(pool, size=stated(pool.name, size, pool.unit))


def _fits_now() -> st.SearchStrategy[Rule]:
    return st.just(FitsNow())


def _decode() -> st.SearchStrategy[Rule]:
    return st.builds(DecodeReserve, st.integers(0, 64), CLIPS)


def _prefill() -> st.SearchStrategy[Rule]:
    return st.just(PrefillPass())


@st.composite
def _ratio(draw: st.DrawFn) -> Rule:
    low, high = sorted((draw(RATIOS), draw(RATIOS)))
    return TokenRatio(low, high, draw(st.none() | RATIOS), draw(CLIPS))


def kv_rules() -> st.SearchStrategy[Rule]:
    return _decode() | _ratio() | _prefill() | _fits_now()


@st.composite
def kv_demands(draw: st.DrawFn) -> Demand:
    return Demand(
        page=draw(PAGES), shares=draw(st.booleans()), draft=draw(st.integers(0, 8)), prompt_only=draw(st.booleans())
    )


@st.composite
def _window_demands(draw: st.DrawFn) -> Demand:
    page = draw(PAGES)
    return Demand(page=page, window=draw(st.integers(1, 200)) + page - 1)


def _slot_demands() -> st.SearchStrategy[Demand]:
    return st.integers(0, 4).map(lambda slots: Demand(0, fixed=slots))


@st.composite
def _state_demands(draw: st.DrawFn) -> Demand:
    """Compressed or recurrent state: a fixed part, and a slot for every few tokens."""
    per_token = draw(st.sampled_from([Fraction(0), Fraction(1, 128), Fraction(1, 4), Fraction(1), Fraction(3)]))
    return Demand(per_token, draw(st.integers(0, 50)), page=draw(PAGES))


@st.composite
def known_pools(draw: st.DrawFn, name: str = "pool") -> Pool:
    rule, demand = draw(
        st.tuples(kv_rules(), kv_demands())
        | st.tuples(_fits_now(), _window_demands() | _slot_demands() | _state_demands())
    )
    return Pool(
        name,
        "tokens",
        stated(name, draw(SIZES)),
        rule,
        demand,
        partitions=draw(st.integers(1, 4)),
        beyond=f"waits for {name}",
        overflow=draw(st.sampled_from(["", f"{name} overflows"])),
    )


@st.composite
def unknown_pools(draw: st.DrawFn, name: str = "unknown") -> Pool:
    """One whose size nobody states, or whose demand nobody knows."""
    if draw(st.booleans()):
        return Pool(name, "tokens", missing(name, "tokens", "nobody states its size"), FitsNow(), Demand())
    return Pool(name, "tokens", stated(name, draw(SIZES)), FitsNow(), None, unknown="nobody knows the demand")


def pool_sets(
    pools: st.SearchStrategy[Pool] | None = None, least: int = 1, most: int = 4
) -> st.SearchStrategy[list[Pool]]:
    """Pools with names of their own."""
    lists = st.lists(known_pools() if pools is None else pools, min_size=least, max_size=most)
    return lists.map(lambda found: [replace(p, name=f"{p.name} {n}") for p, n in zip(found, count(1), strict=False)])


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    prompt = draw(st.integers(1, 400))
    return Shape(prompt, draw(st.integers(0, 300)), draw(st.just(0) | st.integers(0, prompt)))
