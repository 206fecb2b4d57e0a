"""Text to token ids and back. Encoding is the `tokenizers` library's; decoding goes by the bytes each token stands for,
so that text can grow token by token.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence

import tokenizers


class Tokenizer:
    """Text of special tokens is always read as these tokens; they decode to nothing."""

    def __init__(
        self,
        encoder: tokenizers.Tokenizer,
        pieces: Sequence[bytes],
        *,
        bos_id: int | None,
        eos_ids: frozenset[int],
        add_bos: bool = False,
        strip_first_space: bool = False,
    ) -> None:
        self.encoder = encoder
        self.pieces = pieces
        self.bos_id = bos_id
        self.eos_ids = eos_ids
        self.strip_first_space = strip_first_space
        self._prefix = [bos_id] if add_bos and bos_id is not None else []

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """`special`: begins with what the model wants there, such as the BOS token."""
        ids: list[int] = self.encoder.encode(text, add_special_tokens=False).ids
        return self._prefix + ids if special else ids

    def decode(self, ids: Iterable[int]) -> str:
        stream = Detokenizer(self)
        return "".join([*(stream.add(token_id) for token_id in ids), stream.flush()])


class Detokenizer:
    """Token by token in, final text out: a character whose bytes are not all there yet is held back."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._pieces = tokenizer.pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = tokenizer.strip_first_space

    def add(self, token_id: int) -> str:
        piece = self._pieces[token_id]
        if self._strip and piece:
            self._strip = False
            piece = piece.removeprefix(b" ")
        return self._decoder.decode(piece)

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)
