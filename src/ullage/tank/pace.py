"""The step clock of --pace: a step takes the stated time, however fast or slow the machine is."""

from __future__ import annotations

import time

from .config import Pace

_MOST_LATE_S = 1.0  # what is later than that is not made up for


class Clock:
    """Steps that follow each other are due at times that add up, so that one late step does not delay the rest."""

    def __init__(self, pace: Pace | None) -> None:
        self._pace = pace
        self._due: float | None = None

    def start(self, prefill_tokens: int, decode_steps: int) -> None:
        """A step begins: when is it due to end?"""
        if self._pace is not None:
            cost = prefill_tokens * self._pace.prefill_token_s + decode_steps * self._pace.decode_step_s
            now = time.monotonic()
            self._due = max(now if self._due is None else self._due, now - _MOST_LATE_S) + cost

    def finish(self) -> None:
        """Waits until the step is due to end."""
        if self._due is not None:
            time.sleep(max(0.0, self._due - time.monotonic()))

    def idle(self) -> None:
        """Nothing runs: the next step begins when it begins."""
        self._due = None
