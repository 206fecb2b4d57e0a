"""Ullage's own readers on a live worker and on its log: both say what the worker is."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.tank.processes import Worker, worker
from tests.tank.serve.calls import generate_body, post, until
from tests.tank.serve.conftest import Pair
from ullage.cli.gather import Options, gather
from ullage.engines.read import read
from ullage.engines.server import Role, Server

# A pool into which two long requests are let, and in which they do not fit when they have grown.
TIGHT = ("--max-total-tokens", "512", "--max-running-requests", "9", "--schedule-conservativeness", "0.05")
EVERY_STEP = ("--decode-log-interval", "1", "--pace", "prefill=0,decode=0.005")


def read_one(target: str) -> Server:
    [server] = read(gather([target], (), Options()))[0]
    return server


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """It has retracted."""
    with worker(tmp_path_factory.mktemp("full"), *TIGHT, *EVERY_STEP) as each:
        bodies = [generate_body(letter * 40, 240) for letter in "klm"]
        callers = [threading.Thread(target=post, args=(each.port, "/generate", body)) for body in bodies]
        for thread in callers:
            thread.start()
        for thread in callers:
            thread.join(60)
        yield each


def test_pages_and_log_say_the_same_of_a_worker(full: Worker) -> None:
    for server in (read_one(full.url), read_one(str(full.log))):
        assert server.role is Role.UNIFIED
        stated = [server.says(name) for name in ("max_total_num_tokens", "page_size", "context_len")]
        assert stated == [512, 16, 2048]
        assert server.says("max_running_requests") == 9
    assert read_one(full.url).engine == "tank"


def test_a_retraction_is_counted_and_its_line_is_read(full: Worker) -> None:
    retracted = full.counter("num_retracted_requests")
    assert retracted >= 1
    assert read_one(full.url).use("num_retracted_requests_total").value == retracted
    logged = read_one(str(full.log))
    assert logged.use("retractions_in_log").value == retracted
    ratio = logged.use("new_token_ratio_before_retraction").number
    assert 0 < ratio < logged.use("new_token_ratio_at_retraction").number <= 1


def test_what_is_in_use_is_read_while_a_request_runs(full: Worker) -> None:
    running = threading.Thread(target=post, args=(full.port, "/generate", generate_body("n" * 100, 250)))
    running.start()
    until(lambda: full.load()["num_running_reqs"] == 1)
    live = read_one(full.url)
    running.join(60)
    logged = read_one(str(full.log))
    for server in (live, logged):
        assert server.use("num_running_reqs").value == 1
        assert server.use("num_queue_reqs").value == 0
        assert 0.2 < server.use("token_usage").number < 0.8
    assert 100 <= live.use("num_used_tokens").number <= 352


def test_the_lines_of_the_log_are_sglangs_in_sglangs_order(full: Worker) -> None:
    text = full.log.read_text("utf-8")
    order = (
        "server_args=ServerArgs(",
        "Load weight begin. avail mem=",
        "Load weight end. ",
        "KV Cache is allocated. #tokens: 512, ",
        "Memory pool end. avail mem=",
        "max_total_num_tokens=512, chunked_prefill_size=512, max_prefill_tokens=16384, max_running_requests=9, ",
        "The server is fired up and ready to roll!",
        "Prefill batch, #new-seq: ",
        "Decode batch, #running-req: ",
    )
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_a_pair_is_read_by_its_roles(pair: Pair) -> None:
    for each, role in ((pair.prefill, Role.PREFILL), (pair.decode, Role.DECODE)):
        assert read_one(each.url).role is role
        assert read_one(str(each.log)).role is role
