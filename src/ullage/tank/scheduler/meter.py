"""Throughput, as SGLang's log lines have it: over the stretch since the last line."""

from __future__ import annotations

import time

from ..sequence import Piece, Sequence


class Meter:
    def __init__(self) -> None:
        now = time.monotonic()
        self.generated_per_s = 0.0
        self.prompt_per_s = 0.0
        self.cache_hit_rate = 0.0
        self.steps = 0
        self._generated = 0
        self._generated_since = now
        self._prompt_since = now

    def decoded(self, sequences: list[Sequence], interval: int) -> bool:
        """A step is over: is a line due?"""
        self.steps += 1
        self._generated += len(sequences)
        if self.steps % interval:
            return False
        now = time.monotonic()
        self.generated_per_s = self._generated / max(now - self._generated_since, 1e-9)
        self._generated, self._generated_since = 0, now
        return True

    def prefilled(self, pieces: list[Piece], cached: int) -> None:
        now = time.monotonic()
        tokens = sum(piece.tokens for piece in pieces)
        self.prompt_per_s = tokens / max(now - self._prompt_since, 1e-9)
        self.cache_hit_rate = cached / max(tokens + cached, 1)
        self._prompt_since = now
        self._generated_since = max(self._generated_since, now) if not self._generated else self._generated_since

    def idle(self) -> None:
        """Nothing runs: what was generated per second no longer holds."""
        now = time.monotonic()
        self.generated_per_s = 0.0
        self._generated, self._generated_since, self._prompt_since = 0, now, now
