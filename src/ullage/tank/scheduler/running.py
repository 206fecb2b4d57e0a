"""The requests that generate: a token for each in every step, once there is room for it."""

from __future__ import annotations

from collections.abc import Callable

from ..observer import DecodeBatch
from ..sequence import Sequence
from .retraction import to_retract
from .room import Room


class Running:
    """`set_aside` takes care of one that has to go; `least_left` stay whatever happens."""

    def __init__(self, room: Room, set_aside: Callable[[Sequence], None], least_left: int) -> None:
        self._room = room
        self._set_aside = set_aside
        self._least_left = least_left
        self.sequences: list[Sequence] = []

    def join(self, sequences: list[Sequence]) -> None:
        """Those that have not ended with the token they just got."""
        for sequence in sequences:
            if sequence.finish is None:
                self.sequences.append(sequence)
            else:
                self._room.end(sequence)

    def retract(self) -> int:
        """Makes room for the next token of those that stay. How many had to go."""
        gone = to_retract(self.sequences, self._room.pool, self._least_left)
        counters = self._room.counters
        for sequence in gone:
            self.sequences.remove(sequence)
            counters.retracted_input_tokens += len(sequence.prompt_ids)
            counters.retracted_output_tokens += len(sequence.output_ids)
            self._set_aside(sequence)
        counters.retracted_requests += len(gone)
        return len(gone)

    def step(self, line: Callable[[], DecodeBatch]) -> None:
        """One token more for each. `line` says how things are, where it is time for that."""
        room, batch = self._room, self.sequences
        if not batch:
            return
        for sequence in batch:
            room.pool.grow(sequence, sequence.length)
        room.runner.decode(batch)
        if room.meter.decoded(batch, room.args.decode_log_interval):
            room.observer.decode_batch(line())
        self.sequences = []
        self.join(batch)

    def line(self, queued: int) -> DecodeBatch:
        """What SGLang's decode line says on every role."""
        pool = self._room.pool
        return DecodeBatch(
            running=len(self.sequences),
            tokens=pool.used_tokens,
            token_usage=pool.used_tokens / pool.size_tokens,
            preallocated_usage=0.0,
            prealloc=0,
            transfer=0,
            retracted=0,
            gen_throughput=self._room.meter.generated_per_s,
            queued=queued,
        )
