"""Sizes as operators type them, and as they are printed. GiB is 2**30 bytes, GB is 10**9."""

from __future__ import annotations

import re

KIB, MIB, GIB = 2**10, 2**20, 2**30
_BINARY = {"": 1, "k": KIB, "m": MIB, "g": GIB}
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_BYTES = {"b": 1, **{f"{p}b": n for p, n in _DECIMAL.items() if p}, **{f"{p}ib": n for p, n in _BINARY.items() if p}}
# `32,5k` is no size: some write a decimal comma, others group digits by threes.
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*)"


def parse_tokens(text: str) -> int:
    """A token count of our own options: `32000`, `32,000`, `32_000`, and `32k` = 32,768 (the suffix is binary).

    Raises ValueError for anything else, a fraction of a token included.
    """
    return _whole(text, *_split(text, r"[kmg]?"), _BINARY)


def parse_bytes(text: str) -> int:
    """A byte count with its unit: `2GB` = 2*10**9, `2GiB` = 2*2**30, `512 MiB`, `100B`. A bare number has no unit:
    ValueError.
    """
    return _whole(text, *_split(text, r"[kmg]i?b|b"), _BYTES)


def _split(text: str, units: str) -> tuple[str, str]:
    match = re.fullmatch(rf"\s*({_DIGITS}(?:\.[0-9]+)?)\s*({units})\s*", text, re.IGNORECASE | re.ASCII)
    if match is None:
        if text.strip().startswith("-"):
            raise ValueError(f"{text!r} is not a size: it is negative")
        raise ValueError(f"{text!r} is not a size")
    return match[1].replace(",", "").replace("_", ""), match[2].lower()


def _whole(text: str, digits: str, unit: str, factors: dict[str, int]) -> int:
    whole, _, fraction = digits.partition(".")
    scale = int("1" + "0" * len(fraction))
    scaled, rest = divmod(int(whole + fraction) * factors[unit], scale)
    if rest:
        raise ValueError(f"{text!r} is not a whole number")
    return scaled


def echo_tokens(text: str) -> str:
    """What a token count was read as, where the reader could doubt it: `32k` -> "32k read as 32,768 tokens"."""
    value = parse_tokens(text)
    plain = text.strip().replace(",", "").replace("_", "")
    return "" if plain == str(value) else f"{text.strip()} read as {value:,} tokens"


def ceil_to(value: int, step: int) -> int:
    """`value` rounded up to a multiple of `step` (a page, a block)."""
    return -(-value // step) * step


def floor_to(value: int, step: int) -> int:
    return value // step * step


def told_duration(seconds: float) -> str:
    """`40 s`, `14 min`, `3 h 5 min`, `12 days`."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if minutes < 2:
        return f"{seconds:.0f} s"
    if hours < 2:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if days < 2 else f"{days} days"
