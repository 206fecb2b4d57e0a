"""Sums of bytes that were printed rounded: every figure carries the range in which the true value lies.

Engines print GiB with two decimals, so that 0.01 GiB means +-0.005 GiB; llama.cpp's table cuts MiB off. The range goes
through every sum and difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..figure import Figure, Kind, derived
from ..units import GIB, MIB

_SIZES = {"GiB": GIB, "MiB": MIB, "bytes": 1}
_HALF_STEPS = {"GiB": 0.005, "MiB": 0.005, "bytes": 0.0}
_ROUNDED = "as printed, to two decimals"
_CUT = "as printed, cut to whole MiB"


def in_bytes(figure: Figure, name: str = "") -> Figure:
    """A printed size as bytes, with the range that its rounding leaves. A sum that was made of printed sizes is made
    again of them. (SGLang's "GB" is GiB.)
    """
    name = name or figure.name.replace("_gib", "").replace("_mib", "")
    if _is_sum(figure):
        return added(name, [in_bytes(part) for part in figure.inputs], figure.note)
    size, half = _SIZES[figure.unit], _HALF_STEPS[figure.unit]
    low, high = math.floor((figure.least - half) * size), math.ceil((figure.most + half) * size)
    value = round(figure.number * size)
    found = derived(name, value, "bytes", (figure,), _ROUNDED if half else figure.note)
    return found.between(max(0, low) if value >= 0 else low, high)


def _is_sum(figure: Figure) -> bool:
    """Was it made of its inputs, each a printed size?"""
    parts = figure.inputs
    if figure.kind is not Kind.DERIVED or not parts or any(not p.known or p.unit != figure.unit for p in parts):
        return False
    return abs(sum(p.number for p in parts) - figure.number) <= _HALF_STEPS[figure.unit] * len(parts)


def cut_to_mib(figure: Figure, name: str = "") -> Figure:
    """A size that was cut to whole MiB."""
    value = figure.count * MIB
    return derived(name or figure.name, value, "bytes", (figure,), _CUT).between(value, value + MIB - 1)


def added(name: str, figures: Sequence[Figure], note: str = "") -> Figure:
    """The sum of sizes in bytes, and of their ranges."""
    total = derived(name, sum(f.count for f in figures), "bytes", tuple(figures), note)
    return total.between(_whole(sum(f.least for f in figures)), _whole(sum(f.most for f in figures)))


def less(name: str, whole: Figure, parts: Sequence[Figure], note: str = "") -> Figure:
    """What is left of `whole` without `parts`, in bytes; below zero where they overlap."""
    left = derived(name, whole.count - sum(p.count for p in parts), "bytes", (whole, *parts), note)
    low, high = whole.least - sum(p.most for p in parts), whole.most - sum(p.least for p in parts)
    return left.between(_whole(low), _whole(high))


def times(name: str, figure: Figure, factor: float, note: str, inputs: Sequence[Figure] = ()) -> Figure:
    """A share or a multiple of a size in bytes."""
    found = derived(name, round(figure.number * factor), "bytes", (figure, *inputs), note)
    return found.between(math.floor(figure.least * factor), math.ceil(figure.most * factor))


def _whole(value: int | float) -> int:
    return int(value)
