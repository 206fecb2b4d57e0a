"""A prefill worker: a request waits until decode has pre-allocated its pages, is computed, and holds its KV until that
has been sent.
"""

from __future__ import annotations

import time

from ..figures import Loads
from ..observer import Transferred
from ..request import Finish
from ..sequence import Sequence
from ..transfer.peers import Sender
from .prefilling import Prefilling
from .room import Room


class Prefill:
    def __init__(self, room: Room, sender: Sender) -> None:
        self._room = room
        self._sender = sender
        self._prompts = Prefilling(room)
        self._bootstrap: dict[int, Sequence] = {}
        self._inflight: dict[int, Sequence] = {}

    def add(self, sequence: Sequence) -> Finish | None:
        assert sequence.bootstrap is not None
        number = sequence.bootstrap.room
        if self._find(number) is not None:
            return Finish("abort", message=f"bootstrap room {number} is in use", status=400)
        finish = self._room.refuse(sequence)
        if finish is not None:
            self._sender.refuse(number, finish.message)
            return finish
        sequence.max_new_tokens = 1
        sequence.tell_later()
        self._bootstrap[number] = sequence
        self._sender.expect(number)
        return None

    def abort(self, sequence: Sequence) -> None:
        """Its caller is gone. What the transfer holds comes back when that has ended."""
        assert sequence.bootstrap is not None
        sequence.dropped = True
        self._sender.drop(sequence.bootstrap.room, "the request was aborted")

    def step(self) -> bool:
        self._give_up_late_ones()
        done = self._prompts.run([], len(self._bootstrap), len(self._inflight))
        for sequence in done or []:
            self._send(sequence)
        if done is None:
            self._room.idle()
        return done is not None

    def claimed(self, number: int) -> None:
        """Decode has the pages: it may be computed."""
        sequence = self._bootstrap.pop(number, None)
        if sequence is not None:
            sequence.times.claimed = time.monotonic()
            self._prompts.waiting.append(sequence)

    def sent(self, number: int, bytes: int, seconds: float) -> None:
        sequence = self._inflight.pop(number)
        times = sequence.times
        assert times.claimed is not None
        self._room.observer.transferred(Transferred(bytes, times.claimed - times.arrived, 0.0, seconds))
        sequence.tell_now()
        self._room.end(sequence)

    def failed(self, number: int, why: str) -> None:
        """Wherever it stands, it ends here."""
        sequence = self._find(number)
        if sequence is None:
            return
        early = self._bootstrap.pop(number, None) is not None
        self._inflight.pop(number, None)
        self._prompts.drop(sequence)
        sequence.tell_now(withheld=False)
        self._room.fail_transfer(sequence, number, why, claimed=not early)

    def everyone(self) -> list[Sequence]:
        begun = [self._prompts.begun] if self._prompts.begun else []
        return [*begun, *self._prompts.waiting, *self._bootstrap.values(), *self._inflight.values()]

    def loads(self) -> Loads:
        prompts = self._prompts
        return self._room.loads()._replace(
            running=int(prompts.begun is not None),
            waiting=len(prompts.waiting),
            queued_tokens=sum(s.length for s in prompts.waiting),
            bootstrap_queue=len(self._bootstrap),
            inflight_queue=len(self._inflight),
            sequence_tokens=sum(s.length for s in self._inflight.values()),
        )

    def _send(self, sequence: Sequence) -> None:
        assert sequence.bootstrap is not None
        number = sequence.bootstrap.room
        sequence.times.sending = time.monotonic()
        self._inflight[number] = sequence
        slots = self._room.pool.slots(sequence, 0, len(sequence.prompt_ids))
        self._sender.send(number, slots, sequence.output_ids[0], sequence.cached_tokens)

    def _find(self, number: int) -> Sequence | None:
        return next((s for s in self.everyone() if s.bootstrap is not None and s.bootstrap.room == number), None)

    def _give_up_late_ones(self) -> None:
        now, args = time.monotonic(), self._room.args
        for number, sequence in self._bootstrap.items():
            if now - sequence.times.arrived > args.bootstrap_timeout_s:
                self._sender.drop(number, f"decode did not claim it within {args.bootstrap_timeout_s:g} s")
        for number, sequence in self._inflight.items():
            if now - (sequence.times.sending or now) > args.waiting_timeout_s:
                self._sender.drop(number, f"its KV was not taken within {args.waiting_timeout_s:g} s")
