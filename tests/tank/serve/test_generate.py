"""/generate, SGLang's own: what it answers, whole and in events, and what sampling does there."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.tank.processes import Worker
from tests.tank.serve.calls import events, generate_body, post

PROMPT = "What does the tank hold?"
TOKENS = 24
EOS = 257  # of the tiny model, beside 259


def ask(worker: Worker, tokens: int = TOKENS, **sampling: Any) -> Any:
    return post(worker.port, "/generate", generate_body(PROMPT, tokens, **sampling))


def drawn(worker: Worker, seed: int, tokens: int = TOKENS, **sampling: Any) -> Any:
    return ask(worker, tokens, **{"temperature": 1.0, "seed": seed, **sampling})


def test_a_whole_answer_has_text_tokens_and_what_is_told_of_it(plain: Worker) -> None:
    answer = ask(plain)
    meta = answer["meta_info"]
    assert len(answer["output_ids"]) == TOKENS
    assert answer["text"] == bytes(answer["output_ids"]).decode()
    assert meta["finish_reason"] == {"type": "length", "length": TOKENS}
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (len(PROMPT), TOKENS)
    assert meta.keys() >= {"id", "cached_tokens", "weight_version", "e2e_latency"}
    assert 0 < meta["e2e_latency"] < 60


def test_token_ids_are_a_prompt_too_and_a_request_may_name_itself(plain: Worker) -> None:
    sampling = {"max_new_tokens": 4, "temperature": 0}
    body = {"input_ids": list(PROMPT.encode()), "rid": "mine", "sampling_params": sampling}
    answer = post(plain.port, "/generate", body)
    assert answer["output_ids"] == ask(plain)["output_ids"][:4]
    assert answer["meta_info"]["id"] == "mine"


def test_a_repeated_prompt_is_read_from_the_cache_in_whole_pages(plain: Worker) -> None:
    body = generate_body("a prompt that nobody else sends, and that is longer than two pages", 1)
    post(plain.port, "/generate", body)
    cached = post(plain.port, "/generate", body)["meta_info"]["cached_tokens"]
    assert cached == (len(body["text"]) - 1) // 16 * 16


def test_each_event_has_the_text_so_far_and_the_last_the_whole(plain: Worker) -> None:
    whole = ask(plain)
    said = events(plain.port, "/generate", generate_body(PROMPT, TOKENS))
    assert [len(event["output_ids"]) for event in said] == list(range(1, TOKENS + 1))
    assert all(later["text"].startswith(one["text"]) for one, later in pairwise(said))
    assert {event["meta_info"]["id"] for event in said} == {said[0]["meta_info"]["id"]}
    assert [event["meta_info"]["finish_reason"] for event in said[:-1]] == [None] * (TOKENS - 1)
    last = said[-1]
    assert (last["text"], last["output_ids"]) == (whole["text"], whole["output_ids"])
    assert last["meta_info"]["finish_reason"] == whole["meta_info"]["finish_reason"]


@pytest.mark.parametrize("streams", [False, True])
def test_a_stop_string_ends_it_and_is_not_part_of_the_text(plain: Worker, streams: bool) -> None:
    text = ask(plain)["text"]
    stop = text[9:12]
    body = generate_body(PROMPT, TOKENS, stop=["never to be met", stop])
    answer = events(plain.port, "/generate", body)[-1] if streams else post(plain.port, "/generate", body)
    assert answer["text"] == text[: text.index(stop)]
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}


def test_a_stop_token_ends_it(plain: Worker) -> None:
    tokens = ask(plain)["output_ids"]
    answer = ask(plain, stop_token_ids=[tokens[5]])
    first = tokens.index(tokens[5])
    assert answer["output_ids"] == tokens[: first + 1]
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": tokens[5]}


def test_the_models_own_end_is_heeded_unless_it_is_to_be_ignored(plain: Worker) -> None:
    for seed in range(40):
        ended = drawn(plain, seed, 100, ignore_eos=False)
        if ended["meta_info"]["finish_reason"]["type"] == "stop":
            break
    assert ended["meta_info"]["finish_reason"] == {"type": "stop", "matched": ended["output_ids"][-1]}
    assert ended["output_ids"][-1] in (EOS, 259)
    went_on = drawn(plain, seed, 100)
    assert len(went_on["output_ids"]) == 100
    assert went_on["output_ids"][: len(ended["output_ids"])] == ended["output_ids"]


def test_a_seed_says_what_is_drawn_and_without_one_it_is_chance(plain: Worker) -> None:
    first, again, other = (drawn(plain, seed)["output_ids"] for seed in (7, 7, 8))
    assert first == again != other
    loose = [ask(plain, temperature=1.0)["output_ids"] for _ in range(2)]
    assert loose[0] != loose[1]


@pytest.mark.parametrize("narrow", [{"temperature": 1e-300}, {"temperature": 1e-7}, {"top_p": 1e-9}, {"top_k": 1}])
def test_where_only_the_likeliest_is_left_it_is_taken(plain: Worker, narrow: dict[str, Any]) -> None:
    assert drawn(plain, 3, **narrow)["output_ids"] == ask(plain)["output_ids"]


def test_a_low_temperature_or_top_p_draws_closer_to_the_likeliest(plain: Worker) -> None:
    greedy = ask(plain)["output_ids"][0]

    def hits(**sampling: Any) -> int:
        return sum(drawn(plain, seed, 1, **sampling)["output_ids"] == [greedy] for seed in range(30))

    free, cold, narrow = hits(temperature=3.0), hits(temperature=0.3), hits(temperature=3.0, top_p=0.1)
    assert free < cold
    assert free < narrow


def test_the_output_is_128_tokens_unless_asked(plain: Worker) -> None:
    body = {"text": PROMPT, "sampling_params": {"temperature": 0, "ignore_eos": True}}
    assert post(plain.port, "/generate", body)["meta_info"]["completion_tokens"] == 128
