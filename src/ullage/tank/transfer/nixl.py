"""KV by NIXL: prefill writes it into decode's memory. What is said still goes through the connection.

    decode                                     prefill
    PAGES  {"tokens", "agent", "metadata", "address", "slots", "runs"}
                                       <-      WRITTEN {"written"}, after FIRST, when it is
    OK                                 ->

Decode's slots are written to by another process: so they are not free before that process has closed the connection,
which it does only when its write has ended. Prefill writes and decode does not read, since UCX can take down the
process that is read from by software (as over TCP) when the one that reads is killed; of one that writes it survives
the death.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .movers import Kv
from .nixl_agent import Agent, Pool, Spans
from .peers import Slots
from .wire import GoneError, first_of, line, parse, watch

POLL_S = 0.001  # of all that is under way together
GRACE_S = 3.0  # for a write that nobody wants any more


class NixlMover:
    name = "nixl"

    def __init__(self, kv: Kv) -> None:
        self._kv = kv
        self._agent = Agent(kv)
        self._under_way = 0

    def offer(self, slots: Slots) -> dict[str, Any]:
        runs = [[int(run[0]), len(run)] for run in np.split(slots, breaks(slots))]
        return {"tokens": len(slots), **self._agent.me._asdict(), "runs": runs}

    async def push(
        self, slots: Slots, offer: dict[str, Any], writer: asyncio.StreamWriter, taken: asyncio.Task[bytes]
    ) -> None:
        write = asyncio.create_task(self._write(slots, *_told(offer)))
        write.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await first_of(write, taken)
            writer.write(line(written=True))
            parse(await taken)
        finally:
            if not write.done():
                await _whatever_comes(self._ended(write))

    async def pull(self, _slots: Slots, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        written = watch(reader)
        try:
            await self._progress_until(written)
        finally:
            written.cancel()
        parse(written.result())
        writer.write(line(ok=True))
        await writer.drain()

    async def reclaim(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(line(error="decode gave up"))
        await _whatever_comes(self._closed(reader))

    def close(self) -> None:
        self._agent.close()

    async def _write(self, slots: Slots, theirs: Slots, target: Pool) -> None:
        if len(theirs) != len(slots):
            raise GoneError(f"prefill has {len(slots)} tokens, decode has room for {len(theirs)}")
        with self._counted():
            number = await self._agent.call(self._agent.write, target, *self._spans(slots, theirs, target))
            while not await self._agent.call(self._agent.is_written, number):
                await asyncio.sleep(POLL_S * self._under_way)

    async def _progress_until(self, over: asyncio.Task[bytes], seconds: float = float("inf")) -> None:
        """A write that comes by TCP needs help here."""
        until = asyncio.get_running_loop().time() + seconds
        with self._counted():
            while not over.done() and asyncio.get_running_loop().time() < until:
                await self._agent.call(self._agent.progress)
                await asyncio.wait([over], timeout=POLL_S * self._under_way)

    async def _ended(self, write: asyncio.Task[None]) -> None:
        await asyncio.wait([write], timeout=GRACE_S)
        if not write.done():
            await self._agent.call(self._agent.cut_off)
            await asyncio.wait([write])

    async def _closed(self, reader: asyncio.StreamReader) -> None:
        closed = asyncio.create_task(reader.read())
        closed.add_done_callback(lambda done: done.cancelled() or done.exception())
        await self._progress_until(closed, GRACE_S)
        if not closed.done():
            closed.cancel()
            await self._agent.call(self._agent.cut_off)

    def _spans(self, ours: Slots, theirs: Slots, target: Pool) -> tuple[Spans, Spans]:
        """What is in one piece on both sides, for K and V of each layer."""
        starts = np.concatenate([[0], breaks(ours, theirs)])
        counts = np.diff(starts, append=len(ours))
        here = self._in_planes(ours[starts], counts, self._agent.me)
        return here, self._in_planes(theirs[starts], counts, target)

    def _in_planes(self, slots: Slots, counts: Slots, pool: Pool) -> Spans:
        layers, kinds, _, *head = self._kv.shape
        slot_bytes = int(np.prod(head)) * self._kv.itemsize
        first = (np.arange(layers * kinds)[:, None] * pool.slots + slots).ravel()
        spans = np.zeros((len(first), 3), dtype=np.uint64)
        spans[:, 0] = np.uint64(pool.address) + (first * slot_bytes).astype(np.uint64)
        spans[:, 1] = np.tile(counts * slot_bytes, layers * kinds)
        return spans

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1


def breaks(*slots: Slots) -> NDArray[np.int64]:
    """Where, in any of these lists, a slot does not follow the one before."""
    return np.flatnonzero(np.any([np.diff(each) != 1 for each in slots], axis=0)) + 1


def _told(offer: dict[str, Any]) -> tuple[Slots, Pool]:
    try:
        slots = np.concatenate([np.arange(start, start + count) for start, count in offer["runs"]])
        return slots, Pool(*(offer[field] for field in Pool._fields))
    except (KeyError, TypeError, ValueError):
        raise GoneError("decode does not say where its slots are") from None


async def _whatever_comes(what: Coroutine[Any, Any, None]) -> None:
    """To its end, however often it is cancelled meanwhile."""
    task = asyncio.create_task(what)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
