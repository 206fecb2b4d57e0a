"""The curve: every point is an answer, and the stretches change over at the exact token."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capacity.draws import few
from ullage.capacity.admission import FitsNow
from ullage.capacity.chain import ChainLimits
from ullage.capacity.demand import Demand
from ullage.capacity.limits import Ceiling, Limits
from ullage.capacity.pool import Pool
from ullage.capacity.request import Shape
from ullage.deployment import Deployment, answer
from ullage.engines.server import Role, Server
from ullage.figure import Figure, Source, missing, read
from ullage.report.curve import Curve, curves_of


def figure(name: str, value: int, unit: str = "tokens") -> Figure:
    return read(name, value, unit, Source("a test"))


def server(
    kv: int, slots: int, context: int, page: int = 1, role: Role = Role.UNIFIED, states: int | None = None
) -> Server:
    """A KV pool and request slots; `states`: a third pool, of one unit per 64 tokens."""
    pools = [
        Pool("KV pool", "tokens", figure("kv", kv), FitsNow(), Demand(page=page)),
        Pool("request slots", "requests", figure("slots", slots, "requests"), FitsNow(), Demand(0, fixed=1)),
    ]
    if states is not None:
        pools.append(Pool("state slots", "slots", figure("states", states, "slots"), FitsNow(), Demand(0, fixed=3)))
    ceilings = (Ceiling("context length", figure("context_len", context), "refused with 400"),)
    return Server(f"{role.value} server", "SGLang", role, {}, pools=tuple(pools), ceilings=ceilings)


def asked(deployment: Deployment, prompt: int) -> Limits | ChainLimits:
    found = answer(deployment, Shape(prompt))
    return found.chain or next(iter(found.by_server.values()))


def only(deployment: Deployment) -> Curve:
    [curve] = curves_of(deployment)
    return curve


servers = st.builds(
    server,
    st.integers(1, 3_000_000),
    st.integers(1, 5000),
    st.integers(1, 1_000_000),
    st.sampled_from([1, 16, 64, 256]),
    states=st.none() | st.integers(3, 3000),
)


@few
@given(servers)
def test_every_point_is_the_answer_for_its_prompt(drawn: Server) -> None:
    deployment = Deployment((drawn,))
    curve = only(deployment)
    for point in curve.points:
        found = asked(deployment, point.prompt)
        assert (point.admits, point.safe, point.binds) == (found.admits.value, found.safe.value, found.binds)
    assert curve.points or curve.unknown


@few
@given(servers)
def test_the_stretches_lie_side_by_side_and_change_over_at_the_token(drawn: Server) -> None:
    deployment = Deployment((drawn,))
    curve = only(deployment)
    if not curve.points:
        return
    assert (curve.stretches[0].first, curve.stretches[-1].last) == (curve.first, curve.last)
    for stretch in curve.stretches:
        assert asked(deployment, stretch.first).binds == asked(deployment, stretch.last).binds == stretch.binds
    for before, after in pairwise(curve.stretches):
        assert after.first == before.last + 1
        assert after.binds != before.binds


@few
@given(servers)
def test_the_curve_ends_with_the_longest_prompt_that_is_served(drawn: Server) -> None:
    deployment = Deployment((drawn,))
    curve = only(deployment)
    if curve.points:
        assert asked(deployment, curve.last).admits.number >= 1
        assert asked(deployment, curve.last + 1).admits.number == 0


@few
@given(servers, st.floats(0, 1))
def test_between_two_points_that_say_the_same_every_prompt_does(drawn: Server, share: float) -> None:
    deployment = Deployment((drawn,))
    curve = only(deployment)
    for a, b in pairwise(curve.points):
        if a[1:] == b[1:]:
            prompt = a.prompt + round(share * (b.prompt - a.prompt))
            assert asked(deployment, prompt).admits.value == curve.at(prompt).admits


def test_slots_give_way_to_the_pool_at_the_exact_token() -> None:
    curve = only(Deployment((server(kv=100_000, slots=10, context=50_000),)))
    assert [tuple(s) for s in curve.stretches] == [(256, 9090, "request slots"), (9091, 50_000, "KV pool")]
    assert curve.ends_at == "context length"
    assert curve.most == 10


def test_a_chain_is_one_curve_and_prefill_ends_it() -> None:
    decode = server(kv=100_000, slots=10, context=60_000, role=Role.DECODE)
    prefill = server(kv=80_000, slots=10, context=50_000, role=Role.PREFILL)
    curve = only(Deployment((prefill, decode)))
    assert [s.binds for s in curve.stretches] == ["decode: request slots", "decode: KV pool"]
    assert curve.last == 50_000


def test_a_doubtful_ceiling_is_told_and_does_not_end_the_curve() -> None:
    doubtful = Ceiling("window pool", figure("window", 20_000), "refused with 400", certain=False)
    sure = server(kv=100_000, slots=10, context=50_000)
    curve = only(
        Deployment((Server("s", "e", Role.UNIFIED, {}, pools=sure.pools, ceilings=(*sure.ceilings, doubtful)),))
    )
    assert curve.last == 50_000
    assert curve.perhaps == doubtful


@pytest.mark.parametrize("role", [Role.UNIFIED, Role.DECODE])
def test_without_a_pool_there_is_no_curve_but_a_reason(role: Role) -> None:
    unknown = missing("kv", "tokens", "the start is not in this log")
    pool = Pool("KV pool", "tokens", unknown, FitsNow(), Demand())
    curve = only(Deployment((Server("s", "e", role, {}, pools=(pool,)),)))
    assert curve.points == ()
    assert "the start is not in this log" in curve.unknown


def test_a_pool_that_is_not_known_makes_it_an_upper_bound() -> None:
    known = server(kv=100_000, slots=10, context=50_000)
    unknown = Pool("state slots", "slots", missing("states", "slots", "not stated"), FitsNow(), Demand(0, fixed=1))
    pools = (*known.pools, unknown)
    assert only(Deployment((Server("s", "e", Role.UNIFIED, {}, pools=pools, ceilings=known.ceilings),))).at_most
