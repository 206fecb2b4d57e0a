"""Engines with the tiny model, within one event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, NamedTuple

from ullage.tank.config import ServerArgs
from ullage.tank.engine import Engine
from ullage.tank.model.load import Loaded, load_model
from ullage.tank.request import Bootstrap, Finish, Sampling

MIB = 2**20


class Answer(NamedTuple):
    tokens: list[int]
    text: str
    finish: Finish
    cached: int


@cache
def tiny() -> Loaded:
    return load_model("tiny")


def args(**asked: Any) -> ServerArgs:
    """A worker with a pool of 1,024 tokens, unless asked otherwise."""
    return ServerArgs(**{"model_path": "tiny", "memory_bytes": 64 * MIB, "max_total_tokens": 1024, **asked})


@asynccontextmanager
async def unified(**asked: Any) -> AsyncIterator[Engine]:
    engine = Engine(args(**asked), tiny())
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


class Pair:
    """A prefill and a decode engine; `ask` does what the router does."""

    def __init__(self, prefill: Engine, decode: Engine) -> None:
        self.prefill = prefill
        self.decode = decode
        self._room = 0

    def bootstrap(self) -> Bootstrap:
        self._room += 1
        return Bootstrap("127.0.0.1", self.prefill.args.disaggregation_bootstrap_port, self._room)

    async def ask(self, prompt: Sequence[int], sampling: Sampling) -> Answer:
        bootstrap = self.bootstrap()
        _, answer = await asyncio.gather(
            answer_of(self.prefill, prompt, sampling, bootstrap),
            answer_of(self.decode, prompt, sampling, bootstrap),
        )
        return answer


@asynccontextmanager
async def pair(prefill: dict[str, Any] | None = None, **decode: Any) -> AsyncIterator[Pair]:
    first = Engine(
        args(disaggregation_mode="prefill", disaggregation_bootstrap_port=free_port(), **(prefill or {})), tiny()
    )
    second = Engine(args(disaggregation_mode="decode", **decode), tiny())
    await first.start()
    await second.start()
    try:
        yield Pair(first, second)
    finally:
        await second.stop()
        await first.stop()


async def answer_of(
    engine: Engine, prompt: Sequence[int], sampling: Sampling, bootstrap: Bootstrap | None = None
) -> Answer:
    tokens: list[int] = []
    text, finish, cached = "", None, 0
    async for output in engine.generate(prompt, sampling, bootstrap):
        tokens += output.token_ids
        text += output.text
        finish, cached = output.finish, output.cached_tokens
    assert finish is not None
    return Answer(tokens, text, finish, cached)


async def until(true: Callable[[], bool], seconds: float = 10) -> None:
    for _ in range(int(seconds / 0.01)):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def run(scenario: Callable[[], Awaitable[None]], seconds: float = 60) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), seconds)

    asyncio.run(bounded())


def is_empty(engine: Engine) -> bool:
    """Nobody is here, and every page that is not free is cache."""
    loads = engine.loads()
    queues = (loads.bootstrap_queue, loads.inflight_queue, loads.prealloc_queue, loads.transfer_queue)
    return not any([loads.used_tokens, loads.running, loads.waiting, loads.retracted_queue, *queues])
