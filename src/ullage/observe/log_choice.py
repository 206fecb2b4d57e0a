"""Which engines' words to look for in a large log: those that its begin, middle and end show. A small one is searched
for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from .log_needles import needles_of

MIB = 2**20
_ALL_UP_TO = 16 * MIB
_SAMPLE = MIB // 4
_FEW = 0.01  # of the most: what a program prints in common with others


class LogWords(NamedTuple):
    """What one engine's log is searched for. `starts`: byte strings that mark the beginning of a start, the strongest
    first. `keep`: only lines it is found in are kept.
    """

    starts: tuple[bytes, ...]
    keep: re.Pattern[bytes]


def together(kinds: Sequence[LogWords]) -> LogWords:
    starts = tuple(marker for kind in kinds for marker in kind.starts)
    return LogWords(starts, re.compile(b"|".join(kind.keep.pattern for kind in kinds)))


def chosen(handle: BinaryIO, size: int, kinds: Sequence[LogWords]) -> LogWords:
    """The words of the kinds that stand in the log; of all, where it is small, or its samples show none."""
    if size <= _ALL_UP_TO or len(kinds) == 1:
        return together(kinds)
    sample = b"\n".join(_read(handle, place) for place in (0, (size - _SAMPLE) // 2, size - _SAMPLE))
    counts = [sum(1 for _ in needles_of(kind.keep).find(sample)) for kind in kinds]
    most = max(counts)
    return together([kind for kind, count in zip(kinds, counts, strict=True) if count >= _FEW * most])


def _read(handle: BinaryIO, place: int) -> bytes:
    handle.seek(place)
    return handle.read(_SAMPLE)
