"""Who may enter on an aggregated or prefill worker: SGLang's test at the door (managers/schedule_policy.py, 00550cd1).

A candidate is let in when its uncached prompt, its output (clipped) and a page are less than what remains:

    remaining = available + evictable - charged in this pass
        - sum over running of ratio * min(max_new - generated, clip)

The candidate is charged in full, the running ones at a ratio that moves. The first that cannot enter ends the pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from .kv_pool import KvPool
from .pages import ceil_page
from .sequence import Piece, Sequence


class PrefillPass:
    """One pass over those who wait. `chunk_tokens`: prompt tokens in one forward pass. `input_tokens`: of a pass."""

    def __init__(
        self, pool: KvPool, running: Iterable[Sequence], ratio: float, chunk_tokens: int, input_tokens: int
    ) -> None:
        self._pool = pool
        self._kept_back = sum(ratio * sequence.future for sequence in running)
        self._chunk = chunk_tokens
        self._input = input_tokens
        self.pieces: list[Piece] = []

    @property
    def remaining(self) -> float:
        return self._pool.room_tokens - self._kept_back

    @property
    def unfinished(self) -> Sequence | None:
        """The one whose prompt did not fit into this pass as a whole."""
        last = self.pieces[-1] if self.pieces else None
        return last.sequence if last and last.tokens < last.sequence.uncomputed else None

    def go_on(self, sequence: Sequence) -> None:
        """The next chunk of a prompt that was begun before."""
        self._add(sequence, min(sequence.uncomputed, self._chunk))

    def enter(self, sequence: Sequence) -> bool:
        """Lets it in with its pages, or leaves it as it is."""
        if self._chunk <= 0:
            return False
        self._pool.begin(sequence)
        count = self._fits(sequence)
        if not count:
            self._pool.release(sequence, keep=False)
            return False
        self._add(sequence, count)
        return True

    def _fits(self, sequence: Sequence) -> int:
        """Tokens of it that this pass computes, 0 if it may not enter."""
        uncached = sequence.uncomputed
        if uncached + sequence.future + self._pool.page_size >= self.remaining:
            return 0
        if self.pieces and uncached >= self._input:
            return 0
        if uncached <= self._chunk:
            return uncached
        return self._chunk // self._pool.page_size * self._pool.page_size

    def _add(self, sequence: Sequence, count: int) -> None:
        """Charges it: its pages now, and its output is kept back for this pass unless its prompt goes on."""
        whole = count == sequence.uncomputed
        self._pool.grow(sequence, sequence.computed + count)
        self._kept_back += (sequence.future if whole else 0) + self._pool.page_size
        self._chunk = self._chunk - ceil_page(count, self._pool.page_size) if whole else 0
        self._input -= ceil_page(count, self._pool.page_size)
        self.pieces.append(Piece(sequence, count))
