"""The closed forms against replays of the engine's loops, which were written from the facts without looking at them."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capacity.draws import CLIPS, PAGES, RATIOS
from tests.replay import sglang_decode, sglang_prefill, sglang_unified
from ullage.capacity.demand import Demand
from ullage.capacity.request import Shape
from ullage.engines.sglang.admission import DecodeReserve, PrefillPass, TokenRatio

POOLS, PROMPTS, OUTPUTS = st.integers(0, 600), st.integers(1, 150), st.integers(0, 150)
MANY = 10**6


@given(POOLS, PAGES, PROMPTS, OUTPUTS, st.integers(0, 64), CLIPS)
def test_decode_admits_what_the_loop_admits(
    pool: int, page: int, prompt: int, output: int, reserved: int, clip: int
) -> None:
    admits = DecodeReserve(reserved, clip).admits(pool, Demand(page=page), Shape(prompt, output))
    replays = [
        sglang_decode.admitted(
            pool=pool,
            page=page,
            prompt=prompt,
            max_new=output,
            reserved=reserved,
            clip=clip,
            max_running=MANY,
            started=started,
        )
        for started in (True, False)
    ]
    assert admits.low == min(replays)
    assert admits.high >= max(replays)
    if not output:
        assert admits.high == max(replays)


@given(POOLS, PAGES, PROMPTS, OUTPUTS, st.integers(0, 64), CLIPS, st.integers(0, 150))
def test_decode_never_admits_more_whatever_has_been_generated(
    pool: int, page: int, prompt: int, output: int, reserved: int, clip: int, generated: int
) -> None:
    admits = DecodeReserve(reserved, clip).admits(pool, Demand(page=page), Shape(prompt, output))
    replayed = sglang_decode.admitted(
        pool=pool,
        page=page,
        prompt=prompt,
        max_new=output,
        reserved=reserved,
        clip=clip,
        max_running=MANY,
        generated=min(generated, output),
    )
    assert replayed <= admits.high


@given(POOLS, PAGES, PROMPTS, OUTPUTS, RATIOS, CLIPS, st.integers(0, 8))
def test_unified_admits_what_the_loop_admits(
    pool: int, page: int, prompt: int, output: int, ratio: Fraction, clip: int, shared_pages: int
) -> None:
    shared = min(shared_pages * page, prompt // page * page)
    rule = TokenRatio(ratio, ratio, None, clip)
    admits = rule.admits(pool, Demand(page=page, shares=True), Shape(prompt, output, shared))
    replays = [
        sglang_unified.admitted(
            pool=pool,
            page=page,
            prompt=prompt,
            max_new=output,
            ratio=float(ratio),
            clip=clip,
            max_running=700,
            shared=shared,
            generated=generated,
        )
        for generated in (0, min(output, -prompt % page))
    ]
    assert [min(admits.low, 700), min(admits.high, 700)] == replays


@given(POOLS, PAGES, PROMPTS)
def test_prefill_admits_what_the_loop_admits(pool: int, page: int, prompt: int) -> None:
    admits = PrefillPass().admits(pool, Demand(page=page, prompt_only=True), Shape(prompt))
    assert admits.high == sglang_prefill.admitted(pool=pool, page=page, prompt=prompt, max_running=MANY)


def figures(sentence: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"(?<![\d.])\d[\d,]*(?![\d.])", sentence)]


@given(POOLS, PAGES, PROMPTS, OUTPUTS, st.integers(0, 64), CLIPS)
def test_decode_says_why_not_one_more(pool: int, page: int, prompt: int, output: int, reserved: int, clip: int) -> None:
    rule, demand, shape = DecodeReserve(reserved, clip), Demand(page=page), Shape(prompt, output)
    count = rule.admits(pool, demand, shape).high
    hold, kept, told, taken, size, needed = figures(rule.why(pool, demand, shape, count))
    assert (hold, kept, told, size) == (demand.admitted(shape), reserved, count, pool // page * page)
    assert taken == count * (hold + reserved) <= size < needed


@given(POOLS, PAGES, PROMPTS)
def test_prefill_says_why_not_one_more(pool: int, page: int, prompt: int) -> None:
    rule, demand, shape = PrefillPass(), Demand(page=page, prompt_only=True), Shape(prompt)
    count = rule.admits(pool // page * page, demand, shape).high
    hold, told, taken, size, need = figures(rule.why(pool // page * page, demand, shape, count))
    assert (told, taken) == (count, count * hold)
    assert size - taken <= need
    assert count == 0 or size - taken + hold > need


@given(POOLS, PAGES, PROMPTS, OUTPUTS, CLIPS)
def test_unified_says_why_not_one_more(pool: int, page: int, prompt: int, output: int, clip: int) -> None:
    rule, demand, shape = TokenRatio(Fraction(0), Fraction(0), None, clip), Demand(page=page), Shape(prompt, output)
    pool = pool // page * page
    count = rule.admits(pool, demand, shape).high
    told, hold, *_, need = figures(rule.why(pool, demand, shape, count))
    assert told == count
    assert pool - count * hold <= need
    assert count == 0 or pool - (count - 1) * hold > need


@pytest.mark.parametrize(("prompt", "expected"), [(15, 2), (16, 3)])
def test_within_a_page_a_longer_prompt_can_let_more_in(prompt: int, expected: int) -> None:
    """The loop holds pages and retracts tokens: a prompt that fills its page can be retracted whole, and so can one
    that has generated what fills it.
    """
    admits = DecodeReserve(64).admits(240, Demand(page=16), Shape(prompt, 96))
    replayed = sglang_decode.admitted(pool=240, page=16, prompt=prompt, max_new=96, reserved=64, max_running=MANY)
    assert replayed == expected
    assert admits.high == 3
