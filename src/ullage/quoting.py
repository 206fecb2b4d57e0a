"""Quoting: which parts of a line stand in quotes. A program's own words do not; what its users sent it does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# A quote that opens a value stands behind a sign; an apostrophe stands behind a letter ("can't"). A backslash keeps a
# quote from closing, and where a line is cut nothing closes it.
_QUOTED = re.compile(
    r"""(?:^|(?<=[\s=:(\[{,]))b?(?:'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))""", re.DOTALL
)


def in_quotes(text: str, at: int) -> bool:
    """Does what stands at `at` belong to a quoted value?"""
    return next(outside(text, [at]), None) is None


def outside(text: str, places: Iterable[int]) -> Iterator[int]:
    """Those of the places, which ascend, that stand in no quoted value."""
    quoted = _QUOTED.finditer(text)
    begin, end = 0, 0
    for place in places:
        while end <= place:
            match = next(quoted, None)
            begin, end = match.span() if match else (len(text) + 1,) * 2
        if place < begin:
            yield place
