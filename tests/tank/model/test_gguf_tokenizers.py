"""Tokenizers out of GGUF metadata: SentencePiece's merging beside its rule in plain words, and ways to cut text."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.tank.model.gguf_file import GgufFile
from ullage.tank.model.gguf_tokenizer import tokenizer_of
from ullage.tank.model.pre_tokenizers import RULES
from ullage.tank.model.tokenizer import Tokenizer

from . import gguf_files

_PIECES = "▁a ab b ▁ab aba ▁b ba a c ▁c ca abc ▁ ▁▁ bc cab é".split()
_TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *_PIECES, "<tool>"]
_SCORES = [0.0] * 259 + [-float(rank) for rank in range(len(_PIECES))] + [0.0]
_TYPES = [2, 3, 3] + [6] * 256 + [1] * len(_PIECES) + [4]


@pytest.fixture(scope="module")
def sentence_pieces(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    change = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": _TOKENS,
        "tokenizer.ggml.scores": _SCORES,
        "tokenizer.ggml.token_type": _TYPES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    path = gguf_files.write(tmp_path_factory.mktemp("gguf") / "pieces.gguf", change=change)
    return tokenizer_of(GgufFile(path), 400)


def _by_the_rule(text: str) -> list[int]:
    """As long as any two neighbours make a piece: those with the highest score, the first of equals."""
    scores = dict(zip(_PIECES, _SCORES[259:], strict=False))
    parts = list("▁" + text.replace(" ", "▁")) if text else []
    while pairs := [(-scores[a + b], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in scores]:
        _, at = min(pairs)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    found = []
    for part in parts:
        found += [_TOKENS.index(part)] if part in scores else [3 + byte for byte in part.encode()]
    return found


@given(text=st.text("ab c" + "é€", max_size=14))
@settings(max_examples=400)
def test_sentence_pieces_merge_by_score(sentence_pieces: Tokenizer, text: str) -> None:
    ids = sentence_pieces.encode(text, special=False)
    assert ids == _by_the_rule(text)
    assert sentence_pieces.decode(ids) == text


def test_sentence_pieces_begin_with_bos_and_know_their_special_tokens(sentence_pieces: Tokenizer) -> None:
    assert sentence_pieces.encode("a")[0] == sentence_pieces.bos_id == 1
    assert sentence_pieces.eos_ids == {2}
    ids = sentence_pieces.encode("ab<tool>c</s>")
    assert len(_TOKENS) - 1 in ids
    assert sentence_pieces.decode(ids) == "ab<tool> c"
    assert sentence_pieces.vocab_size == 400


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        ("gpt-2", ["I", "'m", " 1234", "  ", " ok", "!?", "\n", "\n", "He", "'", "LL"]),
        ("smollm", ["I", "'m", " ", "1", "2", "3", "4", "  ", " ok", "!?", "\n", "\n", "He", "'", "LL"]),
        ("llama-bpe", ["I", "'m", " ", "123", "4", "  ", " ok", "!?\n\n", "He", "'LL"]),
        ("qwen2", ["I", "'m", " ", "1", "2", "3", "4", "  ", " ok", "!?\n\n", "He", "'LL"]),
    ],
)
def test_text_is_cut_by_the_rule_that_the_file_names(rule: str, parts: list[str]) -> None:
    """Written with their spaces, as byte-level letters have them."""
    cut = RULES[rule].pre_tokenizer().pre_tokenize_str("I'm 1234   ok!?\n\nHe'LL")
    assert [part.replace("Ġ", " ").replace("Ċ", "\n") for part, _ in cut] == parts


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_loses_any_text(rule: str) -> None:
    text = "I'm 12,345.6 © naïve — 你好🙂\t\r\n \n x<=y  "
    cut = RULES[rule].pre_tokenizer().pre_tokenize_str(text)
    assert "".join(text[begin:end] for _, (begin, end) in cut) == text


@pytest.mark.parametrize(("key", "value", "first"), [("add_bos_token", None, 65), ("add_bos_token", True, 256)])
def test_bos_is_added_where_the_file_says_so(tmp_path: Path, key: str, value: bool | None, first: int) -> None:
    path = gguf_files.write(tmp_path / "tiny.gguf", change={f"tokenizer.ggml.{key}": value})
    tokenizer = tokenizer_of(GgufFile(path), 260)
    assert tokenizer.encode("A")[0] == first
    assert tokenizer.encode("A", special=False) == [65]
