"""However a request is run, it says what it says when it is alone: in chunks, in batches, on cached prefixes, retracted
and resumed, and with its prompt computed by another worker.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from tests.tank.engines import Answer, answer_of, is_empty, pair, run, tiny, unified, until
from ullage.tank.engine import Engine
from ullage.tank.request import Sampling

Requests = list[tuple[list[int], Sampling]]


def requests(count: int = 24, longest: int = 200, output: int = 80, seed: int = 1) -> Requests:
    """Prompts of many lengths, a third of which begin alike; greedy and seeded."""
    rng = np.random.default_rng(seed)
    shared = rng.integers(0, 250, 96).tolist()
    made: Requests = []
    for number in range(count):
        prompt = rng.integers(0, 250, int(rng.integers(1, longest))).tolist()
        sampling = Sampling(
            int(rng.integers(1, output)), temperature=float(number % 2), top_p=0.95, seed=number, ignore_eos=True
        )
        made.append((shared + prompt if number % 3 == 0 else prompt, sampling))
    return made


async def alone(asked: Requests) -> list[Answer]:
    """Plain runs: one after another, no cache, no chunks, pages of one token."""
    async with unified(
        page_size=1, disable_radix_cache=True, chunked_prefill_size=4096, max_total_tokens=8192
    ) as engine:
        return [await answer_of(engine, *request) for request in asked]


async def together(engine: Engine, asked: Requests) -> list[Answer]:
    return await asyncio.gather(*(answer_of(engine, *request) for request in asked))


def same(answers: list[Answer], plain: list[Answer]) -> None:
    assert [(a.tokens, a.text, a.finish) for a in answers] == [(p.tokens, p.text, p.finish) for p in plain]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"page_size": 1},
        {"page_size": 64, "max_total_tokens": 2048},
        {"chunked_prefill_size": 32},
        {"chunked_prefill_size": 17, "page_size": 4},
        {"max_running_requests": 2},
        {"disable_radix_cache": True},
    ],
    ids=str,
)
def test_on_an_aggregated_worker(asked: dict[str, Any]) -> None:
    async def scenario() -> None:
        wanted = requests()
        plain = await alone(wanted)
        async with unified(**asked) as engine:
            same(await together(engine, wanted), plain)
            same(await together(engine, wanted), plain)  # and again, on what is cached by now
            await until(lambda: is_empty(engine))

    run(scenario)


def test_retracted_and_resumed() -> None:
    """A careless scheduler on a small pool: requests are thrown out, and nobody can tell from what they say."""

    async def scenario() -> None:
        wanted = requests(output=300, longest=60)
        plain = await alone(wanted)
        async with unified(max_total_tokens=768, schedule_conservativeness=0.05) as engine:
            same(await together(engine, wanted), plain)
            assert engine.counters.retracted_requests > 3
            assert engine.counters.generation_tokens == sum(len(answer.tokens) for answer in plain)
            await until(lambda: is_empty(engine))

    run(scenario)


@pytest.mark.parametrize(
    "prefill", [{}, {"chunked_prefill_size": 32}, {"page_size": 4}, {"max_total_tokens": 512}], ids=str
)
def test_with_the_prompt_computed_elsewhere(prefill: dict[str, Any]) -> None:
    async def scenario() -> None:
        wanted = requests()
        plain = await alone(wanted)
        async with pair(prefill, num_reserved_decode_tokens=64) as workers:
            same(await asyncio.gather(*(workers.ask(*request) for request in wanted)), plain)
            await until(lambda: is_empty(workers.prefill) and is_empty(workers.decode))
            assert workers.decode.loads().evictable_tokens == 0

    run(scenario)


def test_retracted_on_a_decode_worker() -> None:
    async def scenario() -> None:
        wanted = requests(output=300, longest=60)
        plain = await alone(wanted)
        async with pair(max_total_tokens=768, num_reserved_decode_tokens=16) as workers:
            same(await asyncio.gather(*(workers.ask(*request) for request in wanted)), plain)
            assert workers.decode.counters.retracted_requests > 3
            await until(lambda: is_empty(workers.decode))

    run(scenario)


def test_stop_strings_and_ends() -> None:
    async def scenario() -> None:
        prompt, plain_text = [1, 2, 3], ""
        async with unified() as engine:
            plain = await answer_of(engine, prompt, Sampling(60, temperature=0, ignore_eos=True))
            plain_text = plain.text
            stop = plain_text[20:24]
            at = plain_text.find(stop)
            stopped = await answer_of(engine, prompt, Sampling(60, temperature=0, stop=(stop,), ignore_eos=True))
            assert (stopped.text, stopped.finish.matched) == (plain_text[:at], stop)
            token = plain.tokens[10]
            ended = await answer_of(engine, prompt, Sampling(60, temperature=0, stop_token_ids=(token,)))
            assert ended.tokens == plain.tokens[: plain.tokens.index(token) + 1]
            assert (ended.finish.type, ended.finish.matched) == ("stop", token)
        async with pair() as workers:
            again = await workers.ask(prompt, Sampling(60, temperature=0, stop=(stop,), ignore_eos=True))
            assert (again.text, again.finish) == (stopped.text, stopped.finish)

    run(scenario)


def test_the_end_of_sequence_token_ends_unless_it_is_ignored() -> None:
    async def scenario() -> None:
        eos = next(iter(tiny().tokenizer.eos_ids))
        async with unified() as engine:
            for start in range(200):
                answer = await answer_of(engine, [start], Sampling(40, temperature=1.5, seed=start))
                if answer.finish.type == "stop":
                    break
            assert answer.finish.matched == answer.tokens[-1] == eos
            more = await answer_of(
                engine, [start], Sampling(len(answer.tokens) + 5, temperature=1.5, seed=start, ignore_eos=True)
            )
            assert more.tokens[: len(answer.tokens)] == answer.tokens
            assert len(more.tokens) == len(answer.tokens) + 5

    run(scenario)
