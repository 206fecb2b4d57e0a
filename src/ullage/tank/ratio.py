"""The share of the output that is kept back for running requests: it falls with every step, and a retraction raises it.

Constants of sglang's environ.py: SGLANG_INIT_NEW_TOKEN_RATIO, SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR,
SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS, SGLANG_RETRACT_DECODE_STEPS.
"""

from __future__ import annotations

from collections.abc import Sequence as Listed

from .sequence import Sequence

INIT_RATIO = 0.7
MIN_FACTOR = 0.14
DECAY_STEPS = 600
RETRACT_STEPS = 20


class NewTokenRatio:
    def __init__(self, conservativeness: float) -> None:
        self.start = min(INIT_RATIO * conservativeness, 1.0)
        self.least = self.start * MIN_FACTOR
        self._decay = (self.start - self.least) / DECAY_STEPS
        self.current = self.start

    def step(self) -> None:
        self.current = max(self.least, self.current - self._decay)

    def retracted(self, running: Listed[Sequence]) -> None:
        """What the requests that stay have generated of what they may, a little ahead."""
        decoded = sum(len(sequence.output_ids) for sequence in running)
        most = sum(sequence.max_new_tokens for sequence in running)
        self.current = min(1.0, (decoded + RETRACT_STEPS * len(running)) / (most + 1))
