"""Where an engine last started, found from the end of the file backwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

BLOCK = 8 * 2**20
SAME_START = 32 * 2**20  # how far before a weaker marker the stronger one of the same start can stand


def last_start(handle: BinaryIO, size: int, markers: tuple[bytes, ...]) -> int | None:
    """The offset of the last start: of its strongest marker."""
    for offset, block in _backwards(handle, 0, size, markers):
        place, marker = max((block.rfind(marker), marker) for marker in markers)
        if place >= 0:
            return _strongest(handle, offset + place, markers[: markers.index(marker)])
    return None


def starts_between(handle: BinaryIO, begin: int, end: int, markers: tuple[bytes, ...], most: int) -> list[int]:
    """Earlier starts by the strongest marker that occurs at all, the latest first, at most `most`."""
    for marker in markers:
        found = list(_occurrences(handle, max(0, begin), end, marker, most))
        if found:
            return found
    return []


def _strongest(handle: BinaryIO, weaker: int, stronger: tuple[bytes, ...]) -> int:
    for marker in stronger:
        for place in _occurrences(handle, max(0, weaker - SAME_START), weaker, marker, 1):
            return place
    return weaker


def _occurrences(handle: BinaryIO, begin: int, end: int, marker: bytes, most: int) -> Iterator[int]:
    last = end
    for offset, block in _backwards(handle, begin, end, (marker,)):
        place = block.rfind(marker, 0, last - offset)
        while place >= 0 and most > 0:
            last = offset + place
            yield last
            most -= 1
            place = block.rfind(marker, 0, place)
        if most <= 0:
            return


def _backwards(handle: BinaryIO, begin: int, end: int, markers: tuple[bytes, ...]) -> Iterator[tuple[int, bytes]]:
    """Blocks with their offset from the end on; each reaches into the next by less than a marker, so none is cut."""
    overlap = max(map(len, markers), default=1) - 1
    upper = end
    while upper > begin:
        lower = max(begin, upper - BLOCK)
        handle.seek(lower)
        yield lower, handle.read(min(upper + overlap, end) - lower)
        upper = lower
