"""What an engine refuses, what it ends, and that pages come back whatever happens."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.tank.engines import MIB, answer_of, args, is_empty, pair, run, tiny, unified, until
from ullage.errors import UllageError
from ullage.tank.config import Pace
from ullage.tank.engine import Engine
from ullage.tank.request import Bootstrap, RefusedError, Sampling

GREEDY = Sampling(20, temperature=0, ignore_eos=True)


def test_the_longest_request_is_served_and_one_token_more_is_refused() -> None:
    async def scenario() -> None:
        async with unified() as engine:
            limit = engine.facts.max_req_input_len
            answer = await answer_of(engine, [1] * (limit - 1), Sampling(None, temperature=0, ignore_eos=True))
            assert answer.finish.type == "length"
            assert limit - 1 + len(answer.tokens) == 1024 - 16 - 1
            with pytest.raises(RefusedError, match=rf"\({limit} tokens\) exceeds .* \({limit} tokens\)") as refused:
                await answer_of(engine, [1] * limit, GREEDY)
            assert refused.value.status == 400

    run(scenario)


@pytest.mark.parametrize("reserved", [16, 500])
def test_the_longest_request_of_a_pair(reserved: int) -> None:
    async def scenario() -> None:
        async with pair(num_reserved_decode_tokens=reserved) as workers:
            limit = min(workers.prefill.facts.max_req_input_len, workers.decode.facts.max_req_input_len)
            answer = await workers.ask([1] * (limit - 1), Sampling(None, temperature=0, ignore_eos=True))
            assert answer.finish.type == "length"
            with pytest.raises(RefusedError, match="exceeds the maximum allowed length"):
                await answer_of(workers.decode, [1] * limit, GREEDY, workers.bootstrap())

    run(scenario)


def test_what_decode_turns_away_prefill_does_not_wait_for() -> None:
    async def scenario() -> None:
        async with pair(num_reserved_decode_tokens=900) as workers:
            bootstrap = workers.bootstrap()
            both = await asyncio.gather(
                answer_of(workers.prefill, [1] * 500, GREEDY, bootstrap),
                answer_of(workers.decode, [1] * 500, GREEDY, bootstrap),
                return_exceptions=True,
            )
            assert isinstance(both[1], RefusedError)
            assert not isinstance(both[0], BaseException)
            assert "exceeds the maximum allowed length" in both[0].finish.message
            await until(lambda: is_empty(workers.prefill))

    run(scenario)


@pytest.mark.parametrize(
    ("prompt", "sampling", "words"),
    [
        ([], GREEDY, "empty"),
        ([1], Sampling(0), "at least one token"),
        ([1] * 10, Sampling(4090), "maximum context length of 4096"),
    ],
)
def test_refusals_say_the_limit(prompt: list[int], sampling: Sampling, words: str) -> None:
    async def scenario() -> None:
        async with unified() as engine:
            with pytest.raises(RefusedError, match=words) as refused:
                await answer_of(engine, prompt, sampling)
            assert refused.value.status == 400
            assert is_empty(engine)

    run(scenario)


def test_a_full_queue_is_told_at_once() -> None:
    async def scenario() -> None:
        async with unified(max_running_requests=1, max_queued_requests=2, pace=Pace(0, 0.01)) as engine:
            answers = await asyncio.gather(
                *(answer_of(engine, [number], GREEDY) for number in range(5)), return_exceptions=True
            )
            refused = [answer for answer in answers if isinstance(answer, RefusedError)]
            assert len(refused) in (2, 3)
            assert {error.status for error in refused} == {503}

    run(scenario)


@pytest.mark.parametrize("mode", ["unified", "prefill"])
def test_a_request_for_another_role(mode: str) -> None:
    async def scenario() -> None:
        async with pair() as workers, unified() as engine:
            asked = (engine, Bootstrap("127.0.0.1", 1, 1)) if mode == "unified" else (workers.prefill, None)
            with pytest.raises(RefusedError, match=f"this is a {mode} worker") as refused:
                await answer_of(asked[0], [1], GREEDY, asked[1])
            assert refused.value.status == 400

    run(scenario)


async def leave(engine: Engine, after: int, bootstrap: Bootstrap | None = None) -> None:
    """A caller that goes away after so many tokens."""
    stream = engine.generate([1] * 100, Sampling(800, temperature=0, ignore_eos=True), bootstrap)
    count = 0
    async for _ in stream:
        count += 1
        if count >= after:
            break
    await stream.aclose()


def test_pages_come_back_at_once_when_a_caller_leaves() -> None:
    async def scenario() -> None:
        async with unified(pace=Pace(0, 0.005)) as engine:
            others = asyncio.gather(*(answer_of(engine, [number], GREEDY) for number in range(4)))
            await leave(engine, 5)
            await until(lambda: engine.counters.aborted_requests == 1)
            await others
            await until(lambda: is_empty(engine))

    run(scenario)


def test_a_caller_who_leaves_while_he_waits() -> None:
    async def scenario() -> None:
        async with unified(max_running_requests=1, pace=Pace(0, 0.01)) as engine:
            first = asyncio.create_task(answer_of(engine, [1], GREEDY))
            waiting = asyncio.create_task(answer_of(engine, [2], GREEDY))
            await until(lambda: engine.loads().waiting == 1)
            waiting.cancel()
            await until(lambda: engine.loads().waiting == 0)
            assert len((await first).tokens) == 20

    run(scenario)


def test_a_caller_who_leaves_a_pair() -> None:
    async def scenario() -> None:
        async with pair(pace=Pace(0, 0.005)) as workers:
            for after in (1, 3):
                bootstrap = workers.bootstrap()
                prefill = asyncio.create_task(
                    answer_of(workers.prefill, [1] * 100, Sampling(800, temperature=0), bootstrap)
                )
                await leave(workers.decode, after, bootstrap)
                await prefill
            await until(lambda: is_empty(workers.prefill) and is_empty(workers.decode))
            assert workers.decode.counters.aborted_requests == 2

    run(scenario)


@pytest.mark.parametrize("stage", ["prealloc", "computing"])
@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_a_caller_who_leaves_a_pair_before_the_first_token(stage: str, side: str) -> None:
    """One side's caller goes away: the other side ends with an error, and nothing stays."""

    async def scenario() -> None:
        slow = {"pace": Pace(0.005, 0), "chunked_prefill_size": 32} if stage == "computing" else {}
        held = Pace(0, 0.005 if stage == "prealloc" else 0)  # the slot is taken for two seconds
        async with pair(slow, max_running_requests=1, disaggregation_decode_extra_slots=0, pace=held) as workers:
            before: list[asyncio.Task[object]] = []
            if stage == "prealloc":  # somebody holds the only slot
                before.append(asyncio.create_task(workers.ask([5], Sampling(400, temperature=0, ignore_eos=True))))
                await until(lambda: workers.decode.loads().running == 1)
            bootstrap = workers.bootstrap()
            tasks = [
                asyncio.create_task(answer_of(engine, [1] * 200, GREEDY, bootstrap))
                for engine in (workers.prefill, workers.decode)
            ]
            loads = workers.decode.loads
            await until(lambda: bool(loads().prealloc_queue if stage == "prealloc" else loads().transfer_queue))
            leaves, stays = tasks if side == "prefill" else tasks[::-1]
            leaves.cancel()
            assert (await stays).finish.type == "abort"
            await asyncio.gather(*before)
            await until(lambda: is_empty(workers.prefill) and is_empty(workers.decode))

    run(scenario)


def test_a_caller_who_leaves_as_the_last_bytes_come() -> None:
    """The abort finds the transfer over, and its end is not told yet: the request must not run on."""

    async def scenario() -> None:
        async with pair() as workers:
            bootstrap = workers.bootstrap()
            loop: Any = workers.decode._loop
            ended = loop.arrived

            def arrived(number: int, what: object) -> None:
                loop.abort(loop._transfer[number])
                ended(number, what)

            loop.arrived = arrived
            prefill = asyncio.create_task(answer_of(workers.prefill, [1] * 40, GREEDY, bootstrap))
            answer = await answer_of(workers.decode, [1] * 40, Sampling(800, ignore_eos=True), bootstrap)
            assert (answer.finish.type, answer.tokens) == ("abort", [])
            await prefill
            await until(lambda: is_empty(workers.decode))
            assert workers.decode.counters.transfer_failed == 0

    run(scenario)


@pytest.mark.parametrize("host", ["a" * 300, "", "no\0host", "no.such.host.invalid"])
def test_a_strange_bootstrap_host(host: str) -> None:
    async def scenario() -> None:
        async with pair() as workers:
            answer = await answer_of(workers.decode, [1] * 40, GREEDY, Bootstrap(host, 1, 5))
            assert answer.finish.type == "abort"
            with pytest.raises(RefusedError):
                await answer_of(workers.decode, [1] * 4000, GREEDY, Bootstrap(host, 1, 6))
            await until(lambda: is_empty(workers.decode))
            assert len((await workers.ask([1] * 40, GREEDY)).tokens) == 20

    run(scenario)


def test_a_decode_pool_that_is_full_makes_them_wait_and_all_are_served() -> None:
    async def scenario() -> None:
        async with pair(max_total_tokens=512, num_reserved_decode_tokens=128, pace=Pace(0, 0.002)) as workers:
            asked = [asyncio.create_task(workers.ask([n] * 100, Sampling(50, temperature=0))) for n in range(12)]
            await until(lambda: workers.decode.loads().prealloc_queue > 4)
            assert workers.prefill.loads().bootstrap_queue > 4
            answers = await asyncio.gather(*asked)
            assert {answer.finish.type for answer in answers} <= {"length", "stop"}
            await until(lambda: is_empty(workers.prefill) and is_empty(workers.decode))

    run(scenario)


def test_what_waits_too_long_for_pages_is_given_up() -> None:
    async def scenario() -> None:
        one_slot = {"max_running_requests": 1, "disaggregation_decode_extra_slots": 0}
        async with pair({}, **one_slot, bootstrap_timeout_s=0.2, pace=Pace(0, 0.01)) as workers:
            first = asyncio.create_task(workers.ask([1], Sampling(60, temperature=0, ignore_eos=True)))
            await until(lambda: workers.decode.loads().running == 1)
            answer = await workers.ask([2], GREEDY)
            assert "no pages were free within 0.2 s" in answer.finish.message
            assert workers.decode.counters.bootstrap_failed == 1
            assert len((await first).tokens) == 60
            await until(lambda: is_empty(workers.decode) and is_empty(workers.prefill))

    run(scenario)


def test_the_parts_sum_to_the_whole_at_every_moment_of_a_load() -> None:
    """Of both workers of a pair, with a decode pool that overflows, and callers who leave."""

    async def scenario() -> None:
        async with pair({"max_total_tokens": 512}, max_total_tokens=512, num_reserved_decode_tokens=16) as workers:
            over = asyncio.Event()

            async def look() -> int:
                seen = 0
                while not over.is_set():
                    for engine in (workers.prefill, workers.decode):
                        now = engine.loads()
                        assert now.used_tokens + now.evictable_tokens + now.available_tokens == 512
                        assert min(now.used_tokens, now.evictable_tokens, now.available_tokens) >= 0
                        seen += 1
                    await asyncio.sleep(0.001)
                return seen

            looking = asyncio.create_task(look())
            asked = [asyncio.create_task(workers.ask([n] * 40, Sampling(150, ignore_eos=True))) for n in range(40)]
            for task in asked[::4]:
                await asyncio.sleep(0.02)
                task.cancel()
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert sum(1 for a in answers if not isinstance(a, BaseException) and len(a.tokens) == 150) == 30
            await until(lambda: is_empty(workers.prefill) and is_empty(workers.decode))
            over.set()
            assert await looking > 100
            assert workers.decode.counters.retracted_requests > 0

    run(scenario)


def test_a_stopped_worker_leaves_nobody_waiting() -> None:
    async def scenario() -> None:
        async with unified(pace=Pace(0, 0.01)) as engine:
            tasks = [asyncio.create_task(answer_of(engine, [n], Sampling(100, ignore_eos=True))) for n in range(3)]
            await until(lambda: engine.loads().running == 3)
            await engine.stop()
            assert {(await task).finish.type for task in tasks} == {"abort"}

    run(scenario)


def test_after_the_end_nobody_waits() -> None:
    async def scenario() -> None:
        async with unified() as engine:
            await engine.stop()
            with pytest.raises(RefusedError, match="has stopped") as refused:
                await answer_of(engine, [1], GREEDY)
            assert refused.value.status == 503
            assert not await engine.flush_cache()

    run(scenario)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failure_is_told_to_whoever_waits() -> None:
    async def scenario() -> None:
        async with unified(pace=Pace(0, 0.01)) as engine:
            running = asyncio.create_task(answer_of(engine, [1], Sampling(500, ignore_eos=True)))
            await until(lambda: engine.loads().running == 1)
            engine._room.pool.kv = None  # type: ignore[assignment]
            assert "the engine failed" in (await running).finish.message
            assert engine.failure is not None
            with pytest.raises(RefusedError, match="has stopped"):
                await answer_of(engine, [1], GREEDY)

    run(scenario)


def test_flush() -> None:
    async def scenario() -> None:
        async with unified() as engine:
            first = await answer_of(engine, [1] * 64, GREEDY)
            assert (await answer_of(engine, [1] * 64, GREEDY)).cached == 48
            assert engine.loads().evictable_tokens > 0
            assert await engine.flush_cache()
            await until(lambda: engine.loads().available_tokens == 1024)
            again = await answer_of(engine, [1] * 64, GREEDY)
            assert (again.cached, again.tokens) == (0, first.tokens)

    run(scenario)


def test_a_pace_is_kept() -> None:
    """0.5 ms a prompt token and 10 ms a step: 100 tokens and 20 of output take 0.05 + 19 x 0.01 s at least."""

    async def scenario() -> None:
        async with unified(pace=Pace(0.0005, 0.01)) as engine:
            began = time.monotonic()
            await answer_of(engine, [1] * 100, GREEDY)
            assert time.monotonic() - began >= 0.05 + 19 * 0.01 - 0.001

    run(scenario)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"memory_bytes": MIB}, "not enough memory: 1 MiB .*--memory"),
        ({"mem_fraction_static": 0.01}, "no memory is left for the KV pool .*give 0.0"),
        ({"mem_fraction_static": 0.99, "max_total_tokens": None}, "leaves 1 MiB.*give 0.9"),
        ({"max_total_tokens": 15}, "--max-total-tokens 15 is less than a page of 16 tokens"),
        ({"max_total_tokens": 16}, "not even a prompt of one token fits the KV pool of 16 tokens"),
        ({"disaggregation_mode": "decode", "num_reserved_decode_tokens": 1024}, "each request keeps 1024 back"),
        ({"context_length": 10**6}, "longer than the model's 4096 tokens"),
    ],
)
def test_what_cannot_start_says_what_would(asked: dict[str, object], words: str) -> None:
    with pytest.raises(UllageError, match=words):
        Engine(args(**asked), tiny())


@pytest.mark.parametrize("fraction", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_the_pool_is_sized_by_sglangs_identity(fraction: float, page_size: int) -> None:
    facts = Engine(
        args(mem_fraction_static=fraction, max_total_tokens=None, page_size=page_size, max_running_requests=8), tiny()
    ).facts
    budget = facts.available_after_load_bytes - round(facts.memory_bytes * (1 - fraction))
    assert facts.max_total_num_tokens == budget // facts.kv_bytes_per_token // page_size * page_size
    assert facts.mem_fraction_static == fraction
    taken = facts.weight_bytes + facts.kv_cache_bytes + facts.request_table_bytes + facts.scratch_bytes
    assert facts.memory_bytes - taken == facts.available_bytes >= 0


def test_advice_on_the_fraction_is_good() -> None:
    for fraction in (0.01, 0.99):
        with pytest.raises(UllageError) as raised:
            Engine(args(mem_fraction_static=fraction, max_total_tokens=None), tiny())
        advised = float(raised.value.advice.split()[1])
        assert Engine(args(mem_fraction_static=advised, max_total_tokens=None), tiny()).facts.max_total_num_tokens > 0
