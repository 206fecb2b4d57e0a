"""How the bytes of KV get from one pool into the other. What they are for stands in the lines before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .peers import Slots
from .wire import line, parse

Kv = NDArray[np.float32]


class Mover(Protocol):
    """One for each worker, made for its pool. Both sides must have the same."""

    name: str

    async def push(self, slots: Slots, writer: asyncio.StreamWriter, taken: asyncio.Task[bytes]) -> None:
        """On prefill: gives the KV of `slots`, and returns when `taken` is the OK for it."""

    async def pull(self, slots: Slots, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """On decode: says OK and returns when the KV of `slots` is here. However it ends, nothing writes to them
        after that.
        """

    def close(self) -> None: ...


class TcpMover:
    """Through the same connection: for each layer K of all tokens, then V."""

    name = "tcp"

    def __init__(self, kv: Kv) -> None:
        self._kv = kv

    async def push(self, slots: Slots, writer: asyncio.StreamWriter, taken: asyncio.Task[bytes]) -> None:
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

    def close(self) -> None: ...

    def _planes(self) -> Iterator[Kv]:
        """[slots, kv_heads, head_dim] of K and V, layer by layer."""
        for layer in self._kv:
            yield from layer
