"""Text to tokens and back, whole and token by token."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers.decoders import ByteLevel

from ullage.tank.model.load import Loaded
from ullage.tank.model.tokenizer import Detokenizer, Tokenizer

_TEXTS = st.text(max_size=60)


@pytest.fixture(scope="session", params=["tiny", "smollm2"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    loaded: Loaded = request.getfixturevalue(request.param)
    return loaded.tokenizer


@given(text=_TEXTS)
def test_a_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    """Unless it has a byte that the vocabulary lacks: SmolLM2's has none for a few that are rare or are not UTF-8."""
    assume(all(bytes([byte]) in tokenizer.pieces for byte in set(text.encode())))
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(data=st.data())
@settings(max_examples=200)
def test_pieces_add_up_to_the_whole(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """Any tokens, also such as no text has: bytes of half a character, special ones."""
    ids = data.draw(
        st.lists(
            st.integers(0, tokenizer.vocab_size - 1) | st.integers(0, 300).filter(lambda n: n < tokenizer.vocab_size),
            max_size=40,
        )
    )
    stream = Detokenizer(tokenizer)
    said = [stream.add(token_id) for token_id in ids]
    assert "".join(said) + stream.flush() == tokenizer.decode(ids)
    assert tokenizer.decode(ids) == b"".join(tokenizer.pieces[at] for at in ids).decode("utf-8", "replace")


def test_half_a_character_is_held_back(tiny: Loaded) -> None:
    stream = Detokenizer(tiny.tokenizer)
    assert [stream.add(byte) for byte in "a€".encode()] == ["a", "", "", "€"]
    assert [stream.add(0xE2), stream.add(ord("b")), stream.add(0xE2)] == ["", "\ufffdb", ""]
    assert stream.flush() == "\ufffd"


def test_special_tokens_are_read_and_say_nothing(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<|im_start|>user\nhi<|im_end|>")
    assert ids[-1] in tokenizer.eos_ids
    assert tokenizer.decode(ids) == "user\nhi"


def test_the_librarys_own_decoding_agrees(smollm2: Loaded) -> None:
    """It goes by the spelling of tokens, not by our table of bytes."""
    ids = smollm2.tokenizer.encode("Größe, 你好, 🙂👍🏽, 1,234.5\n\tx  y")
    encoder = smollm2.tokenizer.encoder
    decoder = ByteLevel()
    assert decoder.decode([encoder.id_to_token(at) or "" for at in ids]) == smollm2.tokenizer.decode(ids)
