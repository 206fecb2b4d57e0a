"""The worker as OpenAI's own client sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.tank.processes import Worker
from tests.tank.serve.calls import call, client, events, generate_body, post

PROMPT = "Once upon a time"
MESSAGES: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello!"}]
ON: Any = {"ignore_eos": True}


@pytest.fixture
def there(plain: Worker) -> Iterator[OpenAI]:
    with client(plain.port) as made:
        yield made


def test_a_completion_is_what_generate_says(plain: Worker, there: OpenAI) -> None:
    done = there.completions.create(model="tiny", prompt=PROMPT, max_tokens=12, temperature=0, extra_body=ON)
    assert (done.object, done.model, done.id[:5]) == ("text_completion", "tiny", "cmpl-")
    [choice] = done.choices
    assert choice.text == post(plain.port, "/generate", generate_body(PROMPT, 12))["text"]
    assert (choice.index, choice.finish_reason) == (0, "length")
    assert done.usage is not None
    usage = done.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (len(PROMPT), 12, len(PROMPT) + 12)


def test_a_prompt_may_be_token_ids_or_a_list_of_one(there: OpenAI) -> None:
    prompts: list[Any] = [PROMPT, list(PROMPT.encode()), [PROMPT], [list(PROMPT.encode())]]
    texts = [
        there.completions.create(model="tiny", prompt=prompt, max_tokens=6, temperature=0).choices[0].text
        for prompt in prompts
    ]
    assert len(set(texts)) == 1


def test_a_streamed_completion_is_the_whole_in_pieces(there: OpenAI) -> None:
    asked: Any = {"model": "tiny", "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "extra_body": ON}
    whole = there.completions.create(**asked).choices[0]
    chunks = list(there.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.text
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 11 + ["length"]
    assert all(chunk.usage is None for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_streamed_chat_is_the_whole_in_pieces(there: OpenAI) -> None:
    asked: Any = {"model": "tiny", "messages": MESSAGES, "max_tokens": 12, "temperature": 0, "extra_body": ON}
    whole = there.chat.completions.create(**asked)
    assert (whole.object, whole.id[:9]) == ("chat.completion", "chatcmpl-")
    assert (whole.choices[0].message.role, whole.choices[0].finish_reason) == ("assistant", "length")
    chunks = list(there.chat.completions.create(**asked, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert [delta.role for delta in deltas] == ["assistant"] + [None] * 12
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 12 + ["length"]
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert all(chunk.usage is None for chunk in chunks)


@pytest.mark.parametrize(
    ("path", "prompt"),
    [("/v1/completions", {"prompt": PROMPT}), ("/v1/chat/completions", {"messages": MESSAGES})],
)
def test_usage_comes_last_and_only_where_it_was_asked_for(plain: Worker, path: str, prompt: dict[str, Any]) -> None:
    body = {**prompt, "max_tokens": 5, "temperature": 0, "ignore_eos": True}
    without = events(plain.port, path, {**body, "stream_options": {"include_usage": False}})
    *chunks, last = events(plain.port, path, {**body, "stream_options": {"include_usage": True}})
    assert all("usage" not in chunk for chunk in [*without, *chunks])
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 5
    assert last["usage"] == {**post(plain.port, path, body)["usage"], "prompt_tokens_details": ANYTHING}


class Anything:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


ANYTHING = Anything()


def test_a_stop_string_ends_a_chat(there: OpenAI) -> None:
    asked: Any = {"model": "tiny", "messages": MESSAGES, "max_tokens": 20, "temperature": 0, "extra_body": ON}
    text = there.chat.completions.create(**asked).choices[0].message.content
    assert text
    stopped = there.chat.completions.create(**asked, stop=text[6:9]).choices[0]
    assert (stopped.message.content, stopped.finish_reason) == (text[: text.index(text[6:9])], "stop")
    chunks = list(there.chat.completions.create(**asked, stop=[text[6:9]], stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == stopped.message.content
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_seed_makes_a_chat_repeatable(there: OpenAI) -> None:
    def ask(seed: int) -> str | None:
        done = there.chat.completions.create(
            model="tiny", messages=MESSAGES, max_tokens=16, temperature=0.9, top_p=0.95, seed=seed, extra_body=ON
        )
        return done.choices[0].message.content

    assert ask(1) == ask(1) != ask(2)


def test_the_newer_name_of_max_tokens_counts_before_the_older(there: OpenAI) -> None:
    done = there.chat.completions.create(
        model="tiny", messages=MESSAGES, max_completion_tokens=3, max_tokens=9, temperature=0, extra_body=ON
    )
    assert done.usage is not None
    assert done.usage.completion_tokens == 3


def test_the_content_of_a_message_may_come_in_parts(there: OpenAI) -> None:
    parts: Any = [{"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo!"}]}]
    plain_text: Any = [{"role": "user", "content": "Hello!"}]
    texts = [
        there.chat.completions.create(model="tiny", messages=m, max_tokens=6, temperature=0).choices[0].message.content
        for m in (parts, plain_text)
    ]
    assert texts[0] == texts[1]


def test_a_chat_without_a_limit_goes_on_to_the_end_of_the_context(there: OpenAI) -> None:
    long: Any = [{"role": "user", "content": "x" * 1900}]
    done = there.chat.completions.create(model="tiny", messages=long, temperature=0, extra_body=ON)
    assert done.usage is not None
    assert done.choices[0].finish_reason == "length"
    assert done.usage.total_tokens in range(2040, 2049)


def test_the_list_of_models_says_how_long_a_request_may_be(there: OpenAI) -> None:
    [model] = there.models.list().data
    assert (model.id, model.owned_by, model.model_extra) == ("tiny", "sglang", {"root": "tiny", "max_model_len": 2048})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"prompt": "x" * 2048}, "Input length (2048 tokens) exceeds the maximum allowed length"),
        ({"prompt": "x" * 1000, "max_tokens": 1049}, "maximum context length of 2048 tokens"),
        ({"prompt": "x", "n": 2}, "n "),
        ({"prompt": "x", "logprobs": 2}, "logprobs "),
        ({"prompt": ["x", "y"]}, "prompt must be one string"),
        ({"prompt": "x", "temperature": -1}, "temperature must be"),
    ],
)
def test_the_client_gets_the_reason_as_a_bad_request(there: OpenAI, asked: dict[str, Any], message: str) -> None:
    for streams in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            there.completions.create(**{"model": "tiny", "max_tokens": 4, **asked, "stream": streams})
        assert message in refused.value.message
        assert refused.value.body["message"] in refused.value.message  # type: ignore[index]


def test_what_the_router_adds_is_let_pass(plain: Worker) -> None:
    added = {
        "no_stop_trim": False,
        "continue_final_message": False,
        "skip_special_tokens": True,
        "separate_reasoning": True,
        "stream_reasoning": True,
        "return_hidden_states": False,
        "logprobs": False,
    }
    chat = {"model": "tiny", "messages": MESSAGES, "max_completion_tokens": 4, "temperature": 0, **added}
    completion = {"model": "tiny", "prompt": PROMPT, "max_tokens": 4, "temperature": 0, **added, "echo": False}
    own = {
        "model": None,
        "return_text_in_logprobs": False,
        "log_metrics": True,
        "background": False,
        "no_logs": False,
        "return_bytes": False,
        "return_entropy": False,
        "return_hidden_states": False,
        "a_field_of_next_year": {"a": [1]},
    }
    for path, body in (
        ("/v1/chat/completions", chat),
        ("/v1/completions", completion),
        ("/generate", {**generate_body(PROMPT, 4), **own}),
    ):
        assert call(plain.port, "POST", path, body).status == 200
