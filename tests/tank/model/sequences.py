"""Sequences on a paged pool, run through a model the way an engine would: helpers of these tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ullage.tank.model.config import ModelConfig
from ullage.tank.model.forward import Model, Step


class Piece(NamedTuple):
    """Tokens of a sequence that lie at positions start, start + 1, ..., and the pages of the whole sequence."""

    token_ids: Sequence[int]
    start: int
    pages: Sequence[int]


def new_pool(config: ModelConfig, slots: int) -> NDArray[np.float32]:
    return np.zeros((config.layers, 2, slots, config.kv_heads, config.head_dim), np.float32)


def step_of(pieces: Sequence[Piece], page_size: int) -> Step:
    width = max(len(piece.pages) for piece in pieces)
    positions = [np.arange(p.start, p.start + len(p.token_ids)) for p in pieces]
    slots = [
        np.asarray(p.pages)[at // page_size] * page_size + at % page_size
        for p, at in zip(pieces, positions, strict=True)
    ]
    return Step(
        token_ids=np.concatenate([np.asarray(p.token_ids, np.int64) for p in pieces]),
        positions=np.concatenate(positions),
        slots=np.concatenate(slots),
        starts=np.cumsum([0, *(len(p.token_ids) for p in pieces)]).astype(np.int32),
        page_tables=np.array([[*p.pages, *[0] * (width - len(p.pages))] for p in pieces], np.int32),
        page_size=page_size,
    )


def run(model: Model, pieces: Sequence[Piece], page_size: int, pool: NDArray[np.float32]) -> NDArray[np.float32]:
    return model.forward(step_of(pieces, page_size), pool)


def plain(model: Model, token_ids: Sequence[int], output: int = 1) -> tuple[list[int], list[NDArray[np.float32]]]:
    """One sequence alone, its prompt in one pass, greedily: tokens, and the logits each was taken from."""
    pool = new_pool(model.config, len(token_ids) + output)
    new, position = list(token_ids), 0
    tokens, logits = [], []
    for _ in range(output):
        logits.append(run(model, [Piece(new, position, [0])], len(token_ids) + output, pool)[0])
        position += len(new)
        new = [int(np.argmax(logits[-1]))]
        tokens += new
    return tokens, logits
