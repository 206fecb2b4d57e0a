"""KV over real sockets: what arrives is what was sent, and whoever gives up, both sides hear of it, once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.tank.transfer.movers import TcpMover
from ullage.tank.transfer.peers import Arrived
from ullage.tank.transfer.receiver import TcpReceiver
from ullage.tank.transfer.sender import TcpSender
from ullage.tank.transfer.wire import line

LAYOUT = [2, 3, 4]
ROOM = 7
HOST = "127.0.0.1"


class Heard:
    """Events in the order they came."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def claimed(self, room: int) -> None:
        self.events.append(("claimed", room))

    def opened(self, room: int) -> None:
        """Told first; of no interest here."""

    def sent(self, room: int, bytes: int, seconds: float) -> None:
        assert seconds >= 0
        self.events.append(("sent", room, bytes))

    def arrived(self, room: int, arrived: Arrived) -> None:
        self.events.append(("arrived", room, arrived.token, arrived.bytes))

    def failed(self, room: int, why: str) -> None:
        self.events.append(("failed", room, why))

    async def until(self, word: str) -> tuple[Any, ...]:
        for _ in range(2000):
            if found := [event for event in self.events if event[0] == word]:
                return found[0]
            await asyncio.sleep(0.005)
        raise AssertionError(f"no {word} in {self.events}")


class Pair:
    def __init__(self, slots: int = 64) -> None:
        rng = np.random.default_rng(0)
        self.source = rng.standard_normal((2, 2, slots, 3, 4), dtype=np.float32)
        self.target = np.zeros_like(self.source)
        self.prefill, self.decode = Heard(), Heard()
        self.sender = TcpSender(self.prefill, TcpMover(self.source), LAYOUT, 2 * 2 * 3 * 4 * 4)
        self.receiver = TcpReceiver(self.decode, TcpMover(self.target), LAYOUT)

    async def start(self) -> None:
        await self.sender.start(HOST, 0)
        self.port = self.sender._server.sockets[0].getsockname()[1]
        await self.receiver.start()

    def open(self, room: int = ROOM) -> None:
        self.receiver.open(room, HOST, self.port)


def run(scenario: Callable[[Pair], Awaitable[None]]) -> None:
    async def whole() -> None:
        pair = Pair()
        await pair.start()
        await scenario(pair)
        await pair.receiver.stop()
        await pair.sender.stop()
        await asyncio.sleep(0.01)
        assert not pair.sender._rooms
        assert not pair.receiver._rooms
        for heard in (pair.prefill, pair.decode):
            ends = [event[1] for event in heard.events if event[0] != "claimed"]
            assert len(ends) == len(set(ends))

    asyncio.run(whole())


@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(1, 64))
def test_what_arrives_is_what_was_sent(data: st.DataObject, count: int) -> None:
    source = data.draw(st.permutations(range(64)))[:count]
    target = data.draw(st.permutations(range(64)))[:count]

    async def scenario(pair: Pair) -> None:
        pair.sender.expect(ROOM)
        pair.open()
        pair.receiver.claim(ROOM, np.array(target))
        await pair.prefill.until("claimed")
        pair.sender.send(ROOM, np.array(source), 42, 3)
        size = count * 192
        assert await pair.decode.until("arrived") == ("arrived", ROOM, 42, size)
        assert await pair.prefill.until("sent") == ("sent", ROOM, size)
        assert np.array_equal(pair.target[:, :, target], pair.source[:, :, source])
        untouched = [slot for slot in range(64) if slot not in target]
        assert not pair.target[:, :, untouched].any()

    run(scenario)


def test_decode_may_come_before_the_request() -> None:
    async def scenario(pair: Pair) -> None:
        pair.open()
        pair.receiver.claim(ROOM, np.arange(4))
        await asyncio.sleep(0.05)
        assert not pair.prefill.events
        pair.sender.expect(ROOM)
        await pair.prefill.until("claimed")
        pair.sender.send(ROOM, np.arange(4), 1, 0)
        await pair.decode.until("arrived")
        await pair.prefill.until("sent")

    run(scenario)


@pytest.mark.parametrize("stage", ["before", "open", "claimed"])
@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_who_gives_up_lets_the_other_know(stage: str, side: str) -> None:
    async def scenario(pair: Pair) -> None:
        pair.sender.expect(ROOM)
        pair.open()
        if stage != "before":
            await asyncio.sleep(0.05)
        if stage == "claimed":
            pair.receiver.claim(ROOM, np.arange(4))
            await pair.prefill.until("claimed")
        (pair.sender if side == "prefill" else pair.receiver).drop(ROOM, "enough of it")
        own, other = (pair.prefill, pair.decode) if side == "prefill" else (pair.decode, pair.prefill)
        assert await own.until("failed") == ("failed", ROOM, "enough of it")
        if (stage, side) == ("before", "decode"):  # nothing came through: prefill waits for the claim
            pair.sender.drop(ROOM, "late")
        assert (await other.until("failed"))[1] == ROOM

    run(scenario)


def test_prefill_says_why() -> None:
    async def scenario(pair: Pair) -> None:
        pair.sender.refuse(ROOM, "the prompt is too long")
        pair.open()
        assert "the prompt is too long" in (await pair.decode.until("failed"))[2]
        assert not pair.prefill.events

    run(scenario)


@pytest.mark.parametrize("first", ["request", "refusal"])
def test_decode_turns_a_request_away(first: str) -> None:
    async def scenario(pair: Pair) -> None:
        if first == "request":
            pair.sender.expect(ROOM)
        pair.receiver.decline(ROOM, HOST, pair.port, "no room here")
        if first == "refusal":
            await asyncio.sleep(0.05)
            pair.sender.expect(ROOM)
        assert await pair.prefill.until("failed") == ("failed", ROOM, "no room here")

    run(scenario)


def test_nobody_listens() -> None:
    async def scenario(pair: Pair) -> None:
        pair.receiver.open(ROOM, HOST, 1)
        assert "connection" in (await pair.decode.until("failed"))[2].lower()

    run(scenario)


def test_a_room_that_is_never_claimed() -> None:
    async def scenario(pair: Pair) -> None:
        pair.sender._claim_s = 0.1
        pair.sender.expect(ROOM)
        assert "no decode worker came" in (await pair.prefill.until("failed"))[2]
        pair.open(8)  # and one that nobody asks for
        assert "no request for room 8 came" in (await pair.decode.until("failed"))[2]

    run(scenario)


def test_two_decode_workers_for_one_room() -> None:
    async def scenario(pair: Pair) -> None:
        other = Heard()
        second = TcpReceiver(other, TcpMover(pair.target), LAYOUT)
        await second.start()
        pair.sender.expect(ROOM)
        pair.open()
        pair.receiver.claim(ROOM, np.arange(4))
        await pair.prefill.until("claimed")
        second.open(ROOM, HOST, pair.port)
        assert "another decode worker" in (await other.until("failed"))[2]
        pair.sender.send(ROOM, np.arange(4), 1, 0)
        await pair.decode.until("arrived")
        await pair.prefill.until("sent")

    run(scenario)


def test_layouts_that_differ() -> None:
    async def scenario(pair: Pair) -> None:
        pair.receiver._layout = [9, 9, 9]
        pair.sender.expect(ROOM)
        pair.open()
        assert "differs" in (await pair.decode.until("failed"))[2]
        assert "differs" in (await pair.prefill.until("failed"))[2]

    run(scenario)


def test_ways_of_transfer_that_differ() -> None:
    async def scenario(pair: Pair) -> None:
        pair.receiver._mover.name = "nixl"
        pair.sender.expect(ROOM)
        pair.open()
        for heard in (pair.prefill, pair.decode):
            assert "prefill transfers by tcp, decode by nixl" in (await heard.until("failed"))[2]

    run(scenario)


@pytest.mark.parametrize(
    "words", [b"", b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"[1]\n", b'{"room": "x"}\n', b"\xff\xfe\n"]
)
def test_strangers_on_the_port_do_no_harm(words: bytes) -> None:
    async def scenario(pair: Pair) -> None:
        reader, writer = await asyncio.open_connection(HOST, pair.port)
        writer.write(words)
        writer.write_eof()
        await reader.read()
        writer.close()
        pair.sender.expect(ROOM)
        pair.open()
        pair.receiver.claim(ROOM, np.arange(4))
        await pair.prefill.until("claimed")
        pair.sender.send(ROOM, np.arange(4), 1, 0)
        await pair.decode.until("arrived")
        await pair.prefill.until("sent")

    run(scenario)


def test_half_a_transfer_and_a_decode_worker_that_goes_away() -> None:
    """Decode closes after PAGES: prefill hears of it while it computes, or while it sends."""

    async def scenario(pair: Pair) -> None:
        for room, early in ((1, True), (2, False)):
            pair.sender.expect(room)
            _, writer = await asyncio.open_connection(HOST, pair.port)
            writer.write(line(room=room, layout=LAYOUT, transfer="tcp") + line(tokens=4))
            await asyncio.sleep(0.05)
            if early:
                writer.close()
                await asyncio.sleep(0.05)
            pair.sender.send(room, np.arange(4), 1, 0)
            if not early:
                writer.close()
        await asyncio.sleep(0.1)
        assert sorted(e[1] for e in pair.prefill.events if e[0] == "failed") == [1, 2]

    run(scenario)


def test_half_a_transfer_and_a_prefill_worker_that_goes_away() -> None:
    async def scenario(pair: Pair) -> None:
        async def prefill(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            await reader.readline()
            writer.write(line(token=1, cached=0, bytes=4 * 192) + b"\0" * 500)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(prefill, HOST, 0)
        pair.receiver.open(ROOM, HOST, server.sockets[0].getsockname()[1])
        pair.receiver.claim(ROOM, np.arange(4))
        assert "in the middle of a transfer" in (await pair.decode.until("failed"))[2]
        server.close()

    run(scenario)
