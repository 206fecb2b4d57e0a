"""A request's text as it grows: a stop string ends it, and what may be the beginning of one is held back."""

from __future__ import annotations

from typing import Protocol


class Detokenizes(Protocol):
    def add(self, token_id: int) -> str: ...
    def flush(self) -> str: ...


class TextStream:
    """Token by token in, final text out."""

    def __init__(self, detokenizer: Detokenizes, stop: tuple[str, ...] = ()) -> None:
        self._detokenizer = detokenizer
        self._stop = tuple(s for s in stop if s)
        self._held = ""

    def add(self, token_id: int) -> tuple[str, str | None]:
        """The text that is final now, and the stop string that was met."""
        self._held += self._detokenizer.add(token_id)
        return self._release(final=False)

    def flush(self) -> tuple[str, str | None]:
        self._held += self._detokenizer.flush()
        return self._release(final=True)

    def _release(self, *, final: bool) -> tuple[str, str | None]:
        found = [(at, stop) for stop in self._stop if (at := self._held.find(stop)) >= 0]
        if found:
            at, stop = min(found)
            text, self._held = self._held[:at], ""
            return text, stop
        keep = 0 if final else max((_overlap(self._held, stop) for stop in self._stop), default=0)
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text, None


def _overlap(text: str, stop: str) -> int:
    """The longest end of `text` that is how `stop` begins."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
