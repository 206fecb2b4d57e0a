"""A worker's engine: one thread that runs the loop of its role, and the door to it for the event loop.

Everything that changes the state of the loop happens in its thread: what others want done is put into its inbox.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable
from collections.abc import Sequence as Listed
from typing import Any, Protocol

from .config import ServerArgs
from .figures import Counters, EngineFacts, Loads
from .memory import size_memory
from .model.load import Loaded
from .model.tokenizer import Detokenizer
from .observer import Observer, Silent
from .request import Bootstrap, Finish, Output, RefusedError, Sampling
from .roles import Links, role_of
from .scheduler.room import Room
from .sequence import Sequence
from .text import TextStream

_IDLE_S = 0.25  # how often a loop with nothing to run looks for what has come too late


class Loop(Protocol):
    """The loop of one role."""

    def add(self, sequence: Sequence) -> Finish | None: ...
    def abort(self, sequence: Sequence) -> None: ...
    def step(self) -> bool: ...
    def everyone(self) -> list[Sequence]: ...
    def loads(self) -> Loads: ...


class Engine:
    """`facts` hold from the start on. `loads()` and `counters` may be read from any thread."""

    def __init__(self, args: ServerArgs, loaded: Loaded) -> None:
        self.args = args
        self.loaded = loaded
        self.facts: EngineFacts = size_memory(args, loaded.config, loaded.weight_bytes)
        self.observer: Observer = Silent()
        self.failure: BaseException | None = None
        self.turned_at = time.monotonic()
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._outbox: list[tuple[asyncio.Queue[Output], Output]] = []
        self._stopping = False
        self._closed = False
        self._loads = Loads()

    @property
    def counters(self) -> Counters:
        return self._room.counters

    def loads(self) -> Loads:
        return self._loads

    async def start(self) -> None:
        """In the event loop that requests will come from."""
        self._events = asyncio.get_running_loop()
        self._room = Room(self.args, self.facts, self.loaded, self.observer)
        self._links = Links(self._post, self._room)
        await self._links.start(self.args)
        self._loop: Loop = role_of(self._room, self._links)
        self._loads = self._loop.loads()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Ends what runs with an error, then the thread."""
        self._post(self._end_all)
        await self._links.stop()
        self._post(self._stop)
        await asyncio.to_thread(self._thread.join)

    async def generate(
        self, prompt_ids: Listed[int], sampling: Sampling, bootstrap: Bootstrap | None = None
    ) -> AsyncGenerator[Output, None]:
        """What each step adds, until an output has `finish`. Closing it aborts the request. Raises RefusedError."""
        outputs: asyncio.Queue[Output] = asyncio.Queue()
        sequence = self._sequence(prompt_ids, sampling, bootstrap, outputs)
        self._post(self._add, sequence)
        finished = False
        try:
            while not finished:
                output = await outputs.get()
                finished = output.finish is not None
                if finished and not sequence.admitted:
                    assert output.finish is not None
                    raise RefusedError(output.finish.message, output.finish.status)
                yield output
        finally:
            if not finished:
                self._post(self._abort, sequence)

    async def flush_cache(self) -> bool:
        """Forgets cached prefixes. False, and nothing is done, while requests are here."""
        answer: asyncio.Future[bool] = self._events.create_future()
        self._post(self._flush, answer)
        return await answer

    def _sequence(
        self, prompt_ids: Listed[int], sampling: Sampling, bootstrap: Bootstrap | None, outputs: asyncio.Queue[Output]
    ) -> Sequence:
        if (bootstrap is None) != (self.facts.role == "unified"):
            wanted = "no bootstrap room" if bootstrap else "bootstrap_host, bootstrap_port and bootstrap_room"
            raise RefusedError(f"this is a {self.facts.role} worker: it takes requests with {wanted}", 400)
        text = TextStream(Detokenizer(self.loaded.tokenizer), sampling.stop)
        return Sequence(
            list(prompt_ids), sampling, bootstrap, text, lambda output: self._outbox.append((outputs, output))
        )

    def _post(self, what: Callable[..., object], *args: Any) -> None:
        self._inbox.put(lambda: what(*args))
        if self._closed:  # the thread will not see it any more
            self._close()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except BaseException as error:  # nobody is served any more: whoever waits is told, and /health says so
            self.failure = error
            for sequence in self._loop.everyone():
                sequence.finish = Finish("abort", message=f"the engine failed: {error}", status=500)
                sequence.tell_now(withheld=False)
                sequence.tell((), "")
            raise
        finally:
            self._closed = True
            self._close()

    def _close(self) -> None:
        """What comes after the end is answered, not done."""
        self._read(wait=False)
        self._deliver()

    def _turn(self) -> None:
        worked = self._loop.step()
        self._deliver()
        self._read(wait=not worked)
        self._deliver()
        self._loads = self._loop.loads()
        self.turned_at = time.monotonic()

    def _read(self, *, wait: bool) -> None:
        """Does what others want done. With nothing to run it waits for that, for a while."""
        try:
            what = self._inbox.get(timeout=_IDLE_S) if wait else self._inbox.get_nowait()
            while True:
                what()
                what = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _deliver(self) -> None:
        """All outputs of a step at once: one call into the event loop."""
        if self._outbox:
            outputs, self._outbox = self._outbox, []
            self._events.call_soon_threadsafe(_hand_over, outputs)

    def _add(self, sequence: Sequence) -> None:
        over = Finish("abort", message="the engine has stopped", status=503)
        sequence.finish = over if self._closed else self._loop.add(sequence)
        sequence.admitted = sequence.finish is None
        if sequence.finish is not None:
            sequence.tell((), "")

    def _abort(self, sequence: Sequence) -> None:
        if not self._closed and any(each is sequence for each in self._loop.everyone()):
            self._loop.abort(sequence)

    def _flush(self, answer: asyncio.Future[bool]) -> None:
        idle = not self._closed and not self._loop.everyone()
        if idle:
            self._room.pool.flush()
        self._events.call_soon_threadsafe(answer.set_result, idle)

    def _end_all(self) -> None:
        for sequence in self._loop.everyone():
            self._loop.abort(sequence)
            if sequence.finish is not None:  # of those in a transfer its end tells
                sequence.finish = Finish("abort", message="the worker is stopping", status=503)
                sequence.tell((), "")

    def _stop(self) -> None:
        self._stopping = True


def _hand_over(outputs: list[tuple[asyncio.Queue[Output], Output]]) -> None:
    for queue_of, output in outputs:
        queue_of.put_nowait(output)
