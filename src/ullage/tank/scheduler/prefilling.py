"""One pass over prompts, for the roles that compute them: the chunk that was begun, then those who wait."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from ..admission import PrefillPass
from ..observer import PrefillBatch
from ..sequence import Piece, Sequence
from .room import Room


class Prefilling:
    """Holds who waits for a forward pass, and the one whose prompt is in the middle of its chunks."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.waiting: deque[Sequence] = deque()
        self.begun: Sequence | None = None

    def run(self, running: Iterable[Sequence], bootstrap: int = 0, inflight: int = 0) -> list[Sequence] | None:
        """Computes what may enter now, and returns those whose prompt is complete and got a token; None where nothing
        may enter.
        """
        running = list(running)
        pieces, entered = self._choose(running)
        if not pieces:
            return None
        cached = sum(sequence.computed for sequence in entered)
        self._room.meter.prefilled(pieces, cached)
        batch = self._batch(pieces, len(entered), cached, len(running))._replace(bootstrap=bootstrap, inflight=inflight)
        done = self._room.runner.prefill(pieces)
        for sequence, _ in pieces:
            self._room.pool.publish(sequence)
        self._room.observer.prefill_batch(batch)
        return done

    def drop(self, sequence: Sequence) -> bool:
        """Takes out one that waits or is in the middle of its chunks."""
        if sequence is self.begun:
            self.begun = None
            return True
        if sequence in self.waiting:
            self.waiting.remove(sequence)
            return True
        return False

    @property
    def pending_tokens(self) -> int:
        begun = self.begun.uncomputed if self.begun else 0
        return begun + sum(sequence.uncomputed for sequence in self.waiting)

    def _choose(self, running: list[Sequence]) -> tuple[list[Piece], list[Sequence]]:
        args = self._room.args
        chosen = PrefillPass(
            self._room.pool, running, self._room.ratio.current, args.chunked_prefill_size, args.max_prefill_tokens
        )
        entered: list[Sequence] = []
        if self.begun is not None:
            chosen.go_on(self.begun)
        while self.waiting and self._room.table.free and chosen.enter(self.waiting[0]):
            sequence = self.waiting.popleft()
            self._room.table.take(sequence)
            sequence.times.forwarded = sequence.times.forwarded or time.monotonic()
            entered.append(sequence)
        self.begun = chosen.unfinished
        return chosen.pieces, entered

    def _batch(self, pieces: list[Piece], entered: int, cached: int, running: int) -> PrefillBatch:
        pool = self._room.pool
        return PrefillBatch(
            new_seqs=entered,
            new_tokens=sum(piece.tokens for piece in pieces),
            cached_tokens=cached,
            token_usage=pool.used_tokens / pool.size_tokens,
            running=running,
            queued=len(self.waiting),
            pending_tokens=self.pending_tokens,
            bootstrap=0,
            inflight=0,
            input_throughput=self._room.meter.prompt_per_s,
        )
