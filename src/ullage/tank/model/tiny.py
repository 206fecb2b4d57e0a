"""A random model for tests: two layers, bytes as tokens, built in memory from a seed."""

from __future__ import annotations

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from .byte_letters import BYTE_LETTERS
from .chat import ChatTemplate
from .config import ModelConfig
from .tokenizer import Tokenizer
from .weights import Floats, Layer, Table, plain_frequencies

_SPECIAL = ["<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"]
_BOS, _EOS, _IM_END = 256, 257, 259

CONFIG = ModelConfig(
    name="tiny",
    layers=2,
    hidden=64,
    heads=4,
    kv_heads=2,
    head_dim=16,
    ffn=128,
    vocab=256 + len(_SPECIAL),
    context_len=4096,
    rope_theta=10_000.0,
    norm_eps=1e-5,
)

_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class TinyWeights:
    """Drawn in the order of asking, each from a stream of its own, so that a seed gives the same model always."""

    def __init__(self, seed: int = 0, config: ModelConfig = CONFIG) -> None:
        self.config = config
        self._seed = seed

    def frequencies(self) -> NDArray[np.float64]:
        return plain_frequencies(self.config)

    def embedding(self) -> Table:
        return Table(self._draw(0, self.config.vocab, self.config.hidden, 1.0))

    def layer(self, index: int) -> Layer:
        """Queries and keys are large: attention then picks out few tokens, and what follows depends on all the text."""
        c, stream = self.config, 10 * (index + 1)
        width, kv_width = c.heads * c.head_dim, c.kv_heads * c.head_dim
        small = c.hidden**-0.5
        return Layer(
            np.ones(c.hidden, np.float32),
            np.hstack(
                [
                    self._draw(stream, c.hidden, width + kv_width, 3 * small),
                    self._draw(stream + 1, c.hidden, kv_width, 2 * small),
                ]
            ),
            self._draw(stream + 2, width, c.hidden, 2 * small),
            np.ones(c.hidden, np.float32),
            self._draw(stream + 3, c.hidden, c.ffn, 2 * small),
            self._draw(stream + 4, c.hidden, c.ffn, 2 * small),
            self._draw(stream + 5, c.ffn, c.hidden, small),
        )

    def final_norm(self) -> Floats:
        return np.ones(self.config.hidden, np.float32)

    def head(self) -> Floats:
        """Bytes that are no ASCII text hardly ever win, so that answers can be read."""
        head = self._draw(1, self.config.hidden, self.config.vocab, 3 * self.config.hidden**-0.5)
        readable = [*range(32, 127), ord("\n"), _EOS]
        faint = np.setdiff1d(np.arange(self.config.vocab), readable)
        head[:, faint] *= 0.1
        return head

    def _draw(self, stream: int, rows: int, columns: int, scale: float) -> Floats:
        drawn = np.random.default_rng((self._seed, stream)).standard_normal((rows, columns), dtype=np.float32)
        drawn *= np.float32(scale)
        return drawn


def tiny_tokenizer() -> Tokenizer:
    encoder = tokenizers.Tokenizer(BPE({letter: byte for byte, letter in enumerate(BYTE_LETTERS)}, []))
    encoder.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    encoder.add_special_tokens(_SPECIAL)
    pieces = [*(bytes([byte]) for byte in range(256)), *(b"" for _ in _SPECIAL)]
    return Tokenizer(encoder, pieces, bos_id=_BOS, eos_ids=frozenset([_EOS, _IM_END]))


def tiny_chat() -> ChatTemplate:
    return ChatTemplate(_CHATML, bos_token=_SPECIAL[0], eos_token=_SPECIAL[1])
