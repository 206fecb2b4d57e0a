"""kill -9 of one worker of a pair, at every stage of a request: its caller gets an error, the other worker gets its
pages back and counts it, and the next request works.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.tank.processes import Answer, Worker, worker
from tests.tank.test_limits import Pair

OUTPUT = 100
SLOW_PREFILL = ("--pace", "prefill=0.01,decode=0")  # the prompt takes a second
SLOW_DECODE = ("--pace", "prefill=0,decode=0.02")  # the output takes two
_rooms = iter(range(1, 10**6))
_prompts = iter(range(1, 250))


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("killed")
    pool = ("--max-total-tokens", "1024", "--num-reserved-decode-tokens", "64", "--bootstrap-timeout-s", "2")
    with (
        worker(folder, "--disaggregation-mode", "prefill", *pool, *SLOW_PREFILL) as prefill,
        worker(folder, "--disaggregation-mode", "decode", *pool, *SLOW_DECODE) as decode,
    ):
        yield Pair(prefill, decode)


def asked(workers: Pair, threads: ThreadPoolExecutor) -> tuple[Future[Answer], Future[Answer]]:
    """The same body to both, as the router does it."""
    fields = {
        "bootstrap_host": "127.0.0.1",
        "bootstrap_port": workers.prefill.bootstrap_port,
        "bootstrap_room": next(_rooms),
    }
    words = prompt()
    first, second = (threads.submit(each.generate, words, OUTPUT, **fields) for each in workers)
    return first, second


def prompt() -> list[int]:
    """One that is not cached: nobody had it before."""
    return [next(_prompts), *range(1, 100)]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def queue(worker: Worker, name: str) -> int:
    return int(worker.load()["disaggregation"].get(f"{name}_queue_reqs", 0))


def whole_again(workers: Pair, killed: Worker) -> None:
    """The other has all its pages; and once the killed one is back, the pair serves."""
    [other] = [each for each in workers if each is not killed]
    other.until_empty()
    killed.start()
    answer = workers.generate(prompt(), 5, next(_rooms))
    assert (answer.status, len(answer.tokens)) == (200, 5)
    for each in workers:
        each.until_empty()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_decode_before_a_transfer(workers: Pair, threads: ThreadPoolExecutor) -> None:
    """Nobody claims the room."""
    failed = workers.prefill.counter("num_bootstrap_failed_reqs")
    workers.decode.kill()
    first, second = asked(workers, threads)
    assert isinstance(second.exception(), OSError)
    assert first.result().status == 500
    assert "in 2 s" in first.result().error or "within 2 s" in first.result().error
    assert workers.prefill.counter("num_bootstrap_failed_reqs") == failed + 1
    whole_again(workers, workers.decode)


def test_decode_while_prefill_computes(workers: Pair, threads: ThreadPoolExecutor) -> None:
    failed = workers.prefill.counter("num_transfer_failed_reqs")
    first, second = asked(workers, threads)
    until(lambda: queue(workers.decode, "decode_transfer") == 1)
    workers.decode.kill()
    assert second.exception() is not None
    assert first.result().status == 500
    assert "closed the connection" in first.result().error
    assert workers.prefill.counter("num_transfer_failed_reqs") == failed + 1
    whole_again(workers, workers.decode)


def test_decode_while_it_generates(workers: Pair, threads: ThreadPoolExecutor) -> None:
    first, second = asked(workers, threads)
    until(lambda: workers.decode.load()["num_running_reqs"] == 1)
    workers.decode.kill()
    assert first.result().status == 200  # its part was done
    assert second.exception() is not None
    whole_again(workers, workers.decode)


def test_prefill_before_a_transfer(workers: Pair, threads: ThreadPoolExecutor) -> None:
    failed = workers.decode.counter("num_bootstrap_failed_reqs")
    workers.prefill.kill()
    first, second = asked(workers, threads)
    assert isinstance(first.exception(), OSError)
    assert second.result().status == 500
    assert "the connection to the other worker failed" in second.result().error
    assert workers.decode.counter("num_bootstrap_failed_reqs") == failed + 1
    whole_again(workers, workers.prefill)


def test_prefill_while_it_computes(workers: Pair, threads: ThreadPoolExecutor) -> None:
    failed = workers.decode.counter("num_transfer_failed_reqs")
    first, second = asked(workers, threads)
    until(lambda: queue(workers.decode, "decode_transfer") == 1)
    workers.prefill.kill()
    assert first.exception() is not None
    assert second.result().status == 500
    assert "closed the connection" in second.result().error
    assert workers.decode.counter("num_transfer_failed_reqs") == failed + 1
    assert "Decode transfer failed for request rank=0 req.bootstrap_room=" in workers.decode.log.read_text("utf-8")
    whole_again(workers, workers.prefill)


def test_prefill_while_decode_generates(workers: Pair, threads: ThreadPoolExecutor) -> None:
    first, second = asked(workers, threads)
    until(lambda: workers.decode.load()["num_running_reqs"] == 1)
    assert first.result().status == 200
    workers.prefill.kill()
    assert len(second.result().tokens) == OUTPUT  # decode has all that it needs
    whole_again(workers, workers.prefill)


def test_a_request_that_only_decode_got(workers: Pair, threads: ThreadPoolExecutor) -> None:
    fields = {"bootstrap_host": "127.0.0.1", "bootstrap_port": workers.prefill.bootstrap_port, "bootstrap_room": 10**7}
    answer = threads.submit(workers.decode.generate, prompt(), OUTPUT, **fields).result()
    assert answer.status == 500
    workers.decode.until_empty()
