"""A caller that goes away: what it held is free at once, whether it ran or waited, streamed or not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.tank.processes import Worker
from tests.tank.serve.calls import call, caller, generate_body, post, until

PATHS: dict[str, dict[str, Any]] = {
    "/generate": generate_body("e" * 40, 500),
    "/v1/completions": {"prompt": "f" * 40, "max_tokens": 500, "temperature": 0, "ignore_eos": True},
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": "g" * 40}],
        "max_tokens": 500,
        "temperature": 0,
        "ignore_eos": True,
    },
}
FREE_S = 2.0  # a full answer would take ten


def counted(worker: Worker) -> tuple[float, float]:
    return worker.counter("num_requests"), worker.counter("num_aborted_requests")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("streams", [True, False])
def test_in_the_middle_of_its_answer(slow: Worker, path: str, streams: bool) -> None:
    until(slow.is_empty)
    requests, aborted = counted(slow)
    with caller(slow.port, path, {**PATHS[path], "stream": streams}) as connection:
        if streams:
            assert b"data: " in connection.recv(65536) + connection.recv(65536)
        until(lambda: slow.load()["num_running_reqs"] == 1 and slow.load()["num_used_tokens"] > 0)
    assert until(slow.is_empty) < FREE_S
    assert counted(slow) == (requests + 1, aborted + 1)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("streams", [True, False])
def test_while_it_waits(slow: Worker, path: str, streams: bool) -> None:
    until(slow.is_empty)
    aborted = counted(slow)[1]
    with caller(slow.port, "/generate", PATHS["/generate"]):
        until(lambda: slow.load()["num_running_reqs"] == 1)
        with caller(slow.port, path, {**PATHS[path], "stream": streams}):
            until(lambda: slow.load()["num_waiting_reqs"] == 1)
        assert until(lambda: slow.load()["num_waiting_reqs"] == 0) < FREE_S
        assert slow.load()["num_running_reqs"] == 1
    assert until(slow.is_empty) < FREE_S
    assert counted(slow)[1] == aborted + 2


def test_many_at_once_leave_nothing_behind(plain: Worker) -> None:
    until(plain.is_empty)
    call(plain.port, "POST", "/flush_cache")
    callers = [caller(plain.port, path, {**PATHS[path], "stream": n % 2 == 0}) for n in range(20) for path in PATHS]
    for one in callers:
        one.__enter__()
    time.sleep(0.2)
    for one in callers:
        one.__exit__(None, None, None)
    assert until(plain.is_empty) < FREE_S
    assert post(plain.port, "/generate", generate_body("next", 3))["meta_info"]["completion_tokens"] == 3
    assert "Traceback" not in plain.log.read_text("utf-8")


def test_one_that_does_not_read_holds_up_nobody(plain: Worker) -> None:
    body = {**generate_body("h" * 40, 1900), "stream": True}
    with caller(plain.port, "/generate", body):
        until(lambda: plain.load()["num_running_reqs"] == 1)
        began = time.monotonic()
        assert post(plain.port, "/generate", generate_body("i", 5))["meta_info"]["completion_tokens"] == 5
        assert time.monotonic() - began < 5
    assert until(plain.is_empty) < FREE_S
