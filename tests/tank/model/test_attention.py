"""The kernels beside plain numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ullage.tank.model.attention import attend, rotate_and_store

Array = NDArray[np.float32]


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int, int]:
    """Query heads, key heads, dimensions."""
    kv_heads = draw(st.integers(1, 4))
    return kv_heads * draw(st.integers(1, 4)), kv_heads, 2 * draw(st.sampled_from([1, 3, 8, 20, 32, 64]))


@given(
    shape=shapes(),
    counts=st.lists(st.integers(1, 150), min_size=1, max_size=4),
    page_size=st.integers(1, 40),
    seed=st.integers(0, 99),
)
@settings(max_examples=80, deadline=None)
def test_attention_is_what_numpy_says(
    shape: tuple[int, int, int], counts: list[int], page_size: int, seed: int
) -> None:
    """One query for each sequence, at its last position."""
    heads, kv_heads, dim = shape
    random = np.random.default_rng(seed)
    width = -(-max(counts) // page_size)
    tables = random.permutation(len(counts) * width).astype(np.int32).reshape(len(counts), width)
    pool = random.standard_normal((2, tables.size * page_size, kv_heads, dim), dtype=np.float32)
    qkv = 3 * random.standard_normal((len(counts), (heads + 2 * kv_heads) * dim), dtype=np.float32)
    result = np.full((len(counts), heads * dim), np.nan, np.float32)
    rows = np.arange(len(counts))
    for first in (0, 1):
        attend(qkv, pool, rows, rows, np.array(counts) - 1, tables, page_size, heads, first, 2, result)
    for row, count in enumerate(counts):
        slots = [tables[row, p // page_size] * page_size + p % page_size for p in range(count)]
        queries = qkv[row, : heads * dim].reshape(heads, dim)
        assert np.allclose(result[row], _attention(queries, pool[:, slots]).ravel(), rtol=1e-4, atol=1e-5)


def _attention(queries: Array, kv: Array) -> Array:
    heads, dim = queries.shape
    keys, values = (np.repeat(part, heads // kv.shape[2], axis=1).astype(np.float64) for part in kv)
    scores = np.einsum("hd,thd->ht", queries, keys) / np.sqrt(dim)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(np.einsum("ht,thd->hd", weights / weights.sum(axis=1, keepdims=True), values), np.float32)


@given(shape=shapes(), tokens=st.integers(1, 9), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_pairs_turn_by_their_angles_and_go_to_their_slots(shape: tuple[int, int, int], tokens: int, seed: int) -> None:
    heads, kv_heads, dim = shape
    random = np.random.default_rng(seed)
    qkv = random.standard_normal((tokens, heads + 2 * kv_heads, dim), dtype=np.float32)
    angles = random.uniform(-9, 9, (tokens, dim // 2))
    turns = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)
    pool = np.zeros((2, 20, kv_heads, dim), np.float32)
    slots = random.permutation(20)[:tokens]
    turned = qkv.reshape(tokens, -1).copy()
    rotate_and_store(turned, turns, slots, pool, heads)
    wanted = (qkv.astype(np.float64).view(np.complex128) * np.exp(1j * angles)[:, None]).view(np.float64)
    assert np.allclose(turned.reshape(qkv.shape)[:, :heads], wanted[:, :heads], rtol=1e-4, atol=1e-5)
    assert np.allclose(pool[0, slots], wanted[:, heads : heads + kv_heads], rtol=1e-4, atol=1e-5)
    assert np.array_equal(pool[1, slots], qkv[:, heads + kv_heads :])
    assert not np.delete(pool, slots, axis=1).any()


def test_very_unequal_scores_stay_finite() -> None:
    pool = np.zeros((2, 4, 1, 2), np.float32)
    pool[0, :, 0, 0] = [3e4, -3e4, 3e4, 0]
    pool[1, :, 0, 1] = [1, 50, 3, 70]
    qkv = np.array([[1e4, 0, 0, 0, 0, 0]], np.float32)
    result = np.zeros((1, 2), np.float32)
    zero = np.zeros(1, np.int64)
    attend(qkv, pool, zero, zero, np.array([3]), np.array([[0]], np.int32), 4, 1, 0, 1, result)
    assert result.tolist() == [[0, 2]]
