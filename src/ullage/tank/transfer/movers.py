"""How the bytes of KV get from one pool into the other. What they are for stands in the lines before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .peers import Slots
from .wire import line, parse

Kv = NDArray[np.float32]


class Mover(Protocol):
    """One for each worker, made for its pool. Both sides must have the same."""

    name: str

    def offer(self, slots: Slots) -> dict[str, Any]:
        """What decode says in its PAGES line, so that prefill can reach its slots."""

    async def push(
        self, slots: Slots, _offer: dict[str, Any], writer: asyncio.StreamWriter, taken: asyncio.Task[bytes]
    ) -> None:
        """On prefill: gives the KV of `slots`, and returns when `taken` is the OK for it. Until then, however it
        ends, something may be written to what was offered; never after.
        """

    async def pull(self, slots: Slots, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """On decode: says OK and returns when the KV of `slots` is here."""

    async def reclaim(self, _reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        """On decode, when it came to nothing: after this nothing is written to what was offered."""

    def close(self) -> None: ...


class TcpMover:
    """Through the same connection: for each layer K of all tokens, then V."""

    name = "tcp"

    def __init__(self, kv: Kv) -> None:
        self._kv = kv

    def offer(self, slots: Slots) -> dict[str, Any]:
        return {"tokens": len(slots)}

    async def push(
        self, slots: Slots, _offer: dict[str, Any], writer: asyncio.StreamWriter, taken: asyncio.Task[bytes]
    ) -> None:
        for plane in self._planes():
            writer.write(plane[slots].data.cast("B"))
            await writer.drain()
        parse(await taken)

    async def pull(self, slots: Slots, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for plane in self._planes():
            shape = (len(slots), *plane.shape[1:])
            data = await reader.readexactly(int(np.prod(shape)) * plane.itemsize)
            plane[slots] = np.frombuffer(data, dtype=plane.dtype).reshape(shape)
        writer.write(line(ok=True))
        await writer.drain()

    async def reclaim(self, _reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        """Only decode itself writes."""

    def close(self) -> None: ...

    def _planes(self) -> Iterator[Kv]:
        """[slots, kv_heads, head_dim] of K and V, layer by layer."""
        for layer in self._kv:
            yield from layer
