"""What a model is made of, layer by layer, so that one layer at a time need be in memory twice."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .config import ModelConfig

Floats = NDArray[np.float32]


class Layer(NamedTuple):
    """Matrices are [in, out]; `qkv` holds queries, keys and values side by side. A head's dimensions stand as rotary
    pairs: 0 with 1, 2 with 3, and so on.
    """

    attention_norm: Floats
    qkv: Floats
    attention_out: Floats
    ffn_norm: Floats
    gate: Floats
    up: Floats
    down: Floats


class Embedding(Protocol):
    """Looks up token vectors. `nbytes` is what it keeps in memory."""

    @property
    def nbytes(self) -> int: ...

    def __call__(self, token_ids: NDArray[np.int64], /) -> Floats: ...


class Weights(Protocol):
    """A source of weights. A layer is made when asked for, and is the caller's to drop."""

    config: ModelConfig

    def frequencies(self) -> NDArray[np.float64]:
        """Of the rotary positions, in radians per token: [head_dim / 2]."""
        ...

    def embedding(self) -> Embedding: ...

    def layer(self, index: int) -> Layer: ...

    def final_norm(self) -> Floats: ...

    def head(self) -> Floats:
        """[hidden, vocab]"""
        ...


class Table:
    """An embedding that lies in memory as float32."""

    def __init__(self, rows: Floats) -> None:
        self._rows = rows
        self.nbytes = rows.nbytes

    def __call__(self, token_ids: NDArray[np.int64]) -> Floats:
        return self._rows[token_ids]


def plain_frequencies(config: ModelConfig) -> NDArray[np.float64]:
    """theta^(-2i / head_dim)"""
    return config.rope_theta ** (-np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim)
