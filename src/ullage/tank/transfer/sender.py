"""The prefill side: listens on the bootstrap port, and gives each decode worker that comes the KV of its room."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from typing import Any, NamedTuple

from .movers import Mover
from .peers import SenderEvents, Slots
from .wire import LINE_BYTES, GoneError, first_of, in_time, line, parse, watch, why

CLAIM_S = 30.0  # request and claim of a room come from one POST each, at the same moment
_REMEMBERED = 4096


class Load(NamedTuple):
    """A prompt that is computed: where its KV is, and the token after it."""

    slots: Slots
    token: int
    cached_tokens: int


class _Entry:
    """A room: the request is known here, or a decode worker has come for it, or both."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.expected: asyncio.Future[None] = loop.create_future()
        self.load: asyncio.Future[Load] = loop.create_future()
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.reason = ""


class TcpSender:
    """The `Sender` of a prefill worker. `start` and `stop` in the event loop, all else from any thread."""

    def __init__(
        self, events: SenderEvents, mover: Mover, layout: list[int], kv_token_bytes: int, claim_s: float = CLAIM_S
    ) -> None:
        self._events = events
        self._mover = mover
        self._layout = layout
        self._token_bytes = kv_token_bytes
        self._claim_s = claim_s
        self._rooms: dict[int, _Entry] = {}
        self._gone: OrderedDict[int, str] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop
        self._server: asyncio.Server

    async def start(self, host: str, port: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._serve, host, port, limit=LINE_BYTES)

    async def stop(self) -> None:
        self._server.close()
        for room in list(self._rooms):
            self._drop(room, "the prefill worker stops")
        await asyncio.sleep(0)
        self._mover.close()

    def expect(self, room: int) -> None:
        self._loop.call_soon_threadsafe(self._expect, room)

    def refuse(self, room: int, why: str) -> None:
        self._loop.call_soon_threadsafe(self._refuse, room, why)

    def send(self, room: int, slots: Slots, token: int, cached_tokens: int) -> None:
        self._loop.call_soon_threadsafe(self._send, room, Load(slots, token, cached_tokens))

    def drop(self, room: int, why: str) -> None:
        self._loop.call_soon_threadsafe(self._drop, room, why)

    def _expect(self, room: int) -> None:
        if room in self._gone:
            self._events.failed(room, self._gone[room])
            return
        entry = self._entry(room)
        entry.expected.set_result(None)
        if entry.task is None:
            why = f"no decode worker came in {self._claim_s:g} s"
            entry.timer = self._loop.call_later(self._claim_s, self._drop, room, why)

    def _refuse(self, room: int, reason: str) -> None:
        """Who is here for it is told at once, who comes later then."""
        entry = self._rooms.get(room)
        self._remember(room, reason)
        if entry is not None:
            entry.reason = reason
            if entry.task is not None:
                entry.task.cancel()

    def _send(self, room: int, load: Load) -> None:
        entry = self._rooms.get(room)
        if entry is not None and not entry.load.done():
            entry.load.set_result(load)

    def _drop(self, room: int, reason: str) -> None:
        entry = self._rooms.get(room)
        if entry is None:
            return
        entry.reason = entry.reason or reason
        if entry.task is not None:
            entry.task.cancel()
        else:
            self._end(room, reason)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        room: int | None = None
        try:
            hello = parse(await in_time(reader.readline(), self._claim_s, "the other worker said nothing"))
            room = int(hello["room"])
            await self._converse(room, hello, reader, writer)
        except (GoneError, OSError, ValueError, KeyError, asyncio.CancelledError) as error:
            entry = self._rooms.get(room) if room is not None else None
            reason = (entry.reason if entry else "") or self._gone.get(room or -1, "") or why(error)
            with contextlib.suppress(OSError):
                writer.write(line(error=reason))
            if entry is not None and entry.task is asyncio.current_task():
                assert room is not None
                self._end(room, reason)
        finally:
            writer.close()

    async def _converse(
        self, room: int, hello: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if room in self._gone:
            raise GoneError(self._gone[room])
        entry = self._entry(room)
        if "declined" in hello:
            entry.reason = str(hello["declined"])
            entry.task = entry.task or asyncio.current_task()
            raise GoneError(entry.reason)
        if entry.task is not None:
            raise GoneError(f"another decode worker has claimed room {room}")
        entry.task = asyncio.current_task()
        if hello["layout"] != self._layout:
            raise GoneError(f"the KV of the two workers differs: {self._layout} here, {hello['layout']} there")
        if hello["transfer"] != self._mover.name:
            raise GoneError(f"prefill transfers by {self._mover.name}, decode by {hello['transfer']}")
        if entry.timer:
            entry.timer.cancel()
        known = in_time(asyncio.shield(entry.expected), self._claim_s, f"no request for room {room} came")
        offer, taken = await _claim(asyncio.ensure_future(known), reader)
        self._events.claimed(room)
        await self._deliver(room, entry, offer, taken, writer)

    async def _deliver(
        self,
        room: int,
        entry: _Entry,
        offer: dict[str, Any],
        taken: asyncio.Task[bytes],
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            load: Load = await first_of(entry.load, taken)
            began = time.monotonic()
            size = len(load.slots) * self._token_bytes
            writer.write(line(token=load.token, cached=load.cached_tokens, bytes=size))
            await self._mover.push(load.slots, offer, writer, taken)
        finally:
            taken.cancel()
        del self._rooms[room]
        self._remember(room, "it was served already")
        self._events.sent(room, size, time.monotonic() - began)

    def _entry(self, room: int) -> _Entry:
        entry = self._rooms.get(room)
        if entry is None:
            entry = self._rooms[room] = _Entry(self._loop)
        return entry

    def _end(self, room: int, reason: str) -> None:
        """The room is over. The loop hears of it only if it had asked for it."""
        entry = self._rooms.pop(room)
        if entry.timer:
            entry.timer.cancel()
        self._remember(room, reason)
        if entry.expected.done():
            self._events.failed(room, reason)

    def _remember(self, room: int, reason: str) -> None:
        self._gone[room] = reason
        while len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)


async def _claim(
    known: asyncio.Future[Any], reader: asyncio.StreamReader
) -> tuple[dict[str, Any], asyncio.Task[bytes]]:
    """PAGES, and the line to come after it. They may come before the request: if decode gives up then, it is heard."""
    pages = watch(reader)
    try:
        await asyncio.wait([known, pages], return_when=asyncio.FIRST_COMPLETED)
        if not pages.done():
            known.result()
        offer = parse(await pages)
        taken = watch(reader)
        await first_of(known, taken)
        return offer, taken
    finally:
        known.cancel()
        pages.cancel()
