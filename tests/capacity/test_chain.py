"""A prefill/decode chain: what bounds the requests in flight, and what does not."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.capacity.draws import few, pool_sets, shapes, stated, unknown_pools
from ullage.capacity.admission import FitsNow
from ullage.capacity.chain import ChainLimits, chain
from ullage.capacity.demand import Demand
from ullage.capacity.limits import Ceiling, Limits, limits
from ullage.capacity.pool import Pool
from ullage.capacity.request import Shape
from ullage.engines.sglang.admission import TokenRatio
from ullage.figure import Kind, missing

SERVERS = st.lists(pool_sets(most=2), min_size=1, max_size=2)
SHAPE = Shape(100)


def holding(requests: int, ceiling: int = 10**6, *, certain: bool = True) -> Limits:
    """The limits of a server that holds so many requests of SHAPE."""
    pool = Pool("KV pool", "tokens", stated("KV pool", 100 * requests), FitsNow(), Demand(), beyond="waits")
    return limits([pool], [Ceiling("window pool", stated("cap", ceiling), "refused with 400", certain)], SHAPE)


def unknown() -> Limits:
    return limits([Pool("KV pool", "tokens", missing("KV pool", "tokens", "no log"), FitsNow(), Demand())], [], SHAPE)


def spread(found: ChainLimits | Limits) -> tuple[float, float, float]:
    return found.admits.least, found.admits.number, found.admits.most


@few
@given(SERVERS, SERVERS, shapes(), st.none() | st.integers(0, 100))
def test_the_least_of_router_and_decode_is_in_flight(
    prefill: list[list[Pool]], decode: list[list[Pool]], shape: Shape, cap: int | None
) -> None:
    decoding = [limits(pools, [], shape) for pools in decode]
    found = chain(
        None if cap is None else stated("parallel_requests_cap", cap, "requests"),
        [limits(pools, [], shape) for pools in prefill],
        decoding,
    )
    sums = tuple(sum(each) for each in zip(*map(spread, decoding), strict=True))
    assert spread(found) == tuple(n if cap is None else min(n, cap) for n in sums)
    safe = sum(d.safe.count for d in decoding)
    assert found.safe.count == (safe if cap is None else min(safe, cap))
    assert 0 <= found.safe.count <= spread(found)[0]
    assert found.admits.inputs
    assert found.safe.inputs


@few
@given(SERVERS, pool_sets(most=2), pool_sets(most=2), shapes())
def test_what_is_in_prefill_bounds_nothing(
    decode: list[list[Pool]], one: list[Pool], other: list[Pool], shape: Shape
) -> None:
    decoding = [limits(pools, [], shape) for pools in decode]
    found, again = (chain(None, [limits(pools, [], shape)], decoding) for pools in (one, other))
    assert found._replace(in_prefill=again.in_prefill) == again
    assert found.in_prefill.count == limits(one, [], shape).admits.count


@few
@given(st.lists(pool_sets(unknown_pools(), most=2), min_size=1, max_size=2), SERVERS, shapes())
def test_a_decode_server_that_is_not_known_makes_the_whole_unknown(
    dark: list[list[Pool]], decode: list[list[Pool]], shape: Shape
) -> None:
    servers = [limits(pools, [], shape) for pools in (*decode, *dark)]
    found = chain(stated("parallel_requests_cap", 3, "requests"), [], servers)
    assert found.admits.kind is found.safe.kind is Kind.MISSING
    assert found.admits.note
    assert found.binds == "decode: not known"


def test_decode_binds_and_says_so() -> None:
    found = chain(None, [holding(2)], [holding(7), holding(3)])
    assert (found.admits.value, found.safe.value, found.in_prefill.value) == (10, 10, 2)
    assert (found.binds, found.beyond) == ("decode: KV pool", "waits")
    assert found.why == "decode, KV pool: each holds 100; 3 take 300 of 300, one more needs 400"


def test_a_router_that_caps_binds() -> None:
    cap = stated("parallel_requests_cap", 5, "requests")
    found = chain(cap, [holding(2)], [holding(10)])
    assert (found.admits.value, found.safe.value) == (5, 5)
    assert found.binds == "router: limit on parallel requests"
    assert cap in found.admits.inputs


def test_a_router_that_caps_inside_a_range_cuts_it() -> None:
    pool = Pool("KV pool", "tokens", stated("KV pool", 100), TokenRatio(Fraction(0), Fraction(1)), Demand())
    decode = limits([pool], [], Shape(10, 10))
    assert spread(decode) == (4, 4, 8)
    found = chain(stated("parallel_requests_cap", 6, "requests"), [], [decode])
    assert spread(found) == (4, 4, 6)
    assert found.binds == "decode: KV pool; router: limit on parallel requests"


def test_a_router_that_caps_above_decode_does_not_bind() -> None:
    found = chain(stated("parallel_requests_cap", 11, "requests"), [holding(2)], [holding(10)])
    assert (found.admits.value, found.binds) == (10, "decode: KV pool")


def test_what_prefill_refuses_never_gets_to_decode() -> None:
    found = chain(stated("parallel_requests_cap", 5, "requests"), [holding(9, ceiling=99)], [holding(10)])
    assert (found.admits.value, found.safe.value, found.in_prefill.value) == (0, 0, 0)
    assert found.binds == "prefill: window pool"
    assert found.beyond == "refused with 400"
    assert found.admits.inputs


def test_what_prefill_may_refuse_is_told_beside_the_answer() -> None:
    found = chain(None, [holding(9, ceiling=99, certain=False)], [holding(10)])
    assert found.admits.value == 10
    assert found.perhaps_refused is not None
    assert found.perhaps_refused.tokens.value == 99


def test_a_prefill_server_that_is_not_known_leaves_decode_its_answer() -> None:
    found = chain(None, [unknown()], [holding(4)])
    assert (found.admits.value, found.binds) == (4, "decode: KV pool")
    assert found.in_prefill.kind is Kind.MISSING
    assert found.in_prefill.note == "no log"


def test_a_role_that_nobody_read_is_not_known() -> None:
    assert chain(None, [], [holding(4)]).in_prefill.note == "no server of this role was read"
    assert chain(None, [holding(4)], []).admits.kind is Kind.MISSING
