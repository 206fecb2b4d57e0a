"""KV by NIXL: decode reads it out of prefill's memory. What is said still goes through the connection.

    decode                                     prefill
                                       <-      SOURCE {"agent", "metadata", "address", "slots", "runs"}
    OK                                 ->      when it has read
                                       <-      HELD {"held"}

It is decode that reads, not prefill that writes: so no write of another process can come into slots that have been
given to someone else. HELD: prefill had kept its pages until the OK, so what was read is what was meant.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .movers import Kv
from .nixl_agent import Agent, Source, Spans
from .peers import Slots
from .wire import GoneError, first_of, line, parse, watch

POLL_S = 0.001  # of all that is under way together
GRACE_S = 3.0  # for a read that nobody wants any more


class NixlMover:
    name = "nixl"

    def __init__(self, kv: Kv) -> None:
        self._kv = kv
        self._agent = Agent(kv)
        self._under_way = 0
        self._helps_until = 0.0
        self._helping: asyncio.Task[None] | None = None

    async def push(self, slots: Slots, writer: asyncio.StreamWriter, taken: asyncio.Task[bytes]) -> None:
        runs = [[int(run[0]), len(run)] for run in np.split(slots, breaks(slots))]
        writer.write(line(**self._agent.me._asdict(), runs=runs))
        try:
            with self._counted():
                while not taken.done():
                    await self._agent.call(self._agent.progress)
                    await asyncio.wait([taken], timeout=POLL_S * self._under_way)
        except asyncio.CancelledError:
            self._help_on()
            raise
        parse(taken.result())
        writer.write(line(held=True))

    async def pull(self, slots: Slots, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fields = parse(await reader.readline())
        held = watch(reader)
        read = asyncio.create_task(self._read(slots, fields))
        read.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await first_of(read, held)
            writer.write(line(ok=True))
            parse(await held)
        finally:
            held.cancel()
            if not read.done():
                await self._until_over(read)

    def close(self) -> None:
        if self._helping is not None:
            self._helping.cancel()
        self._agent.close()

    def _help_on(self) -> None:
        """Decode cannot stop a read, and one that moves by TCP needs prefill to come to its end."""
        self._helps_until = time.monotonic() + GRACE_S
        if self._helping is None or self._helping.done():
            self._helping = asyncio.create_task(self._help())

    async def _help(self) -> None:
        while time.monotonic() < self._helps_until:
            await self._agent.call(self._agent.progress)
            await asyncio.sleep(POLL_S)

    async def _read(self, slots: Slots, fields: dict[str, Any]) -> None:
        theirs = np.concatenate([np.arange(start, start + count) for start, count in fields.pop("runs")])
        source = Source(**fields)
        if len(theirs) != len(slots):
            raise GoneError(f"prefill has {len(theirs)} tokens, decode has room for {len(slots)}")
        here, there = self._spans(slots, theirs, source)
        with self._counted():
            number = await self._agent.call(self._agent.read, source, here, there)
            while not await self._agent.call(self._agent.is_read, number):
                await asyncio.sleep(POLL_S * self._under_way)

    async def _until_over(self, read: asyncio.Task[None]) -> None:
        """However often it is cancelled meanwhile: the slots are not free before."""
        over = asyncio.create_task(self._end(read))
        while not over.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(over)

    async def _end(self, read: asyncio.Task[None]) -> None:
        await asyncio.wait([read], timeout=GRACE_S)
        if not read.done():
            await self._agent.call(self._agent.cut_off)
            await asyncio.wait([read])

    def _spans(self, ours: Slots, theirs: Slots, source: Source) -> tuple[Spans, Spans]:
        """What is in one piece on both sides, for K and V of each layer."""
        starts = np.concatenate([[0], breaks(ours, theirs)])
        counts = np.diff(starts, append=len(ours))
        mine = self._agent.me
        return (
            self._in_planes(ours[starts], counts, mine.address, mine.slots),
            self._in_planes(theirs[starts], counts, source.address, source.slots),
        )

    def _in_planes(self, slots: Slots, counts: Slots, address: int, pool_slots: int) -> Spans:
        layers, kinds, _, *head = self._kv.shape
        slot_bytes = int(np.prod(head)) * self._kv.itemsize
        first = (np.arange(layers * kinds)[:, None] * pool_slots + slots).ravel()
        spans = np.zeros((len(first), 3), dtype=np.uint64)
        spans[:, 0] = np.uint64(address) + (first * slot_bytes).astype(np.uint64)
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
