"""A decode worker: pages are pre-allocated, KV arrives, and one token after another is generated.

prealloc queue -> transfer queue -> waiting -> running          the retracted resume before anyone else enters
"""

from __future__ import annotations

import time
from collections import deque

from ..figures import Loads
from ..observer import DecodeBatch, Retracted, Transferred
from ..preallocation import Reserve
from ..request import Finish
from ..sequence import Sequence
from ..transfer.peers import Arrived, Receiver
from .backup import Backup
from .room import Room
from .running import Running


class Decode:
    def __init__(self, room: Room, receiver: Receiver) -> None:
        self._room = room
        self._receiver = receiver
        self._reserve = Reserve(room.args.num_reserved_decode_tokens, room.facts.page_size)
        self._prealloc: dict[int, Sequence] = {}
        self._transfer: dict[int, Sequence] = {}
        self._waiting: deque[Sequence] = deque()
        self._running = Running(room, self._set_aside, least_left=0)
        self._retracted: deque[Backup] = deque()

    def add(self, sequence: Sequence) -> Finish | None:
        assert sequence.bootstrap is not None
        host, port, number = sequence.bootstrap
        if number in self._prealloc or number in self._transfer:
            return Finish("abort", message=f"bootstrap room {number} is in use", status=400)
        finish = self._room.refuse(sequence)
        if finish is not None:
            self._receiver.decline(number, host, port, finish.message)
            return finish
        self._prealloc[number] = sequence
        self._receiver.open(number, host, port)
        return None

    def abort(self, sequence: Sequence) -> None:
        """Its caller is gone. Pages that a transfer writes to come back when that has ended."""
        assert sequence.bootstrap is not None
        number = sequence.bootstrap.room
        if sequence in (self._prealloc.get(number), self._transfer.get(number)):
            sequence.dropped = True
            self._receiver.drop(number, "the request was aborted")
            return
        self._running.sequences = [s for s in self._running.sequences if s is not sequence]
        self._waiting = deque(s for s in self._waiting if s is not sequence)
        self._retracted = deque(b for b in self._retracted if b.sequence is not sequence)
        sequence.finish = Finish("abort", message="aborted")
        self._room.end(sequence)

    def step(self) -> bool:
        self._give_up_late_ones()
        self._resume()
        self._preallocate()
        running = self._running.sequences
        while self._waiting and len(running) < self._room.facts.max_running_requests:
            running.append(self._waiting.popleft())
        if not running:
            self._room.idle()
            return False
        self._decode()
        return True

    def opened(self, number: int) -> None:
        """Its prefill worker answers: it may have pages."""
        if number in self._prealloc:
            self._prealloc[number].connected = True

    def arrived(self, number: int, arrived: Arrived) -> None:
        """Its KV is here: what remains is to generate."""
        sequence = self._transfer.pop(number)
        if sequence.dropped:  # its caller left while the last bytes came
            self._room.fail(sequence, "aborted")
            return
        sequence.cached_tokens = arrived.cached_tokens
        sequence.computed = len(sequence.prompt_ids)
        times = sequence.times
        claimed = times.claimed or times.arrived
        self._room.observer.transferred(
            Transferred(arrived.bytes, claimed - times.arrived, claimed - times.arrived, arrived.seconds)
        )
        self._room.runner.accept(sequence, arrived.token)
        if sequence.finish is None:
            self._waiting.append(sequence)
        else:
            self._room.end(sequence)

    def failed(self, number: int, why: str) -> None:
        early, late = self._prealloc.pop(number, None), self._transfer.pop(number, None)
        sequence = early or late
        if sequence is not None:
            self._room.fail_transfer(sequence, number, why, claimed=late is not None)

    def everyone(self) -> list[Sequence]:
        queued = [*self._waiting, *(backup.sequence for backup in self._retracted)]
        return [*self._running.sequences, *queued, *self._transfer.values(), *self._prealloc.values()]

    def loads(self) -> Loads:
        queues = (len(self._prealloc), len(self._transfer), len(self._retracted))
        return self._room.loads()._replace(
            running=len(self._running.sequences),
            waiting=len(self._waiting),
            queued_tokens=sum(s.length for s in [*self._waiting, *self._transfer.values(), *self._prealloc.values()]),
            prealloc_queue=queues[0],
            transfer_queue=queues[1],
            retracted_queue=queues[2],
            pending_prealloc_tokens=sum(len(s.prompt_ids) for s in self._prealloc.values()),
            sequence_tokens=sum(s.length for s in self._running.sequences),
        )

    @property
    def _active(self) -> int:
        return len(self._running.sequences) + len(self._waiting) + len(self._transfer)

    def _preallocate(self) -> None:
        """In the order of arrival, of those whose prefill worker answers; the first that does not fit ends it."""
        room = self._room
        for number, sequence in list(self._prealloc.items()):
            retracted = [backup.sequence for backup in self._retracted]
            free = room.pool.available_tokens
            if not sequence.connected:
                continue
            if not room.table.free:
                return
            if not self._reserve.may_enter(sequence, free, self._running.sequences, self._active, retracted):
                return
            del self._prealloc[number]
            room.table.take(sequence)
            room.pool.grow(sequence, len(sequence.prompt_ids))
            sequence.times.claimed = time.monotonic()
            self._transfer[number] = sequence
            self._receiver.claim(number, room.pool.slots(sequence, 0, len(sequence.prompt_ids)))

    def _resume(self) -> None:
        room = self._room
        while self._retracted and room.table.free:
            backup = self._retracted[0]
            if not self._reserve.may_resume(backup.sequence, room.pool.available_tokens, self._active):
                return
            self._retracted.popleft()
            room.table.take(backup.sequence)
            backup.restore(room.pool)
            self._waiting.appendleft(backup.sequence)

    def _decode(self) -> None:
        room = self._room
        if gone := self._running.retract():
            room.observer.retracted(Retracted(gone, room.ratio.current, room.ratio.current))
        self._running.step(self._line)

    def _set_aside(self, sequence: Sequence) -> None:
        """Its KV is kept in the host's memory, as SGLang does it on this role: nothing is computed twice."""
        self._retracted.append(Backup(sequence, self._room.pool))
        self._room.vacate(sequence, keep=False)

    def _give_up_late_ones(self) -> None:
        now, args = time.monotonic(), self._room.args
        for number, sequence in self._prealloc.items():
            if now - sequence.times.arrived > args.bootstrap_timeout_s:
                self._receiver.drop(number, f"no pages were free within {args.bootstrap_timeout_s:g} s")
        for number, sequence in self._transfer.items():
            if now - (sequence.times.claimed or now) > args.waiting_timeout_s:
                self._receiver.drop(number, f"its KV did not arrive within {args.waiting_timeout_s:g} s")

    def _line(self) -> DecodeBatch:
        pool = self._room.pool
        held = sum(len(s.pages) for s in [*self._transfer.values(), *self._waiting]) * pool.page_size
        return self._running.line(len(self._waiting))._replace(
            preallocated_usage=held / pool.size_tokens,
            prealloc=len(self._prealloc),
            transfer=len(self._transfer),
            retracted=len(self._retracted),
        )
