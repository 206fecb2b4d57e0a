"""Of very many lines with the same words, some: a log of a week of batches would fill the memory otherwise.

Per kind of line: the last few before the last start, the first of the current life, and the last of the file.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from .log_blocks import Found

_MOST_KINDS = 200
_BEFORE_SHARE = 10  # an earlier life is worth a tenth of the current one


class Thin:
    def __init__(self, start: int, tail: int, most: int) -> None:
        self._start, self._tail, self._most = start, max(start, tail), most
        self._before: dict[bytes, deque[Found]] = {}
        self._current: dict[bytes, list[Found]] = {}
        self._last: dict[bytes, deque[Found]] = {}
        self._left_out: Counter[bytes] = Counter()

    def add(self, found: Found) -> None:
        if found.offset < self._start:
            self._push(self._before, found, max(1, self._most // _BEFORE_SHARE))
        elif found.offset >= self._tail:
            self._push(self._last, found, self._most)
        else:
            lines = self._current.setdefault(_kind(found, self._current), [])
            if len(lines) < self._most:
                lines.append(found)
            else:
                self._left_out[found.kind if found.kind in self._current else b""] += 1

    def _push(self, kinds: dict[bytes, deque[Found]], found: Found, most: int) -> None:
        kind = _kind(found, kinds)
        lines = kinds.setdefault(kind, deque(maxlen=most))
        self._left_out[kind] += len(lines) == most
        lines.append(found)

    def kept(self) -> list[Found]:
        groups = [*self._before.values(), *self._current.values(), *self._last.values()]
        return sorted((found for group in groups for found in group), key=lambda found: found.offset)

    def gaps(self) -> Iterator[str]:
        for kind, count in self._left_out.items():
            if count:
                words = kind.decode("utf-8", errors="replace").strip() or "others"
                yield f"{count:,} more lines like {words!r} left out"


def _kind(found: Found, kinds: dict[bytes, deque[Found]] | dict[bytes, list[Found]]) -> bytes:
    return found.kind if found.kind in kinds or len(kinds) < _MOST_KINDS else b""
