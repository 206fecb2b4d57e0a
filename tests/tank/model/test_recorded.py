"""SmolLM2 beside what transformers and llama-server made of the same file (recorded/make.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ullage.tank.model.load import Loaded

from .recorded import make
from .sequences import plain

_FOLDER = Path(__file__).parent / "recorded"
_LOGITS: dict[str, Any] = json.loads((_FOLDER / "logits.json").read_text("utf-8"))["prompts"]
_TOKENS: list[Any] = json.loads((_FOLDER / "tokens.json").read_text("utf-8"))["texts"]
_CLOSE = 2e-4  # logits are of the order of 10, and float32 sums of 576 terms in another order differ by this at most


@pytest.mark.parametrize("name", _LOGITS)
def test_logits_and_greedy_tokens_are_those_of_transformers(smollm2: Loaded, name: str) -> None:
    recorded = _LOGITS[name]
    tokens, logits = plain(smollm2.model, recorded["ids"], make.GREEDY)
    ids, values = zip(*recorded["top"], *recorded["fixed"], strict=True)
    assert np.abs(logits[0][list(ids)] - np.array(values)).max() < _CLOSE
    assert np.argsort(-logits[0])[: make.TOP].tolist() == [token_id for token_id, _ in recorded["top"]]
    assert tokens == recorded["greedy"]


@pytest.mark.parametrize("name", make.PROMPTS)
def test_prompts_become_the_tokens_of_transformers(smollm2: Loaded, name: str) -> None:
    assert smollm2.tokenizer.encode(make.PROMPTS[name]) == _LOGITS[name]["ids"]


def test_a_chat_becomes_the_tokens_of_transformers(smollm2: Loaded) -> None:
    assert smollm2.tokenizer.encode(smollm2.chat.render(make.CHAT), special=False) == _LOGITS["chat"]["ids"]


@pytest.mark.parametrize(("text", "ids"), _TOKENS)
def test_texts_become_the_tokens_of_llama_server(smollm2: Loaded, text: str, ids: list[int]) -> None:
    assert smollm2.tokenizer.encode(text) == ids


def test_every_text_of_the_script_is_recorded() -> None:
    assert [text for text, _ in _TOKENS] == make.TEXTS
    assert set(_LOGITS) == {*make.PROMPTS, "chat"}
    assert len(_LOGITS["long"]["ids"]) > 300
