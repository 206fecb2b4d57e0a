"""An aggregated worker: prompts first, as SGLang does it; where none may enter, one token for each that runs."""

from __future__ import annotations

from ..figures import Loads
from ..observer import Retracted
from ..request import Finish
from ..sequence import Sequence
from .prefilling import Prefilling
from .room import Room
from .running import Running


class Unified:
    def __init__(self, room: Room) -> None:
        self._room = room
        self._prompts = Prefilling(room)
        self._running = Running(room, self._set_aside, least_left=1)

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
        if sequence in self._running.sequences:
            self._running.sequences.remove(sequence)
        elif not self._prompts.drop(sequence):
            return
        sequence.finish = Finish("abort", message="aborted")
        self._room.end(sequence)

    def step(self) -> bool:
        """One forward pass. False where there is nothing to do."""
        done = self._prompts.run(self._running.sequences)
        if done is not None:
            self._running.join(done)
        elif self._running.sequences:
            self._decode()
        else:
            self._room.idle()
            return False
        return True

    def everyone(self) -> list[Sequence]:
        begun = [self._prompts.begun] if self._prompts.begun else []
        return [*self._running.sequences, *begun, *self._prompts.waiting]

    def loads(self) -> Loads:
        prompts = self._prompts
        return self._room.loads()._replace(
            running=len(self._running.sequences) + (prompts.begun is not None),
            waiting=len(prompts.waiting),
            queued_tokens=sum(s.length for s in prompts.waiting),
            sequence_tokens=sum(s.length for s in self._running.sequences),
        )

    def _decode(self) -> None:
        room, running = self._room, self._running
        if gone := running.retract():
            before = room.ratio.current
            room.ratio.retracted(running.sequences)
            room.observer.retracted(Retracted(gone, before, room.ratio.current))
        else:
            room.ratio.step()
        running.step(lambda: running.line(len(self._prompts.waiting)))

    def _set_aside(self, sequence: Sequence) -> None:
        """To the end of the queue: it is computed anew when there is room, and nothing it said is lost."""
        self._room.vacate(sequence, keep=False)
        self._prompts.waiting.append(sequence)
