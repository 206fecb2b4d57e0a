"""The tank's doors let in as many as the replay of SGLang's own loops does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replay import sglang_decode, sglang_prefill, sglang_unified
from tests.tank.sequences import sequence
from ullage.tank.admission import PrefillPass
from ullage.tank.kv_pool import KvPool
from ullage.tank.preallocation import Reserve
from ullage.tank.sequence import Sequence

page_sizes = st.sampled_from([1, 2, 16])
pools = st.integers(4, 60)
prompts = st.integers(1, 300)
outputs = st.integers(1, 300)


def pool_of(pages: int, page_size: int) -> KvPool:
    return KvPool(np.zeros((1, 2, pages * page_size, 1, 1), dtype=np.float32), page_size, prefix_cache=False)


def enters(pool: KvPool, running: list[Sequence], ratio: float, one: Sequence) -> bool:
    chosen = PrefillPass(pool, running, ratio, chunk_tokens=10**6, input_tokens=10**6)
    if not chosen.enter(one):
        return False
    one.computed = len(one.prompt_ids)
    return True


@settings(max_examples=200, deadline=None)
@given(page_sizes, pools, prompts, outputs, st.sampled_from([0.098, 0.3, 0.7, 1.0]))
def test_one_after_another_enters_an_aggregated_worker(
    page_size: int, pages: int, prompt: int, max_new: int, ratio: float
) -> None:
    pool = pool_of(pages, page_size)
    running: list[Sequence] = []
    while len(running) < 40 and enters(pool, running, ratio, one := sequence([0] * prompt, max_new)):
        running.append(one)
    assert len(running) == sglang_unified.admitted(
        pool=pages * page_size, page=page_size, prompt=prompt, max_new=max_new, ratio=ratio, max_running=40
    )


@settings(max_examples=200, deadline=None)
@given(page_sizes, pools, prompts)
def test_a_prefill_worker_counts_one_token_of_output(page_size: int, pages: int, prompt: int) -> None:
    pool = pool_of(pages, page_size)
    inflight: list[Sequence] = []
    while len(inflight) < 40 and enters(pool, [], 0.7, one := sequence([0] * prompt, 1)):
        inflight.append(one)
    assert len(inflight) == sglang_prefill.admitted(
        pool=pages * page_size, page=page_size, prompt=prompt, max_running=40
    )


@settings(max_examples=200, deadline=None)
@given(page_sizes, pools, prompts, outputs, st.integers(0, 64), st.booleans())
def test_pages_are_preallocated_as_sglang_does(
    page_size: int, pages: int, prompt: int, max_new: int, reserved: int, started: bool
) -> None:
    pool, reserve = pool_of(pages, page_size), Reserve(reserved, page_size)
    active: list[Sequence] = []
    while len(active) < 40:
        one = sequence([0] * prompt, max_new)
        running = active if started else []
        if not reserve.may_enter(one, pool.available_tokens, running, len(active), []):
            break
        pool.grow(one, prompt)
        active.append(one)
    assert len(active) == sglang_decode.admitted(
        pool=pages * page_size,
        page=page_size,
        prompt=prompt,
        max_new=max_new,
        reserved=reserved,
        max_running=40,
        started=started,
    )


@settings(max_examples=200, deadline=None)
@given(page_sizes, pools, st.integers(1, 900), outputs, st.integers(0, 64))
def test_a_retracted_request_resumes_where_nobody_else_is(
    page_size: int, pages: int, length: int, remaining: int, reserved: int
) -> None:
    size = pages * page_size
    if length + remaining > size - 1:
        return
    one = sequence([0] * length, remaining)
    assert Reserve(reserved, page_size).may_resume(one, size, active=0)


def test_a_long_prompt_comes_in_chunks_of_whole_pages_and_alone() -> None:
    pool = pool_of(64, 16)
    chosen = PrefillPass(pool, [], 0.7, chunk_tokens=40, input_tokens=10**6)
    assert chosen.enter(sequence([0] * 100))
    assert [piece.tokens for piece in chosen.pieces] == [32]
    assert chosen.unfinished is chosen.pieces[0].sequence
    assert not chosen.enter(sequence([0] * 4))


def test_a_pass_takes_no_more_prompt_tokens_than_it_may() -> None:
    pool = pool_of(64, 16)
    chosen = PrefillPass(pool, [], 0.7, chunk_tokens=1000, input_tokens=64)
    assert chosen.enter(sequence([0] * 48))
    assert not chosen.enter(sequence([0] * 48))
    assert chosen.enter(sequence([0] * 8))
