"""An aggregated worker: prompts first, as SGLang does it; where none may enter, one token for each that runs."""

from __future__ import annotations

from ..figures import Loads
from ..observer import DecodeBatch, Retracted
from ..request import Finish
from ..sequence import Sequence
from .prefilling import Prefilling
from .retraction import to_retract
from .room import Room


class Unified:
    def __init__(self, room: Room) -> None:
        self._room = room
        self._prompts = Prefilling(room)
        self._running: list[Sequence] = []

    def add(self, sequence: Sequence) -> Finish | None:
        """Lets it wait, or says why not."""
        most = self._room.args.max_queued_requests
        if most is not None and len(self._prompts.waiting) >= most:
            return Finish("abort", message=f"The request queue is full: {most} requests wait.", status=503)
        finish = self._room.refuse(sequence)
        if finish is None:
            self._prompts.waiting.append(sequence)
        return finish

    def abort(self, sequence: Sequence) -> None:
        """Its caller is gone: its pages come back at once."""
        if sequence in self._running:
            self._running.remove(sequence)
        elif not self._prompts.drop(sequence):
            return
        sequence.finish = Finish("abort", message="aborted")
        self._room.end(sequence)

    def step(self) -> bool:
        """One forward pass. False where there is nothing to do."""
        done = self._prompts.run(self._running)
        if done is not None:
            self._running += self._still_running(done)
        elif self._running:
            self._decode()
        else:
            self._room.idle()
            return False
        return True

    def everyone(self) -> list[Sequence]:
        begun = [self._prompts.begun] if self._prompts.begun else []
        return [*self._running, *begun, *self._prompts.waiting]

    def loads(self) -> Loads:
        prompts = self._prompts
        return self._room.loads()._replace(
            running=len(self._running) + (prompts.begun is not None),
            waiting=len(prompts.waiting),
            queued_tokens=sum(s.length for s in prompts.waiting),
            sequence_tokens=sum(s.length for s in self._running),
        )

    def _decode(self) -> None:
        room = self._room
        gone = to_retract(self._running, room.pool, least_left=1)
        if gone:
            self._retract(gone)
        else:
            room.ratio.step()
        for sequence in self._running:
            room.pool.grow(sequence, sequence.length)
        batch = self._running
        room.runner.decode(batch)
        if room.meter.decoded(batch, room.args.decode_log_interval):
            room.observer.decode_batch(self._batch())
        self._running = self._still_running(batch)

    def _retract(self, gone: list[Sequence]) -> None:
        """They go to the end of the queue, and are computed anew when there is room; nothing they said is lost."""
        room = self._room
        for sequence in gone:
            self._running.remove(sequence)
            room.counters.retracted_input_tokens += len(sequence.prompt_ids)
            room.counters.retracted_output_tokens += len(sequence.output_ids)
            room.vacate(sequence, keep=False)
            self._prompts.waiting.append(sequence)
        room.counters.retracted_requests += len(gone)
        before = room.ratio.current
        room.ratio.retracted(self._running)
        room.observer.retracted(Retracted(len(gone), before, room.ratio.current))

    def _still_running(self, sequences: list[Sequence]) -> list[Sequence]:
        for sequence in sequences:
            if sequence.finish is not None:
                self._room.end(sequence)
        return [sequence for sequence in sequences if sequence.finish is None]

    def _batch(self) -> DecodeBatch:
        pool = self._room.pool
        return DecodeBatch(
            running=len(self._running),
            tokens=pool.used_tokens,
            token_usage=pool.used_tokens / pool.size_tokens,
            preallocated_usage=0.0,
            prealloc=0,
            transfer=0,
            retracted=0,
            gen_throughput=self._room.meter.generated_per_s,
            queued=len(self._prompts.waiting),
        )
