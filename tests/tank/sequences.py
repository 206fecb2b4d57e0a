"""Sequences that need no model."""

from __future__ import annotations

from collections.abc import Sequence as Listed

from ullage.tank.request import Output, Sampling
from ullage.tank.sequence import Sequence
from ullage.tank.text import TextStream


class Numbers:
    """A detokenizer whose text is the number of the token."""

    def add(self, token_id: int) -> str:
        return f"{token_id} "

    def flush(self) -> str:
        return ""


def sequence(prompt: Listed[int], max_new: int = 16, told: list[Output] | None = None) -> Sequence:
    sink = ([] if told is None else told).append
    made = Sequence(list(prompt), Sampling(max_new), None, TextStream(Numbers()), sink)
    made.max_new_tokens = max_new
    return made
