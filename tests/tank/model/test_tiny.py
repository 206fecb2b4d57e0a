"""The random model: there at once, the same every time, and with something to say."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ullage.errors import UllageError
from ullage.tank.model.load import load_model

from .sequences import plain

_PROMPTS = ["Hello, how are you?", "a", "The quick brown fox"]


def test_it_is_built_in_less_than_a_second() -> None:
    load_model("tiny")  # may compile
    begin = time.perf_counter()
    load_model("tiny")
    assert time.perf_counter() - begin < 1


def test_a_seed_is_a_model() -> None:
    first, same, other = (load_model("tiny", seed=seed).model for seed in (1, 1, 2))
    logits = [plain(model, [1, 2, 3])[1][0] for model in (first, same, other)]
    assert np.array_equal(logits[0], logits[1])
    assert not np.allclose(logits[0], logits[2])


@pytest.mark.parametrize("prompt", _PROMPTS)
def test_its_greedy_answers_vary_and_ties_are_rare(prompt: str) -> None:
    loaded = load_model("tiny")
    tokens, logits = plain(loaded.model, loaded.tokenizer.encode(prompt), 200)
    assert len(set(tokens)) > 40
    assert np.median([np.diff(np.sort(row)[-2:]) for row in logits]) > 0.3


def test_what_it_says_can_be_read() -> None:
    loaded = load_model("tiny")
    text = loaded.tokenizer.decode(plain(loaded.model, loaded.tokenizer.encode("Hello"), 100)[0])
    assert sum(letter.isascii() and letter.isprintable() for letter in text) > 90


def test_it_may_end_by_itself() -> None:
    loaded = load_model("tiny")
    ends = [set(plain(loaded.model, loaded.tokenizer.encode(p), 200)[0]) & loaded.tokenizer.eos_ids for p in _PROMPTS]
    assert any(ends)


def test_a_shorter_context_is_taken_and_a_longer_one_refused() -> None:
    assert load_model("tiny", context_length=100).config.context_len == 100
    with pytest.raises(UllageError, match="5000 tokens is more than the 4096 of tiny"):
        load_model("tiny", context_length=5000)


def test_an_unknown_model_is_one_line() -> None:
    with pytest.raises(UllageError, match="there is no model nonesuch"):
        load_model("nonesuch")
