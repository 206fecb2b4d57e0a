"""KV by NIXL between real worker processes: the same tokens as without, and what a worker does when the other dies.

A worker that is stopped (SIGSTOP) says nothing and is not gone: so a transfer can be held at a certain point.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tank import engines
from ullage.errors import UllageError
from ullage.tank.request import Sampling
from ullage.tank.transfer.backends import mover_of
from ullage.tank.transfer.movers import Mover
from ullage.tank.transfer.nixl_agent import installed
from ullage.tank.transfer.wire import GoneError, line, parse, watch

HERE = installed() is not None
needs_nixl = pytest.mark.skipif(not HERE, reason="NIXL is not installed: pip install --no-deps nixl-cu12")
PROMPT = [1 + 7 * n % 250 for n in range(700)]
PATIENCE_S = 60.0


@pytest.mark.skipif(HERE, reason="NIXL is installed")
def test_where_it_is_not_installed() -> None:
    with pytest.raises(UllageError, match="which is not installed") as raised:
        mover_of("nixl", np.zeros((1, 2, 16, 1, 4), dtype=np.float32))
    assert "nixl-cu12" in raised.value.advice


class Worker:
    def __init__(self, log: Path, role: str, bootstrap_port: int, *more: str, tls: str) -> None:
        self._log = log
        self._port = engines.free_port()
        self._bootstrap_port = bootstrap_port
        command = f"--model tiny --memory 64MiB --max-total-tokens 2048 --threads 1 --port {self._port}"
        roles = f"--transfer nixl --disaggregation-mode {role} --disaggregation-bootstrap-port {bootstrap_port}"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ullage.tank.worker", *command.split(), *roles.split(), *more],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "UCX_TLS": tls},
            )

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def get(self, path: str, body: dict[str, Any] | None = None, seconds: float = PATIENCE_S) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise OSError(error.read().decode()) from None
        return json.loads(content) if content else None

    def load(self) -> dict[str, Any]:
        load: dict[str, Any] = self.get("/v1/loads")["loads"][0]
        return load

    def generate(self, room: int, prompt: list[int], tokens: int) -> list[int]:
        """Raises OSError where it answers with an error, or not at all."""
        bootstrap = {"bootstrap_host": "127.0.0.1", "bootstrap_port": self._bootstrap_port, "bootstrap_room": room}
        sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
        answer = self.get("/generate", {"input_ids": prompt, "sampling_params": sampling, **bootstrap})
        output: list[int] = answer["output_ids"]
        return output

    def is_up(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()[-2000:]
        try:
            self.get("/health")
        except OSError:
            return False
        return True

    def is_empty(self) -> bool:
        return not self.load()["num_used_tokens"]

    def transfers(self) -> bool:
        queues = self.load()["disaggregation"]
        return bool(queues.get("prefill_inflight_queue_reqs") or queues.get("decode_transfer_queue_reqs"))


class Pair:
    def __init__(self, folder: Path, tls: str) -> None:
        self._folder = folder
        self._tls = tls
        self._room = 0
        self._callers = ThreadPoolExecutor(16)
        self._port = engines.free_port()
        self.prefill = self.worker("prefill")
        self.decode = self.worker("decode", "--waiting-timeout-s", "2")
        until(self.prefill.is_up)
        until(self.decode.is_up)

    def worker(self, role: str, *more: str) -> Worker:
        return Worker(self._folder / f"{role}.log", role, self._port, *more, tls=self._tls)

    def ask(self, prompt: list[int], tokens: int = 8) -> tuple[Future[list[int]], Future[list[int]]]:
        """What the router does: both get it."""
        self._room += 1
        asked = [self._callers.submit(w.generate, self._room, prompt, tokens) for w in (self.prefill, self.decode)]
        return asked[0], asked[1]

    def answer(self, prompt: list[int], tokens: int = 8) -> list[int]:
        first, all_of_them = self.ask(prompt, tokens)
        assert first.result() == all_of_them.result()[:1]
        return all_of_them.result()

    def hold(self) -> tuple[Future[list[int]], Future[list[int]]]:
        """Decode is stopped when it has claimed; prefill has then computed and writes, or waits for the OK."""
        self.prefill.send(signal.SIGSTOP)
        asked = self.ask(PROMPT)
        until(self.decode.transfers)
        time.sleep(0.2)  # what it has to say to prefill is said
        self.decode.send(signal.SIGSTOP)
        self.prefill.send(signal.SIGCONT)
        until(self.prefill.transfers)
        return asked

    def both_are_empty(self) -> None:
        until(self.prefill.is_empty)
        until(self.decode.is_empty)

    def end(self) -> None:
        for worker in (self.prefill, self.decode):
            with contextlib.suppress(ProcessLookupError):
                worker.send(signal.SIGCONT)
            worker.send(signal.SIGTERM)
        began = time.monotonic()
        codes = [worker.process.wait(PATIENCE_S) for worker in (self.decode, self.prefill)]
        self._callers.shutdown()
        logs = [(self._folder / f"{role}.log").read_text()[-2000:] for role in ("prefill", "decode")]
        assert codes == [0, 0], logs
        assert time.monotonic() - began < 20
        assert not any("Traceback" in log for log in logs), logs


def until(true: Callable[[], bool]) -> None:
    for _ in range(int(PATIENCE_S / 0.05)):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def unified(prompt: list[int], tokens: int = 8) -> list[int]:
    answers: list[list[int]] = []

    async def scenario() -> None:
        async with engines.unified() as engine:
            sampling = Sampling(max_new_tokens=tokens, temperature=0, ignore_eos=True)
            answers.append((await engines.answer_of(engine, prompt, sampling)).tokens)

    engines.run(scenario)
    return answers[0]


@pytest.fixture(scope="module", params=["all", "tcp"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """By whatever UCX finds best here, which is memory that is shared, and as between two machines."""
    if not HERE:
        pytest.skip("NIXL is not installed: pip install --no-deps nixl-cu12")
    it = Pair(tmp_path_factory.mktemp("nixl"), request.param)
    yield it
    it.end()


def test_the_same_tokens_as_one_worker(pair: Pair) -> None:
    prompts = [PROMPT[n : n + length] for n, length in enumerate([1, 15, 16, 17, 200, 640])]
    asked = [pair.ask(prompt, tokens=24) for prompt in prompts]
    for prompt, (_, all_of_them) in zip(prompts, asked, strict=True):
        assert all_of_them.result() == unified(prompt, tokens=24)
    pair.both_are_empty()


@pytest.mark.parametrize("when", ["before", "during"])
def test_decode_is_killed(pair: Pair, when: str) -> None:
    if when == "before":
        pair.prefill.send(signal.SIGSTOP)
        asked = pair.ask(PROMPT)
        until(pair.decode.transfers)
        pair.decode.kill()
        pair.prefill.send(signal.SIGCONT)
    else:
        asked = pair.hold()
        pair.decode.kill()
    for answer in asked:
        assert isinstance(answer.exception(), OSError)
    until(pair.prefill.is_empty)
    pair.decode = pair.worker("decode", "--waiting-timeout-s", "2")
    until(pair.decode.is_up)
    assert pair.answer(PROMPT) == unified(PROMPT)
    pair.both_are_empty()


@pytest.mark.parametrize("when", ["before", "during"])
def test_prefill_is_killed(pair: Pair, when: str) -> None:
    pair.answer(PROMPT[:40])  # so that decode knows it, and has to find out
    if when == "before":
        pair.prefill.send(signal.SIGSTOP)
        asked = pair.ask(PROMPT)
        until(pair.decode.transfers)
        pair.prefill.kill()
    else:
        asked = pair.hold()
        pair.prefill.kill()
        pair.decode.send(signal.SIGCONT)
    for answer in asked:
        assert isinstance(answer.exception(), OSError)
    until(pair.decode.is_empty)
    pair.prefill = pair.worker("prefill")
    until(pair.prefill.is_up)
    assert pair.answer(PROMPT) == unified(PROMPT)
    pair.both_are_empty()


@pytest.mark.parametrize("who", ["prefill", "decode"])
def test_one_stands_still_in_the_middle(pair: Pair, who: str) -> None:
    """Longer than the other waits for it."""
    asked = pair.hold()
    if who == "prefill":
        pair.prefill.send(signal.SIGSTOP)
        pair.decode.send(signal.SIGCONT)
        error = asked[1].exception()  # none if prefill had written by then: shared memory needs no help of decode's
        assert error is None or "did not arrive within 2 s" in str(error)
        until(pair.decode.is_empty)
        pair.prefill.send(signal.SIGCONT)
    else:
        time.sleep(4)
        pair.decode.send(signal.SIGCONT)
    for answer in asked:
        answer.exception()  # it ends, this way or that
    assert pair.answer(PROMPT) == unified(PROMPT)
    pair.both_are_empty()


class Hall:
    """Two movers in one process, with a connection between them."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.source = rng.standard_normal((2, 2, 64, 3, 4), dtype=np.float32)
        self.target = np.zeros((2, 2, 96, 3, 4), dtype=np.float32)
        self.movers: list[Mover] = [mover_of("nixl", kv) for kv in (self.source, self.target)]

    async def move(self, source: list[int], target: list[int], drop_after_s: float | None = None) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer), contextlib.suppress(GoneError, asyncio.CancelledError):
                offer = parse(await reader.readline())
                push = asyncio.create_task(self.movers[0].push(np.array(source), offer, writer, watch(reader)))
                try:
                    await asyncio.wait([push], timeout=drop_after_s)
                finally:
                    push.cancel()
                    await asyncio.wait([push])
                push.result()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                writer.write(line(**self.movers[1].offer(np.array(target))))
                await self.movers[1].pull(np.array(target), reader, writer)
            except BaseException:
                await self.movers[1].reclaim(reader, writer)
                raise
            finally:
                writer.close()

    def close(self) -> None:
        for mover in self.movers:
            mover.close()


@needs_nixl
def test_what_is_written_is_what_was_offered() -> None:
    async def scenario() -> None:
        hall = Hall()
        rng = np.random.default_rng(1)
        for count in (1, 2, 16, 63, 64):
            source, target = (rng.permutation(slots)[:count].tolist() for slots in (64, 96))
            source[: count // 2] = sorted(source[: count // 2])
            hall.target[:] = 0
            await hall.move(source, target)
            assert np.array_equal(hall.target[:, :, target], hall.source[:, :, source])
            assert not hall.target[:, :, [slot for slot in range(96) if slot not in target]].any()
        with pytest.raises(GoneError):
            await hall.move([1, 2], [1, 2, 3])
        await hall.move([5], [6])
        hall.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


@needs_nixl
def test_nothing_is_written_after_decode_has_its_slots_again() -> None:
    """Whatever moment it is at which either gives up."""

    async def scenario() -> None:
        hall = Hall()
        slots = list(range(64))
        await hall.move(slots, slots)
        for number in range(40):
            hall.target[:] = 0
            after_s = 0.001 + number / 10_000
            moved = hall.move(slots, slots, drop_after_s=after_s if number % 2 else None)
            with contextlib.suppress(GoneError, asyncio.TimeoutError):
                await asyncio.wait_for(moved, None if number % 2 else after_s)
            hall.target[:] = 7
            await asyncio.sleep(0.02)
            assert (hall.target == 7).all()
        await hall.move(slots, slots)
        assert np.array_equal(hall.target[:, :, :64], hall.source)
        hall.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


@needs_nixl
@pytest.mark.parametrize("offer", [{}, {"runs": 1}, {"runs": [[0, 1]], "agent": "x"}, {"runs": [["a", "b"]]}])
def test_an_offer_that_is_none(offer: dict[str, Any]) -> None:
    async def scenario() -> None:
        hall = Hall()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with pytest.raises(GoneError, match="does not say where its slots are"):
                await hall.movers[0].push(np.array([1]), offer, writer, watch(reader))
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert not await reader.read()
            writer.close()
        hall.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
