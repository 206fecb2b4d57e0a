"""Attention over a paged KV pool. Each (token, head) is computed on its own, keys in the order of their positions, so
its bits depend on nothing but its own sequence: not on the batch, the chunking, the pages or the threads.
"""

from __future__ import annotations

import math
from typing import Any

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
_AT_ONCE = 4  # positions
_C = tuple(np.float32(math.log(2) ** k / math.factorial(k)) for k in range(8))  # of the series of 2^x
_HALF, _LEAST = np.float32(0.5), np.float32(-126)


@njit(cache=True, nogil=True, fastmath=_FAST)
def rotate_and_store(qkv: Floats, turns: Floats, slots: Ints, pool: Floats, heads: int) -> None:
    """Turns queries (in place) and keys by their positions; keys and values go into the pool.

    qkv [tokens, (heads + 2 kv_heads) * dim]   turns [tokens, dim / 2, 2] cos, sin   pool [2, slots, kv_heads, dim]
    """
    dim = pool.shape[3]
    parts = qkv.reshape(qkv.shape[0], qkv.shape[1] // dim, dim)
    for token in range(parts.shape[0]):
        slot, turn = slots[token], turns[token]
        for part in range(parts.shape[1]):
            x, key = parts[token, part], part - heads
            value = key - pool.shape[2]
            if key < 0:
                _rotate(x, turn, x)
            elif value < 0:
                _rotate(x, turn, pool[0, slot, key])
            else:
                _copy(x, pool[1, slot, value])


@njit(inline="always")
def _rotate(x: Floats, turn: Floats, result: Floats) -> None:
    for i in range(turn.shape[0]):
        a, b = x[2 * i], x[2 * i + 1]
        result[2 * i] = a * turn[i, 0] - b * turn[i, 1]
        result[2 * i + 1] = a * turn[i, 1] + b * turn[i, 0]


@njit(inline="always")
def _copy(x: Floats, result: Floats) -> None:
    for i in range(x.shape[0]):
        result[i] = x[i]


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
    dim = pool.shape[3]
    factor = np.float32(math.log2(math.e) / math.sqrt(dim))
    width = (tables.shape[1] * page_size + _AT_ONCE - 1) // _AT_ONCE * _AT_ONCE
    scores = np.empty((heads, width), np.float32)
    slots = np.empty(width, np.int64)
    queries = qkv.reshape(qkv.shape[0], qkv.shape[1] // dim, dim)
    results = result.reshape(result.shape[0], heads, dim)
    for i in range(first, rows.shape[0], stride):
        count = positions[rows[i]] + 1
        padded = (count + _AT_ONCE - 1) // _AT_ONCE * _AT_ONCE
        _locate(tables[owners[i]], page_size, count, slots[:padded])
        _score(queries[rows[i], :heads], pool[0], slots[:padded], scores)
        for head in range(heads):
            _soften(scores[head, :padded], count, factor)
        _mix(scores, pool[1], slots[:padded], results[i])


@njit(inline="always")
def _locate(table: Pages, page_size: int, count: int, slots: Ints) -> None:
    """The slot of each position; what is beyond the last repeats it."""
    for begin in range(0, count, page_size):
        part = slots[begin : min(begin + page_size, count)]
        slot = table[begin // page_size] * page_size
        for offset in range(part.shape[0]):
            part[offset] = slot + offset
    for p in range(count, slots.shape[0]):
        slots[p] = slots[count - 1]


@njit(inline="always")
def _score(queries: Floats, keys: Floats, slots: Ints, scores: Floats) -> None:
    """scores[head, p] = queries[head] . key of position p, four positions at once."""
    group = queries.shape[0] // keys.shape[1]
    for p in range(0, slots.shape[0], _AT_ONCE):
        token_a, token_b, token_c, token_d = keys[slots[p]], keys[slots[p + 1]], keys[slots[p + 2]], keys[slots[p + 3]]
        for kv_head in range(keys.shape[1]):
            a, b, c, d = token_a[kv_head], token_b[kv_head], token_c[kv_head], token_d[kv_head]
            for head in range(kv_head * group, (kv_head + 1) * group):
                query, row = queries[head], scores[head]
                sum_a, sum_b, sum_c, sum_d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
                for i in range(query.shape[0]):
                    sum_a += query[i] * a[i]
                    sum_b += query[i] * b[i]
                    sum_c += query[i] * c[i]
                    sum_d += query[i] * d[i]
                row[p], row[p + 1], row[p + 2], row[p + 3] = sum_a, sum_b, sum_c, sum_d


@njit(inline="always")
def _soften(scores: Floats, count: int, factor: Any) -> None:
    """score -> 2^(factor * (score - highest)) / sum of these; zero from `count` on"""
    highest: Any = scores[0]
    for p in range(count):
        highest = max(highest, scores[p])
    total = np.float32(0)
    for p in range(count):
        scores[p] = _power_of_two((scores[p] - highest) * factor)
        total += scores[p]
    share = np.float32(1) / total
    for p in range(count):
        scores[p] *= share
    for p in range(count, scores.shape[0]):
        scores[p] = 0


@njit(inline="always")
def _power_of_two(x: Any) -> Any:
    """2^x for x <= 0: a series for what is beside the whole number, which itself becomes the exponent bits."""
    x = max(x, _LEAST)
    whole = np.floor(x + _HALF)
    r = x - whole
    series = _C[0] + r * (_C[1] + r * (_C[2] + r * (_C[3] + r * (_C[4] + r * (_C[5] + r * (_C[6] + r * _C[7]))))))
    bits = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
    return series * bits.view(np.float32)


@njit(inline="always")
def _mix(weights: Floats, values: Floats, slots: Ints, result: Floats) -> None:
    """result[head] = sum of weights[head, p] * value of position p, four positions at once."""
    group = result.shape[0] // values.shape[1]
    for head in range(result.shape[0]):
        for i in range(result.shape[1]):
            result[head, i] = 0
    for p in range(0, slots.shape[0], _AT_ONCE):
        token_a, token_b, token_c, token_d = (
            values[slots[p]],
            values[slots[p + 1]],
            values[slots[p + 2]],
            values[slots[p + 3]],
        )
        for kv_head in range(values.shape[1]):
            a, b, c, d = token_a[kv_head], token_b[kv_head], token_c[kv_head], token_d[kv_head]
            for head in range(kv_head * group, (kv_head + 1) * group):
                weight, row = weights[head], result[head]
                of_a, of_b, of_c, of_d = weight[p], weight[p + 1], weight[p + 2], weight[p + 3]
                for i in range(row.shape[0]):
                    row[i] += of_a * a[i] + of_b * b[i] + of_c * c[i] + of_d * d[i]
