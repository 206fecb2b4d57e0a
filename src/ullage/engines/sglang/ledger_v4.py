"""DeepSeek-V4 in SGLang: the pools that one token of the pool is charged for, and what each of them costs.

The formula of generations A to B (pool_configurator.py; launch branch of April 2026, 0267e17a, 003fca80):

    r*584*L + .25*584*n4 + 584*n128/128 + .25*132*n4 + r*(ring4/128)*(2560*s)*n4 [+ r*(ring128/128)*(1024*s)*n128]

L layers, n4 of them compressed by 4 and n128 by 128, r = swa_full_tokens_ratio, s = 4 (fp32 states). Rings are 8 and
128, twice as large with speculative decoding, which also takes the sum times (L + 1)/L. The last term was made a fixed
part in v0.5.15. A set of terms counts only where it gives the stated charge to a hundredth of a byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...figure import Figure, default, derived

_KV, _INDEX, _STATE = 584, 132, 4
_MODELS = {"Flash": ((43, 44), 21, 20), "Pro": ((61, 62), 30, 31)}  # layers (without and with MTP), n4, n128
_EXACT = 0.006  # bytes; the charge is printed to two decimals
CONTEXT = ("c4 KV", "c4 index keys", "c128 KV")  # what more context takes; the others scale with the pool alone


class Charge(NamedTuple):
    """Bytes that one token of the pool is charged, by pool. `ratio` is the window's share of the pool."""

    model: str
    ratio: Figure
    stated: Figure
    pools: Mapping[str, float]

    @property
    def context(self) -> float:
        """Of it, bytes that buy context."""
        return sum(self.pools[name] for name in CONTEXT)

    @property
    def window(self) -> float:
        """Of it, bytes that scale with the window's ratio."""
        return sum(self.pools.values()) - self.context

    def at(self, ratio: float) -> float:
        """Bytes charged per token with another ratio."""
        return self.context + self.window * ratio / float(self.ratio.number)

    def figures(self) -> dict[str, Figure]:
        """Each pool's bytes of a token."""
        note = f"DeepSeek-V4-{self.model}: the terms that sum to the stated charge"
        inputs = (self.stated, self.ratio)
        return {name: derived(f"{name} of a token", cost, "bytes", inputs, note) for name, cost in self.pools.items()}


def charge_of(figures: Mapping[str, Figure]) -> Charge | None:
    """The pools behind `bytes_per_full_token`. None where no known set of terms gives it."""
    stated = figures.get("bytes_per_full_token")
    if stated is None:
        return None
    ratio = figures.get("swa_full_tokens_ratio") or default(
        "swa_full_tokens_ratio", 0.1, "", "SGLang's setting for DeepSeek-V4"
    )
    for model, pools in _candidates(float(ratio.number)):
        if abs(sum(pools.values()) - stated.number) < _EXACT:
            return Charge(model, ratio, stated, pools)
    return None


def _candidates(ratio: float) -> Iterator[tuple[str, dict[str, float]]]:
    for model, (layers, n4, n128) in _MODELS.items():
        for count in layers:
            for speculates in (False, True):
                terms = _terms(ratio, count, n4, n128, 2 if speculates else 1)
                scale = (count + 1) / count if speculates else 1
                scaled = {name: cost * scale for name, cost in terms.items()}
                yield model, scaled
                yield model, {name: cost for name, cost in scaled.items() if name != "c128 state"}


def _terms(ratio: float, layers: int, n4: int, n128: int, rings: int) -> dict[str, float]:
    return {
        "c4 KV": 0.25 * _KV * n4,
        "c4 index keys": 0.25 * _INDEX * n4,
        "c128 KV": _KV * n128 / 128,
        "window KV": ratio * _KV * layers,
        "c4 state": ratio * (8 * rings / 128) * 2560 * _STATE * n4,
        "c128 state": ratio * rings * 1024 * _STATE * n128,
    }
