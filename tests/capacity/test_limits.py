"""What must hold of the limits whatever the pools are."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.capacity.draws import few, known_pools, pool_sets, shapes, sized, stated, unknown_pools
from tests.replay.finish import finish
from ullage.capacity.admission import FitsNow
from ullage.capacity.demand import Demand
from ullage.capacity.limits import Ceiling, Limits, limits, longest
from ullage.capacity.pool import Pool
from ullage.capacity.request import Shape
from ullage.engines.sglang.admission import DecodeReserve
from ullage.figure import Kind, missing

SMALL = st.integers(0, 600)


def numbers(found: Limits) -> tuple[float, float, float]:
    return found.safe.number, found.admits.least, found.admits.most


@few
@given(pool_sets(), shapes())
def test_safe_is_at_most_what_is_admitted_and_nothing_is_negative(pools: list[Pool], shape: Shape) -> None:
    found = limits(pools, [], shape)
    assert 0 <= found.safe.count <= found.admits.least <= found.admits.number <= found.admits.most
    for pool in found.by_pool:
        assert pool.admits is not None
        assert 0 <= pool.admits.low <= pool.admits.high
        assert pool.safe >= 0
        assert pool.admits.now is None or pool.admits.low <= pool.admits.now <= pool.admits.high


@few
@given(pool_sets(), shapes(), st.integers(0, 2000), st.integers(0, 3))
def test_more_of_a_pool_never_gives_fewer(pools: list[Pool], shape: Shape, more: int, which: int) -> None:
    index = which % len(pools)
    larger = [sized(p, p.size.count + more) if n == index else p for n, p in enumerate(pools)]
    before, after = numbers(limits(pools, [], shape)), numbers(limits(larger, [], shape))
    assert all(b <= a for b, a in zip(before, after, strict=True))


@few
@given(pool_sets(), shapes(), st.integers(0, 200))
def test_a_longer_output_never_gives_more(pools: list[Pool], shape: Shape, more: int) -> None:
    longer = replace(shape, output=shape.named_output + more)
    before, after = numbers(limits(pools, [], shape)), numbers(limits(pools, [], longer))
    assert all(a <= b for b, a in zip(before, after, strict=True))


@few
@given(pool_sets(), shapes(), st.integers(0, 5))
def test_a_longer_prompt_never_gives_more(pools: list[Pool], shape: Shape, more: int) -> None:
    """In whole pages (64 is a multiple of all): within one, a decode server counts what it could retract in tokens."""
    shape = replace(shape, prompt=-(-shape.prompt // 64) * 64)
    longer = replace(shape, prompt=shape.prompt + 64 * more)
    before, after = numbers(limits(pools, [], shape)), numbers(limits(pools, [], longer))
    assert all(a <= b for b, a in zip(before, after, strict=True))


@few
@given(pool_sets(), shapes(), st.integers(0, 200))
def test_a_longer_prompt_of_any_length_never_gives_more_where_nothing_is_retracted(
    pools: list[Pool], shape: Shape, more: int
) -> None:
    assume(not any(isinstance(p.rule, DecodeReserve) for p in pools))
    longer = replace(shape, prompt=shape.prompt + more)
    before, after = numbers(limits(pools, [], shape)), numbers(limits(pools, [], longer))
    assert all(a <= b for b, a in zip(before, after, strict=True))


@given(known_pools(), shapes(), st.integers(1, 4))
def test_partitions_multiply_what_one_holds(pool: Pool, shape: Shape, partitions: int) -> None:
    """A request lives in one partition, so it is a sum of floors and never the floor of the sum."""
    one = limits([replace(pool, partitions=1)], [], shape)
    several = limits([replace(pool, partitions=partitions)], [], shape)
    assert numbers(several) == tuple(partitions * n for n in numbers(one))
    assert several.by_pool[0].safe == partitions * one.by_pool[0].safe


@few
@given(pool_sets(), shapes())
def test_the_pool_that_binds_is_the_one_whose_own_answer_is_the_least(pools: list[Pool], shape: Shape) -> None:
    found = limits(pools, [], shape)
    alone = {p.name: limits([p], [], shape) for p in pools}
    least = min(one.admits.least for one in alone.values())
    most = min(one.admits.most for one in alone.values())
    assert (found.admits.least, found.admits.most) == (least, most)
    named = found.binds.split(" to ")
    assert alone[named[0]].admits.least == least
    assert alone[named[-1]].admits.most == most
    assert found.beyond == f"waits for {named[-1].rsplit(' ', 1)[0]}"
    own = {p.pool.name: min(p.safe, p.admits.low) for p in found.by_pool if p.admits}
    assert own[found.safe_binds] == found.safe.count == min(own.values())


@few
@given(pool_sets(), pool_sets(unknown_pools()), shapes())
def test_an_unknown_pool_is_named_and_never_counted_as_zero(
    pools: list[Pool], unknown: list[Pool], shape: Shape
) -> None:
    found, without = limits([*unknown, *pools], [], shape), limits(pools, [], shape)
    assert numbers(found) == numbers(without)
    assert found.binds == without.binds
    assert found.uncounted == tuple(unknown)
    assert all(p.name in found.admits.note for p in unknown)
    assert not any(p.pool in unknown for p in found.by_pool)


@few
@given(pool_sets(unknown_pools(), least=0), shapes())
def test_nothing_known_is_said_to_be_unknown(unknown: list[Pool], shape: Shape) -> None:
    found = limits(unknown, [], shape)
    assert (found.admits.kind, found.safe.kind) == (Kind.MISSING, Kind.MISSING)
    assert found.admits.note
    assert found.uncounted == tuple(unknown)


@few
@given(pool_sets(), shapes())
def test_every_figure_carries_what_it_was_computed_from(pools: list[Pool], shape: Shape) -> None:
    found = limits(pools, [], shape)
    sizes = {p.size for p in pools}
    assert sizes == set(found.admits.inputs)
    assert found.safe.inputs
    assert set(found.safe.inputs) <= sizes
    assert found.admits.kind is found.safe.kind is Kind.DERIVED


@given(SMALL, st.sampled_from([1, 2, 4, 16]), st.integers(1, 60), st.integers(0, 60))
def test_safe_is_exactly_how_many_reach_their_end(size: int, page: int, prompt: int, output: int) -> None:
    pool = Pool("KV pool", "tokens", stated("KV pool", size), FitsNow(), Demand(page=page))
    safe = limits([pool], [], Shape(prompt, output)).safe.count
    assert finish(pool=size, page=page, prompt=prompt, output=output, n=safe)
    assert not finish(pool=size, page=page, prompt=prompt, output=output, n=safe + 1)


@given(SMALL, st.sampled_from([1, 2, 4, 16]), st.integers(1, 60), st.integers(0, 60), st.integers(1, 20))
def test_what_a_draft_holds_counts_as_output(size: int, page: int, prompt: int, output: int, draft: int) -> None:
    pool = Pool("KV pool", "tokens", stated("KV pool", size), FitsNow(), Demand(page=page, draft=draft))
    safe = pool.holds(Shape(prompt, output))
    assert finish(pool=size, page=page, prompt=prompt, output=output + draft, n=safe)
    assert not finish(pool=size, page=page, prompt=prompt, output=output + draft, n=safe + 1)


@given(shapes(), st.integers(1, 300), st.sampled_from([1, 4, 64]))
def test_a_window_stops_the_demand_from_growing(shape: Shape, window: int, page: int) -> None:
    demand, endless = Demand(page=page, window=window + page - 1), Demand(page=page)
    assert demand.finished(shape) <= endless.finished(shape)
    assert demand.finished(replace(shape, output=shape.named_output + 5000)) == demand.units(5000 + window)
    assert demand.common(shape) == 0


@few
@given(pool_sets(), shapes())
def test_the_why_names_the_pool_that_binds(pools: list[Pool], shape: Shape) -> None:
    found = limits(pools, [], shape)
    assert found.why.startswith(found.binds.split(" to ")[-1])


def ceilings() -> st.SearchStrategy[list[Ceiling]]:
    known = st.builds(
        lambda tokens, certain: Ceiling("a ceiling", stated("a ceiling", tokens), "refused with 400", certain),
        st.integers(1, 500),
        st.booleans(),
    )
    unknown = st.just(Ceiling("unknown", missing("unknown", "tokens", "nobody states it"), "refused with 400"))
    return st.lists(known | unknown, max_size=4)


@given(ceilings())
def test_the_longest_request_is_the_least_certain_ceiling(found: list[Ceiling]) -> None:
    certain = [c.tokens.count for c in found if c.certain and c.tokens.known]
    doubtful = [c.tokens.count for c in found if not c.certain and c.tokens.known]
    reach = longest(found)
    assert reach.tokens.value == min(certain, default=None)
    assert reach.tokens.inputs or reach.tokens.note
    told = reach.perhaps.tokens.count if reach.perhaps else None
    assert told == (min(doubtful) if doubtful and min(doubtful) < min(certain, default=10**6) else None)


@few
@given(pool_sets(), ceilings(), shapes())
def test_a_prompt_above_a_ceiling_is_refused_and_at_it_is_not(
    pools: list[Pool], found: list[Ceiling], shape: Shape
) -> None:
    answer, free = limits(pools, found, shape), limits(pools, [], shape)
    reach = longest(found)
    if reach.tokens.known and shape.prompt > reach.tokens.count:
        assert answer.refused is reach.ceiling
        assert numbers(answer) == (0, 0, 0)
        assert answer.admits.inputs
    else:
        assert answer.refused is None
        assert numbers(answer) == numbers(free)
        perhaps = reach.perhaps if reach.perhaps and shape.prompt > reach.perhaps.tokens.count else None
        assert answer.perhaps_refused is perhaps


@few
@given(pool_sets(), shapes(), SMALL)
def test_a_pool_in_doubt_bounds_the_low_end_of_safe_alone(pools: list[Pool], shape: Shape, size: int) -> None:
    doubtful = Pool("shared", "tokens", stated("shared", size), None, Demand(), doubt="whether they share it")
    found, without = limits([*pools, doubtful], [], shape), limits(pools, [], shape)
    certain = limits([*pools, replace(doubtful, doubt="")], [], shape)
    assert found.admits.value == without.admits.value
    assert (found.safe.least, found.safe.most) == (certain.safe.value, without.safe.value)
    assert (doubtful.doubt in found.safe.note) is (found.safe.least < found.safe.most)
