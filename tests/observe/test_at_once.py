"""Calls in threads: all of them, in their order, no more at a time than asked for, and nothing lost that was raised."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.observe.at_once import at_once


@given(st.lists(st.integers(), max_size=40), st.integers(1, 8))
def test_every_job_once_in_its_order(jobs: list[int], most: int) -> None:
    assert at_once(lambda job: job * 2, jobs, most) == [job * 2 for job in jobs]


def test_no_more_at_a_time_than_asked_for_and_no_fewer() -> None:
    meet = threading.Barrier(3)
    running: list[int] = []
    seen: list[int] = []

    def call(job: int) -> int:
        running.append(job)
        seen.append(len(running))
        meet.wait(5)  # three must be here together, or it breaks
        running.remove(job)
        return job

    assert at_once(call, range(6), 3) == [0, 1, 2, 3, 4, 5]
    assert max(seen) <= 3


def test_what_a_call_raises_reaches_the_caller_when_all_have_ended() -> None:
    done: list[int] = []

    def call(job: int) -> None:
        if job == 1:
            raise ValueError("of the second")
        done.append(job)

    with pytest.raises(ValueError, match="of the second"):
        at_once(call, range(5), 2)
    assert sorted(done) == [0, 2, 3, 4]
