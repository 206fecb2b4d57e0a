"""The limits that Ullage states of a tank, read over HTTP like any other server, are what it does when driven there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tank.processes import Answer, Watch, Worker, worker
from ullage.capacity.request import Shape
from ullage.cli.gather import Options, gather
from ullage.deployment import Deployment, answer, reach_of, server_limits
from ullage.engines.read import read
from ullage.engines.server import Role, Server

PACE = ("--pace", "prefill=0,decode=0.004")
# Many short requests, which slots bind; long prompts and long outputs, which the pool binds.
SHAPES = [(4, 40), (30, 60), (100, 100), (20, 200), (400, 100), (800, 30)]
UNIFIED = {
    "careless": ("--max-total-tokens", "1024", "--max-running-requests", "12", "--schedule-conservativeness", "0.05"),
    "as it comes": ("--max-total-tokens", "1024", "--max-running-requests", "12"),
    "pages of 1": ("--max-total-tokens", "1000", "--page-size", "1", "--max-running-requests", "10"),
    "in chunks": ("--max-total-tokens", "2048", "--chunked-prefill-size", "64", "--max-running-requests", "8"),
}
DECODE = {
    "keeps 64": ("--max-total-tokens", "1024", "--max-running-requests", "12", "--num-reserved-decode-tokens", "64"),
    "keeps 0": ("--max-total-tokens", "1008", "--max-running-requests", "10", "--num-reserved-decode-tokens", "0"),
}


class Stated(NamedTuple):
    """What Ullage says of a shape."""

    admits: int
    safe: int
    binds: str
    overflow: str


def servers(*workers: Worker) -> dict[Role, Server]:
    return {s.role: s for s in read(gather([w.url for w in workers], (), Options()))[0]}


def prompts(count: int, length: int) -> list[list[int]]:
    """None begins like another."""
    return [[number % 250, number // 250, *([7] * length)][:length] for number in range(1, count + 1)]


def together(asked: list[object], ask: object) -> list[Answer]:
    """All at the same moment."""
    barrier = threading.Barrier(len(asked))

    def one(prompt: object) -> Answer:
        barrier.wait()
        return ask(prompt)  # type: ignore[operator,no-any-return]

    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(one, asked))


def is_served(answers: list[Answer], output: int) -> bool:
    return all(a.status == 200 and len(a.tokens) == output for a in answers)


@pytest.fixture(scope="module", params=UNIFIED)
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("unified"), *UNIFIED[request.param], *PACE) as made:
        yield made


@pytest.mark.parametrize(("prompt", "output"), SHAPES)
def test_a_worker_alone(alone: Worker, prompt: int, output: int) -> None:
    server = servers(alone)[Role.UNIFIED]
    assert server.engine == "tank"
    found = server_limits(server, Shape(prompt, output))
    if found.refused is not None:
        assert alone.generate([1] * prompt, output).status == 400
        return
    stated = Stated(int(found.admits.most), found.safe.count, found.binds, found.overflow)
    assert 1 <= stated.safe <= stated.admits
    held = 16 * -(-(prompt + output) // 16)
    drive(alone, alone, stated, prompt, output, held, lambda one: alone.generate(one, output))


class Pair(NamedTuple):
    prefill: Worker
    decode: Worker

    def generate(self, prompt: list[int], output: int, room: int) -> Answer:
        """What the router does: the same body to both, and the answer of decode."""
        fields = {
            "bootstrap_host": "127.0.0.1",
            "bootstrap_port": self.prefill.bootstrap_port,
            "bootstrap_room": room,
        }
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(self.prefill.generate, prompt, output, **fields)
            answer = self.decode.generate(prompt, output, **fields)
            assert first.result().status == answer.status
        return answer


@pytest.fixture(scope="module", params=DECODE)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    roles = [("--disaggregation-mode", role) for role in ("prefill", "decode")]
    with (
        worker(folder, "--max-total-tokens", "2048", *roles[0]) as prefill,
        worker(folder, *DECODE[request.param], *roles[1], *PACE) as decode,
    ):
        yield Pair(prefill, decode)


_rooms = iter(range(10**9))


@pytest.mark.parametrize(("prompt", "output"), SHAPES)
def test_a_pair(pair: Pair, prompt: int, output: int) -> None:
    found = answer(Deployment(tuple(servers(*pair).values())), Shape(prompt, output)).chain
    assert found is not None
    if found.refused is not None:
        assert pair.decode.generate([1] * prompt, output).status == 400
        return
    stated = Stated(int(found.admits.most), found.safe.count, found.binds, found.overflow)
    assert 1 <= stated.safe <= stated.admits
    held = 16 * -(-(prompt + output) // 16)
    drive(pair.decode, pair.prefill, stated, prompt, output, held, lambda one: pair.generate(one, output, next(_rooms)))


def drive(holder: Worker, other: Worker, stated: Stated, prompt: int, output: int, held: int, ask: object) -> None:
    """At the safe number nobody is thrown out; beyond what is admitted somebody waits; and what binds is what fills."""
    before = holder.counter("num_retracted_requests")
    with Watch(holder) as watch:
        assert is_served(together(list(prompts(stated.safe, prompt)), ask), output)
    assert holder.counter("num_retracted_requests") == before
    assert watch.most["num_running_reqs"] <= stated.admits

    many = stated.admits + 4
    with Watch(holder) as watch:
        assert is_served(together(list(prompts(many, prompt)), ask), output)
    most = watch.most
    assert most["num_running_reqs"] <= stated.admits
    assert most["num_waiting_reqs"] > 0
    retracted = holder.counter("num_retracted_requests") - before
    if retracted:
        assert "retracted" in stated.overflow or "set aside" in stated.overflow
    limits = holder.load()
    kept_back = holder.kept_back_tokens * most["num_running_reqs"]
    if "to" not in stated.binds.split() and "slots" in stated.binds:
        assert most["num_running_reqs"] == limits["max_running_requests"]
    elif "slots" not in stated.binds:
        assert most["num_used_tokens"] + kept_back > limits["max_total_num_tokens"] - 2 * held
    for each in (holder, other):
        each.until_empty()


def test_the_longest_and_one_token_more(alone: Worker) -> None:
    longest = reach_of(servers(alone)[Role.UNIFIED]).tokens.count
    assert alone.generate([1] * longest, 1).status == 200
    refused = alone.generate([1] * (longest + 1), 1)
    assert refused.status == 400
    assert f"({longest + 1} tokens) exceeds the maximum allowed length" in refused.error


def test_the_longest_of_a_pair_and_one_token_more(pair: Pair) -> None:
    longest = min(reach_of(server).tokens.count for server in servers(*pair).values())
    assert pair.generate([1] * longest, 1, next(_rooms)).status == 200
    fields = {"bootstrap_host": "127.0.0.1", "bootstrap_port": 1, "bootstrap_room": next(_rooms)}
    refused = pair.decode.generate([1] * (longest + 1), 1, **fields)
    assert refused.status == 400
    assert "exceeds the maximum allowed length" in refused.error


def test_every_byte_of_its_memory(alone: Worker) -> None:
    figures = servers(alone)[Role.UNIFIED].figures
    parts = ("weight_bytes", "kv_cache_bytes", "request_table_bytes", "scratch_bytes", "available_bytes")
    assert sum(figures[name].count for name in parts) == figures["memory_bytes"].count == 64 * 2**20


def test_a_pace_is_told(alone: Worker) -> None:
    assert any("keeps to a pace" in note for note in servers(alone)[Role.UNIFIED].notes)


def test_beyond_the_safe_number_the_newest_are_retracted(tmp_path: Path) -> None:
    with worker(tmp_path, *UNIFIED["careless"], "--pace", "prefill=0,decode=0.02") as alone:
        found = server_limits(servers(alone)[Role.UNIFIED], Shape(100, 100))
        assert "retracted" in found.overflow
        asked = prompts(int(found.admits.most), 100)
        assert is_served(together(list(asked), lambda one: alone.generate(one, 100)), 100)
        assert found.admits.most > found.safe.count
        assert alone.counter("num_retracted_requests") > 0


def test_a_start_without_room_is_one_line(tmp_path: Path) -> None:
    told = r"ullage tank: not enough memory: 1 MiB for .*--memory \d+MiB is the least"
    with pytest.raises(AssertionError, match=told), worker(tmp_path, "--memory", "1MiB"):
        pass
