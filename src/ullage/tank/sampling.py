"""The next token from logits. With a seed it depends on the seed, the position and the logits alone, so a request that
was retracted, or whose first token came from another worker, goes on as if nothing had happened.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .request import Sampling

Logits = NDArray[np.float32]


def next_token(logits: Logits, sampling: Sampling, position: int) -> int:
    """The token at `position` of the sequence. `logits`: float32 [vocab]."""
    if sampling.temperature <= 0 or sampling.top_k == 1:
        return int(np.argmax(logits))
    order = np.argsort(-logits, kind="stable")[: sampling.top_k if sampling.top_k > 0 else None]
    scaled = logits[order].astype(np.float64) / sampling.temperature
    weights = np.exp(scaled - scaled[0])
    cumulated = np.cumsum(_nucleus(weights / weights.sum(), sampling.top_p))
    seed = () if sampling.seed is None else (sampling.seed & (2**64 - 1), position)
    draw = np.random.default_rng(seed or None).random() * cumulated[-1]
    return int(order[min(int(np.searchsorted(cumulated, draw, side="right")), len(cumulated) - 1)])


def _nucleus(probabilities: NDArray[np.float64], top_p: float) -> NDArray[np.float64]:
    """The least number of the most likely tokens that together reach `top_p`."""
    if top_p >= 1:
        return probabilities
    count = int(np.searchsorted(np.cumsum(probabilities), top_p)) + 1
    return probabilities[:count]
