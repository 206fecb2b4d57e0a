"""A forward pass over any mix of prompt pieces and single tokens of several sequences, on a paged KV pool."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import graphs
from .attention import attend, rotate_and_store
from .config import ModelConfig
from .weights import Floats, Weights

_MANY_SCORES = 50_000  # from here on, handing attention to other threads costs less than it saves
_MOST_THREADS = 4  # unless asked for: each layer has its own, and so small a model gains little from more
_KERNELS = 2  # attention kernels at a time, each with scores of its own: as the estimate of scratch has it


class Step(NamedTuple):
    """The tokens of a pass, sequence by sequence, and where their keys and values lie.

    The slot of position p of sequence b is page_tables[b, p // page_size] * page_size + p % page_size.
    """

    token_ids: NDArray[np.int64]  # [tokens]
    positions: NDArray[np.int64]  # [tokens]
    slots: NDArray[np.int64]  # [tokens]: where in the pool each one's K and V are written
    starts: NDArray[np.int32]  # [sequences + 1]: the rows of sequence b are starts[b]..starts[b + 1]
    page_tables: NDArray[np.int32]  # [sequences, pages]
    page_size: int


class Model:
    """Weights, and nothing that changes: KV is the caller's."""

    def __init__(self, weights: Weights, threads: int | None = None) -> None:
        self.config = weights.config
        self.threads = threads or _usable_cores()
        self._embedding = weights.embedding()
        self._graphs = graphs.build(weights, self.threads)
        self._turns = _turns(weights.frequencies(), self.config.context_len)
        self._helpers = ThreadPoolExecutor(self.threads - 1, "attention") if self.threads > 1 else None
        self.weight_bytes = self._embedding.nbytes + self._graphs.weight_bytes + self._turns.nbytes
        self._warm_up()

    def forward(self, step: Step, kv: Floats) -> Floats:
        """Logits [sequences, vocab] of the last token of each sequence. kv: [layers, 2, slots, kv_heads, head_dim]."""
        step = _plain(step)
        turns = self._turns[step.positions]
        every, last = _queries(step)
        hidden = self._embedding(step.token_ids)
        (qkv,) = self._graphs.entry(hidden)
        for graph, pool in zip(self._graphs.between, kv, strict=False):
            rotate_and_store(qkv, turns, step.slots, pool, self.config.heads)
            hidden, qkv = graph(hidden, self._attend(qkv, pool, every, step))
        rotate_and_store(qkv, turns, step.slots, kv[-1], self.config.heads)
        (logits,) = self._graphs.exit(hidden[last.rows], self._attend(qkv, kv[-1], last, step))
        return logits

    def _warm_up(self) -> None:
        """Compiles what is compiled at first use."""
        one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
        step = Step(one, zero, zero, np.array([0, 1], np.int32), np.zeros((1, 1), np.int32), 1)
        config = self.config
        self.forward(step, np.zeros((config.layers, 2, 1, config.kv_heads, config.head_dim), np.float32))

    def _attend(self, qkv: Floats, pool: Floats, queries: _Queries, step: Step) -> Floats:
        result = np.empty((len(queries.rows), self.config.heads * self.config.head_dim), np.float32)

        def share(first: int, stride: int) -> None:
            attend(
                qkv,
                pool,
                queries.rows,
                queries.owners,
                step.positions,
                step.page_tables,
                step.page_size,
                self.config.heads,
                first,
                stride,
                result,
            )

        if self._helpers is None or queries.scores * self.config.heads < _MANY_SCORES:
            share(0, 1)
        else:
            others = [self._helpers.submit(share, n, self.threads) for n in range(1, self.threads)]
            share(0, self.threads)
            for other in others:
                other.result()
        return result


def _plain(step: Step) -> Step:
    """As the kernels were compiled for: other types or strides would mean other machine code, and maybe other bits."""
    return Step(
        np.ascontiguousarray(step.token_ids, np.int64),
        np.ascontiguousarray(step.positions, np.int64),
        np.ascontiguousarray(step.slots, np.int64),
        np.ascontiguousarray(step.starts, np.int32),
        np.ascontiguousarray(step.page_tables, np.int32),
        step.page_size,
    )


class _Queries(NamedTuple):
    """Rows whose attention is asked for, the sequence of each, and how many scores that is in all."""

    rows: NDArray[np.int64]
    owners: NDArray[np.int64]
    scores: int


def _queries(step: Step) -> tuple[_Queries, _Queries]:
    """Every row, and the last row of each sequence: the last layer need not compute any other."""
    lengths = np.diff(step.starts)
    sequences = np.arange(len(lengths), dtype=np.int64)
    every = np.arange(len(step.token_ids), dtype=np.int64)
    last = step.starts[1:].astype(np.int64) - 1
    scores = step.positions + 1
    return (
        _Queries(every, np.repeat(sequences, lengths), int(scores.sum())),
        _Queries(last, sequences, int(scores[last].sum())),
    )


def _turns(frequencies: NDArray[np.float64], positions: int) -> Floats:
    """[positions, head_dim / 2, 2]: cosine and sine of every angle."""
    angles = np.outer(np.arange(positions, dtype=np.float64), frequencies)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)


def _usable_cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST_THREADS)


def activation_bytes(config: ModelConfig, tokens: int, sequences: int) -> int:
    """At most so much does a pass of `tokens` rows, with logits for `sequences` of them, need beside weights and KV."""
    width = config.heads * config.head_dim
    qkv = width + 2 * config.kv_heads * config.head_dim
    row = 5 * config.hidden + 2 * qkv + 2 * width + 4 * config.ffn + config.head_dim
    scores = _KERNELS * (config.heads + 2) * config.context_len
    return 4 * (tokens * row + sequences * (config.vocab + config.hidden) + scores)
