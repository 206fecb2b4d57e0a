"""The closed forms against the replay of the engine's own loops, which was written from the facts without looking at them."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from tests.replay import sglang_decode, sglang_prefill, sglang_unified
from ullage.capacity.pool import Demand
from ullage.capacity.request import Shape
from ullage.engines.sglang.admission import DecodeReserve, PrefillPass, TokenRatio

PAGES = st.sampled_from([1, 2, 4, 16, 64])
MANY = 10**6


@given(st.integers(0, 600), PAGES, st.integers(1, 150), st.integers(0, 150), st.integers(0, 64), st.integers(1, 200))
def test_decode_admits_what_the_loop_admits(pool: int, page: int, prompt: int, output: int, reserved: int, clip: int) -> None:
    admits = DecodeReserve(reserved, clip).admits(pool, Demand(page=page), Shape(prompt, output))
    replays = [
        sglang_decode.admitted(
            pool=pool, page=page, prompt=prompt, max_new=output, reserved=reserved, clip=clip, max_running=MANY, started=started
        )
        for started in (True, False)
    ]
    assert (admits.low, admits.high) == (min(replays), max(replays))


@given(
    st.integers(0, 600), PAGES, st.integers(1, 150), st.integers(0, 150), st.sampled_from([Fraction(n, 16) for n in range(17)]),
    st.integers(1, 200), st.integers(0, 8),
)  # fmt: skip
def test_unified_admits_what_the_loop_admits(
    pool: int, page: int, prompt: int, output: int, ratio: Fraction, clip: int, shared_pages: int
) -> None:
    shared = min(shared_pages * page, prompt // page * page)
    rule = TokenRatio(ratio, ratio, None, clip)
    admits = rule.admits(pool, Demand(page=page, shares=True), Shape(prompt, output, shared))
    replayed = sglang_unified.admitted(
        pool=pool, page=page, prompt=prompt, max_new=output, ratio=float(ratio), clip=clip, max_running=700, shared=shared
    )
    assert min(admits.low, 700) == min(admits.high, 700) == replayed


@given(st.integers(0, 600), PAGES, st.integers(1, 150))
def test_prefill_admits_what_the_loop_admits(pool: int, page: int, prompt: int) -> None:
    admits = PrefillPass().admits(pool, Demand(page=page, prompt_only=True), Shape(prompt))
    assert admits.high == sglang_prefill.admitted(pool=pool, page=page, prompt=prompt, max_running=MANY)
