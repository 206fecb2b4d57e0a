"""The replays against examples worked out by hand; the arithmetic stands beside each."""

from __future__ import annotations

import pytest

from . import sglang_decode, sglang_prefill, sglang_unified
from .finish import finish
from .pages import PagePool, PoolEmptyError, swa_tail


def test_pool_hands_out_whole_pages() -> None:
    pool = PagePool(39, 10)  # 3 pages
    assert len(pool.take(11)) == 2
    assert pool.free == 10
    with pytest.raises(PoolEmptyError):
        pool.take(11)
    assert pool.free == 10
    assert pool.take(0) == []


def test_swa_tail() -> None:
    assert swa_tail(100_000, window=128, page=256) == 512  # 128 + 255 = 383
    assert swa_tail(5, window=6, page=4) == 8  # shorter than 6 + 3


class TestDecode:
    def test_each_costs_its_pages_and_the_reserve(self) -> None:
        # Needs 20 + 10. Allocatable: 100, 80 - 10, 60 - 20, then 40 - 30.
        for started in (True, False):
            assert (
                sglang_decode.admitted(
                    pool=100, page=10, prompt=15, max_new=5, reserved=10, max_running=99, started=started
                )
                == 3
            )

    def test_in_transfer_the_output_is_asked_of_the_candidate_only(self) -> None:
        # Needs 10 + 50. Allocatable: 100, 90, 80, 70, 60, then 50.
        assert (
            sglang_decode.admitted(pool=100, page=1, prompt=10, max_new=50, reserved=0, max_running=99, started=False)
            == 5
        )

    def test_a_running_request_keeps_room_for_its_own_end(self) -> None:
        # The second: retractable 10, needs 60 - 10 = 50; allocatable 90 - (60 - 10) = 40.
        assert sglang_decode.admitted(pool=100, page=1, prompt=10, max_new=50, reserved=0, max_running=99) == 1

    def test_what_runs_could_be_retracted(self) -> None:
        # Prompt 20, output 30. The second: needs max(20, 50 - 20) = 30, allocatable 80 - (50 - 20) = 50.
        # Third: max(20, 10), 60 - 10. Fourth: max(20, -10), 40 - 0. Fifth: 20, 20. Sixth: 20, 0.
        assert sglang_decode.admitted(pool=100, page=1, prompt=20, max_new=30, reserved=0, max_running=99) == 5

    def test_the_output_is_clipped(self) -> None:
        def clipped(clip: int) -> int:
            return sglang_decode.admitted(
                pool=100, page=1, prompt=10, max_new=1000, clip=clip, reserved=0, max_running=99, started=False
            )

        assert clipped(50) == 5
        assert clipped(1000) == 0

    def test_slots(self) -> None:
        assert (
            sglang_decode.admitted(pool=1000, page=1, prompt=10, max_new=1, reserved=0, max_running=2, extra_slots=1)
            == 3
        )

    def test_the_sliding_window_tail_must_fit(self) -> None:
        def tails(prompt: int, page: int = 4, swa_pool: int = 40) -> int:
            return sglang_decode.admitted(
                pool=1000, page=page, prompt=prompt, max_new=1, reserved=0, max_running=9, swa_pool=swa_pool, window=6
            )

        assert tails(prompt=20) == 3  # 6 + 3 slots in 3 pages; 40 // 12
        assert tails(prompt=5) == 5  # 2 pages
        assert tails(prompt=20, swa_pool=11) == 0  # refused
        assert tails(prompt=20, page=1) == 9  # only checked with pages

    def test_a_prompt_over_the_pool_is_refused(self) -> None:
        assert sglang_decode.admitted(pool=100, page=1, prompt=101, max_new=0, reserved=0, max_running=9) == 0
        assert sglang_decode.admitted(pool=100, page=1, prompt=100, max_new=0, reserved=0, max_running=9) == 1

    def test_the_operators_server(self) -> None:
        # 32,000 = 125 pages. Each holds 32,000 and keeps 512: 75 * 32,512 = 2,438,400, and 16,384 are left of the pool.
        assert (
            sglang_decode.admitted(pool=2_454_784, page=256, prompt=32_000, max_new=0, max_running=256, started=False)
            == 75
        )


class TestUnified:
    def test_the_running_reserve_moves_with_the_ratio(self) -> None:
        # Needs 15 + 20 + 10, holds 20. At 0.5: remaining 100, 80 - 10, 60 - 20. At 0.1: 100, 80 - 2, 60 - 4, 40 - 6.
        assert sglang_unified.admitted(pool=100, page=10, prompt=15, max_new=20, ratio=0.5, max_running=99) == 2
        assert sglang_unified.admitted(pool=100, page=10, prompt=15, max_new=20, ratio=0.1, max_running=99) == 3

    def test_a_burst_is_charged_in_full(self) -> None:
        # Needs 45, is charged 20 + 20 + 10. Remaining 100, 50, 0.
        for ratio in (0.1, 0.5):
            assert sglang_unified.burst(pool=100, page=10, prompt=15, max_new=20, ratio=ratio, max_running=99) == 2

    def test_what_is_left_must_be_more_than_what_is_needed(self) -> None:
        # schedule_policy.py turns a candidate away at `total_tokens >= rem_total_tokens`.
        assert sglang_unified.admitted(pool=45, page=5, prompt=20, max_new=19, ratio=0.5, max_running=99) == 1
        assert sglang_unified.admitted(pool=45, page=5, prompt=20, max_new=20, ratio=0.5, max_running=99) == 0

    def test_a_shared_prefix_is_held_once(self) -> None:
        # The first needs 45, holds 10 + 10. Later: needs 35, holds 10. Remaining 100, 78, 66, 54, 42, then 30.
        assert (
            sglang_unified.admitted(pool=100, page=10, prompt=15, max_new=20, ratio=0.1, max_running=99, shared=10) == 5
        )

    def test_a_shared_prefix_in_a_burst(self) -> None:
        # Shared: remaining 130, 80, 40, then 0. Not shared: 130, 80, then 30.
        assert sglang_unified.burst(pool=130, page=10, prompt=15, max_new=20, ratio=0.1, max_running=99, shared=10) == 3
        assert sglang_unified.burst(pool=130, page=10, prompt=15, max_new=20, ratio=0.1, max_running=99) == 2

    def test_a_prefix_that_is_no_whole_page_is_an_error(self) -> None:
        for shared in (5, 20):
            with pytest.raises(ValueError, match="whole pages"):
                sglang_unified.admitted(
                    pool=100, page=10, prompt=15, max_new=1, ratio=0.1, max_running=9, shared=shared
                )

    def test_the_output_is_clipped(self) -> None:
        # Needs 10 + 30 + 1. Remaining 100, 90 - 15, 80 - 30, then 70 - 45.
        assert (
            sglang_unified.admitted(pool=100, page=1, prompt=10, max_new=1000, clip=30, ratio=0.5, max_running=99) == 3
        )

    def test_the_other_pools_have_their_own_remainders(self) -> None:
        for count in (sglang_unified.admitted, sglang_unified.burst):
            # 7 state slots, 3 each; a window tail of 6 + 3 slots in 3 pages of 4.
            assert (
                count(
                    pool=1000,
                    page=4,
                    prompt=20,
                    max_new=1,
                    ratio=0.1,
                    max_running=9,
                    state_slots=7,
                    slots_per_request=3,
                )
                == 2
            )
            assert count(pool=1000, page=4, prompt=20, max_new=1, ratio=0.1, max_running=9, swa_pool=40, window=6) == 3
            assert count(pool=1000, page=4, prompt=20, max_new=1, ratio=0.1, max_running=9) == 9


class TestPrefill:
    def test_a_new_token_and_a_page_are_asked_but_not_held(self) -> None:
        # Needs 15 + 1 + 10, holds 20. Free 100, 80, 60, 40, then 20.
        assert sglang_prefill.admitted(pool=100, page=10, prompt=15, max_running=99) == 4
        assert sglang_prefill.admitted(pool=100, page=10, prompt=15, max_running=3) == 3

    def test_refused(self) -> None:
        assert sglang_prefill.admitted(pool=100, page=10, prompt=101, max_running=9) == 0
        assert sglang_prefill.admitted(pool=100, page=10, prompt=15, max_running=9, window_cap=14) == 0
        assert sglang_prefill.admitted(pool=100, page=10, prompt=15, max_running=9, window_cap=15) == 4


class TestFinish:
    def test_all_reach_their_end(self) -> None:
        assert finish(pool=40, page=10, prompt=15, output=5, n=2)
        assert not finish(pool=40, page=10, prompt=15, output=6, n=2)  # 2 * 30
        assert finish(pool=40, page=10, prompt=15, output=6, n=1)

    def test_one_page_short(self) -> None:
        assert finish(pool=60, page=10, prompt=15, output=15, n=2)
        assert not finish(pool=59, page=10, prompt=15, output=15, n=2)

    def test_prompts_that_do_not_fit(self) -> None:
        assert not finish(pool=40, page=10, prompt=21, output=0, n=2)
        assert finish(pool=40, page=10, prompt=41, output=0, n=0)
