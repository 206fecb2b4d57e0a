from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ullage.tank.request import Sampling
from ullage.tank.sampling import next_token

logits = arrays(np.float32, 20, elements=st.floats(-20, 20, width=32))


@given(logits)
def test_without_temperature_the_likeliest_is_taken(row: npt.NDArray[np.float32]) -> None:
    assert next_token(row, Sampling(temperature=0), 3) == int(np.argmax(row))


@given(logits, st.integers(0, 2**63), st.integers(0, 1000))
def test_a_seed_and_a_position_decide(row: npt.NDArray[np.float32], seed: int, position: int) -> None:
    sampling = Sampling(temperature=0.8, top_p=0.9, seed=seed)
    assert next_token(row, sampling, position) == next_token(row.copy(), sampling, position)


@given(logits, st.floats(0.05, 1), st.integers(1, 20), st.integers(0, 2**32))
def test_only_the_likeliest_are_drawn(row: npt.NDArray[np.float32], top_p: float, top_k: int, seed: int) -> None:
    token = next_token(row, Sampling(top_p=top_p, top_k=top_k, seed=seed), 0)
    better = row[row > row[token]]
    assert len(better) < top_k
    among = np.sort(row.astype(np.float64))[::-1][:top_k]
    weights = np.exp(among - among[0])
    assert np.exp(better.astype(np.float64) - among[0]).sum() / weights.sum() < top_p + 1e-6


def test_frequencies_follow_the_probabilities() -> None:
    row = np.log(np.array([0.5, 0.3, 0.2], dtype=np.float32))
    drawn = [next_token(row, Sampling(seed=7), position) for position in range(4000)]
    shares = np.bincount(drawn, minlength=3) / len(drawn)
    assert np.allclose(shares, [0.5, 0.3, 0.2], atol=0.04)


def test_without_a_seed_draws_differ() -> None:
    row = np.zeros(1000, dtype=np.float32)
    assert len({next_token(row, Sampling(), 0) for _ in range(20)}) > 1
