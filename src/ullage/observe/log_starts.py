"""Where an engine last started, found from the end of the file backwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

BLOCK = 2**20  # several times faster than blocks that do not fit the processor's caches
SAME_START = 32 * 2**20  # how far before a weaker marker the stronger one of the same start can stand


def last_start(handle: BinaryIO, size: int, markers: tuple[bytes, ...]) -> int | None:
    """The offset of the last start: of its strongest marker."""
    for place, marker in occurrences(handle, 0, size, markers):
        stronger = markers[: markers.index(marker)]
        found = [*occurrences(handle, place - SAME_START, place, stronger), (place, marker)]
        return _strongest(found, markers)
    return None


def earlier_starts(handle: BinaryIO, begin: int, end: int, markers: tuple[bytes, ...], most: int) -> list[int]:
    """By the strongest marker that occurs at all, the latest first, at most `most`."""
    found: dict[bytes, list[int]] = {}
    for place, marker in occurrences(handle, begin, end, markers):
        found.setdefault(marker, []).append(place)
    return next((found[marker][:most] for marker in markers if marker in found), [])


def _strongest(found: list[tuple[int, bytes]], markers: tuple[bytes, ...]) -> int | None:
    """The last place of the strongest marker."""
    return next((place for marker in markers for place, other in found if other == marker), None)


def occurrences(handle: BinaryIO, begin: int, end: int, markers: tuple[bytes, ...]) -> Iterator[tuple[int, bytes]]:
    """Every place of every marker that begins within the bounds, from the end backwards."""
    overlap = max(map(len, markers), default=1) - 1
    upper = end
    while markers and upper > max(0, begin):
        lower = max(0, begin, upper - BLOCK)
        handle.seek(lower)
        block = handle.read(upper + overlap - lower)
        places = [hit for marker in markers if marker in block for hit in _places(block, marker, upper - lower)]
        yield from ((lower + place, marker) for place, marker in sorted(places, reverse=True))
        upper = lower


def _places(block: bytes, marker: bytes, end: int) -> Iterator[tuple[int, bytes]]:
    """Those that begin before `end`; one beyond it belongs to the block that was read before."""
    place = block.find(marker)
    while 0 <= place < end:
        yield place, marker
        place = block.find(marker, place + len(marker))
