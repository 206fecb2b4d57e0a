"""The decode side: one connection to a prefill worker for each request, from its arrival until its KV is here."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from .movers import Mover
from .peers import Arrived, ReceiverEvents, Slots
from .wire import LINE_BYTES, first_of, in_time, line, parse, watch, why

CONNECT_S = 10.0


class _Entry:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.slots: asyncio.Future[Slots] = loop.create_future()
        self.task: asyncio.Task[Arrived] | None = None
        self.reason = ""


class TcpReceiver:
    """The `Receiver` of a decode worker. `start` and `stop` in the event loop, all else from any thread."""

    def __init__(self, events: ReceiverEvents, mover: Mover, layout: list[int]) -> None:
        self._events = events
        self._mover = mover
        self._layout = layout
        self._rooms: dict[int, _Entry] = {}
        self._declining: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def stop(self) -> None:
        tasks = [entry.task for entry in self._rooms.values() if entry.task]
        for room in list(self._rooms):
            self._drop(room, "the decode worker stops")
        await asyncio.gather(*tasks, *self._declining, return_exceptions=True)
        await asyncio.sleep(0)
        self._mover.close()

    def open(self, room: int, host: str, port: int) -> None:
        self._loop.call_soon_threadsafe(self._open, room, host, port)

    def claim(self, room: int, slots: Slots) -> None:
        self._loop.call_soon_threadsafe(self._claim, room, slots)

    def drop(self, room: int, why: str) -> None:
        self._loop.call_soon_threadsafe(self._drop, room, why)

    def decline(self, room: int, host: str, port: int, why: str) -> None:
        self._loop.call_soon_threadsafe(self._decline, room, host, port, why)

    def _open(self, room: int, host: str, port: int) -> None:
        entry = self._rooms[room] = _Entry(self._loop)
        entry.task = asyncio.create_task(self._receive(room, entry, host, port))
        entry.task.add_done_callback(lambda task: self._over(room, entry, f"{host}:{port}", task))

    def _claim(self, room: int, slots: Slots) -> None:
        entry = self._rooms.get(room)
        if entry is not None and not entry.slots.done():
            entry.slots.set_result(slots)

    def _drop(self, room: int, reason: str) -> None:
        entry = self._rooms.get(room)
        if entry is not None and entry.task is not None:
            entry.reason = entry.reason or reason
            entry.task.cancel()

    def _over(self, room: int, entry: _Entry, peer: str, task: asyncio.Task[Arrived]) -> None:
        """Whatever happened, the loop is told once, and nothing is written to the slots after that."""
        del self._rooms[room]
        if task.cancelled():
            self._events.failed(room, entry.reason or "it was given up")
        elif (error := task.exception()) is not None:
            self._events.failed(room, f"{why(error)} ({peer})")
        else:
            self._events.arrived(room, task.result())

    async def _receive(self, room: int, entry: _Entry, host: str, port: int) -> Arrived:
        connect = asyncio.open_connection(host, port, limit=LINE_BYTES)
        reader, writer = await in_time(connect, CONNECT_S, "the prefill worker does not answer")
        first = watch(reader)
        self._events.opened(room)
        try:
            writer.write(line(room=room, layout=self._layout, transfer=self._mover.name))
            slots: Slots = await first_of(entry.slots, first)
            writer.write(line(**self._mover.offer(slots)))
            return await self._take(slots, first, reader, writer)
        finally:
            first.cancel()
            writer.close()

    async def _take(
        self, slots: Slots, first: asyncio.Task[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Arrived:
        try:
            fields: dict[str, Any] = parse(await first)
            began = time.monotonic()
            await self._mover.pull(slots, reader, writer)
        except BaseException:
            first.cancel()
            await self._mover.reclaim(reader, writer)
            raise
        return Arrived(int(fields["token"]), int(fields["cached"]), int(fields["bytes"]), time.monotonic() - began)

    def _decline(self, room: int, host: str, port: int, reason: str) -> None:
        task = asyncio.create_task(self._say_no(room, host, port, reason))
        self._declining.add(task)
        task.add_done_callback(self._declining.discard)

    async def _say_no(self, room: int, host: str, port: int, reason: str) -> None:
        """If prefill cannot be reached, it has nothing to wait for either."""
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_S)
            writer.write(line(room=room, declined=reason))
            await writer.drain()
            writer.close()
        except (OSError, ValueError, asyncio.TimeoutError):  # ValueError: a host name that can be none
            return
