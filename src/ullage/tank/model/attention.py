"""Attention over a paged KV pool. Each (token, head) is computed on its own, keys in the order of their positions, so
its bits depend on nothing but its own sequence: not on the batch, the chunking, the pages or the threads.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .weights import Floats

Ints = NDArray[np.int64]
Pages = NDArray[np.int32]

# Sums may be vectors': their order follows from their length alone, as long as there is one copy of the machine code.
# Hence the helpers are inlined, and each is called at one place. (A helper that is compiled on its own *and* into its
# caller may give other bits in a process that compiles than in one that finds both in the cache.)
_FAST = {"reassoc", "nsz", "contract"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def rotate_and_store(qkv: Floats, turns: Floats, slots: Ints, pool: Floats, heads: int) -> None:
    """Turns queries (in place) and keys by their positions; keys and values go into the pool.

    qkv [tokens, (heads + 2 kv_heads) * dim]   turns [tokens, dim / 2, 2] cos, sin   pool [2, slots, kv_heads, dim]
    """
    kv_heads, dim = pool.shape[2], pool.shape[3]
    for token in range(qkv.shape[0]):
        for head in range(heads):
            _rotate(qkv[token, head * dim : (head + 1) * dim], turns[token], qkv[token, head * dim : (head + 1) * dim])
        for head in range(kv_heads):
            key = (heads + head) * dim
            _rotate(qkv[token, key : key + dim], turns[token], pool[0, slots[token], head])
            value = key + kv_heads * dim
            pool[1, slots[token], head] = qkv[token, value : value + dim]


@njit(inline="always")
def _rotate(x: Floats, turn: Floats, result: Floats) -> None:
    for i in range(turn.shape[0]):
        a, b = x[2 * i], x[2 * i + 1]
        result[2 * i] = a * turn[i, 0] - b * turn[i, 1]
        result[2 * i + 1] = a * turn[i, 1] + b * turn[i, 0]


@njit(cache=True, nogil=True, fastmath=_FAST)
def attend(
    qkv: Floats,
    pool: Floats,
    rows: Ints,
    owners: Ints,
    positions: Ints,
    tables: Pages,
    page_size: int,
    heads: int,
    first: int,
    stride: int,
    result: Floats,
) -> None:
    """result[i] = attention of the token at row rows[i], for i = first, first + stride, ...

    Token rows[i] belongs to the sequence whose pages are tables[owners[i]], and sees positions 0..positions[rows[i]].
    """
    kv_heads, dim = pool.shape[2], pool.shape[3]
    group = heads // kv_heads
    scale = np.float32(1 / math.sqrt(dim))
    scores = np.empty(tables.shape[1] * page_size, np.float32)
    for i in range(first, rows.shape[0], stride):
        row = rows[i]
        table = tables[owners[i]]
        count = positions[row] + 1
        for head in range(heads):
            query = qkv[row, head * dim : (head + 1) * dim]
            _score(query, pool[0], head // group, table, page_size, scale, scores[:count])
            total = _exponentials(scores[:count])
            _mix(
                scores[:count],
                pool[1],
                head // group,
                table,
                page_size,
                total,
                result[i, head * dim : (head + 1) * dim],
            )


@njit(inline="always")
def _score(query: Floats, keys: Floats, head: int, table: Pages, page_size: int, scale: float, scores: Floats) -> None:
    for page in range((scores.shape[0] + page_size - 1) // page_size):
        begin, slot = page * page_size, table[page] * page_size
        for offset in range(min(page_size, scores.shape[0] - begin)):
            key = keys[slot + offset, head]
            total = np.float32(0)
            for d in range(query.shape[0]):
                total += query[d] * key[d]
            scores[begin + offset] = total * scale


@njit(inline="always")
def _exponentials(scores: Floats) -> np.float32:
    highest = scores[0]
    for score in scores:
        highest = max(highest, score)
    total = np.float32(0)
    for i in range(scores.shape[0]):
        scores[i] = math.exp(scores[i] - highest)
        total += scores[i]
    result: np.float32 = np.float32(total)
    return result


@njit(inline="always")
def _mix(
    weights: Floats, values: Floats, head: int, table: Pages, page_size: int, total: np.float32, result: Floats
) -> None:
    result[:] = 0
    for page in range((weights.shape[0] + page_size - 1) // page_size):
        begin, slot = page * page_size, table[page] * page_size
        for offset in range(min(page_size, weights.shape[0] - begin)):
            weight = weights[begin + offset]
            value = values[slot + offset, head]
            for d in range(result.shape[0]):
                result[d] += weight * value[d]
    for d in range(result.shape[0]):
        result[d] /= total
