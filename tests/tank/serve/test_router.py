"""The real router before the workers, and OpenAI's own client before the router."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.tank.processes import Worker, worker
from tests.tank.serve.calls import call, caller, client, events, generate_body, post, until
from tests.tank.serve.conftest import Pair
from tests.tank.serve.routers import pd_words, plain_words, router

PARALLEL = 40


@pytest.fixture(scope="module")
def port(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a router before the pair."""
    with router(tmp_path_factory.mktemp("router"), pd_words(*pair)) as ready:
        yield ready


def chat(number: int, tokens: int = 30) -> dict[str, Any]:
    """No two numbers have the same prompt, and half of them draw."""
    sampling = {"temperature": 0.8, "seed": number} if number % 2 else {"temperature": 0}
    messages = [{"role": "user", "content": f"{number}: what next?" + " and then?" * (number % 7)}]
    return {"model": "tiny", "messages": messages, "max_tokens": tokens, "extra_body": {"ignore_eos": True}, **sampling}


def streamed(there: OpenAI, number: int) -> tuple[str, int]:
    """Text and tokens of a chat, as OpenAI's client streams it."""
    asked = {**chat(number), "stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = list(there.chat.completions.create(**asked))
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["length"]
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks), last.usage.completion_tokens


def whole(there: OpenAI, number: int) -> tuple[str, int]:
    done = there.chat.completions.create(**chat(number))
    return done.choices[0].message.content, done.usage.completion_tokens


def together(port: int, ask: Callable[[OpenAI, int], tuple[str, int]]) -> list[tuple[str, int]]:
    """All chats at once."""
    with client(port) as there, ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(lambda number: ask(there, number), range(PARALLEL)))


def test_forty_clients_stream_through_a_pair_what_one_worker_says(port: int, pair: Pair, plain: Worker) -> None:
    through = together(port, streamed)
    assert through == together(plain.port, whole)
    assert {tokens for _, tokens in through} == {30}
    until(lambda: pair.is_empty)
    assert pair.decode.counter("generation_tokens") >= 30 * PARALLEL
    for each in (pair.prefill, pair.decode):
        assert each.counter("num_bootstrap_failed_reqs") == each.counter("num_transfer_failed_reqs") == 0
        assert "Traceback" not in each.log.read_text("utf-8")


@pytest.mark.parametrize("tokens", [1, 2, 33])
def test_every_endpoint_says_through_a_pair_what_one_worker_says(port: int, plain: Worker, tokens: int) -> None:
    prompt = "Through the router, and through the network, to the other worker."
    own = generate_body(prompt, tokens)
    completion = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    for path, body, told in (
        ("/generate", own, lambda said: (said["text"], said["output_ids"], said["meta_info"]["finish_reason"])),
        ("/v1/completions", completion, lambda said: (said["choices"], said["usage"]["total_tokens"])),
    ):
        assert told(post(port, path, body)) == told(post(plain.port, path, body))
        through, alone = (events(port, path, body) for port in (port, plain.port))
        assert [event.get("text", event.get("choices")) for event in through] == [
            event.get("text", event.get("choices")) for event in alone
        ]


def test_a_refusal_comes_through_with_its_reason(port: int, pair: Pair) -> None:
    for streams in (False, True):
        with client(port) as there, pytest.raises(openai.BadRequestError) as refused:
            there.completions.create(model="tiny", prompt="x" * 2048, stream=streams)
        assert "exceeds the maximum allowed length" in refused.value.response.text
    until(lambda: pair.is_empty)


def test_a_caller_that_leaves_the_router_frees_both_workers(port: int, pair: Pair) -> None:
    with caller(port, "/generate", {**generate_body("o" * 40, 1900), "stream": True}) as connection:
        assert connection.recv(4096)
        until(lambda: pair.decode.load()["num_used_tokens"] > 0)
    until(lambda: pair.is_empty, 5)


def test_the_router_spreads_requests_over_unified_workers(plain: Worker, tmp_path: Path) -> None:
    alone, before = together(plain.port, whole), plain.counter("num_requests")
    with worker(tmp_path) as other, router(tmp_path, plain_words(plain, other)) as port:
        assert together(port, streamed) == alone
        for each, already in ((plain, before), (other, 0)):
            until(each.is_empty)
            assert each.counter("num_requests") - already >= PARALLEL / 4
        with client(port) as there:
            assert [model.id for model in there.models.list().data] == ["tiny"]
        loads = call(port, "GET", "/get_loads").json
        assert [worker["load"] for worker in loads["workers"]] == [0, 0]
