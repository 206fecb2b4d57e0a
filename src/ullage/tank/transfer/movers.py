"""How the bytes of KV get from one pool into the other. What they are for stands in the lines before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .peers import Slots

Kv = NDArray[np.float32]


class Mover(Protocol):
    """One for each worker, made for its pool."""

    def offer(self, slots: Slots) -> dict[str, Any]:
        """What decode adds to its PAGES line, so that prefill can reach its slots."""

    async def push(self, slots: Slots, _offer: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """On prefill: the KV of `slots` goes to where the offer says."""

    async def pull(self, slots: Slots, reader: asyncio.StreamReader) -> None:
        """On decode: returns when the KV of `slots` is here."""

    def close(self) -> None: ...


class TcpMover:
    """Through the same connection: for each layer K of all tokens, then V."""

    def __init__(self, kv: Kv) -> None:
        self._kv = kv

    def offer(self, slots: Slots) -> dict[str, Any]:
        return {"tokens": len(slots)}

    async def push(self, slots: Slots, _offer: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        for plane in self._planes():
            writer.write(plane[slots].data.cast("B"))
            await writer.drain()

    async def pull(self, slots: Slots, reader: asyncio.StreamReader) -> None:
        for plane in self._planes():
            shape = (len(slots), *plane.shape[1:])
            data = await reader.readexactly(int(np.prod(shape)) * plane.itemsize)
            plane[slots] = np.frombuffer(data, dtype=plane.dtype).reshape(shape)

    def close(self) -> None: ...

    def _planes(self) -> Iterator[Kv]:
        """[slots, kv_heads, head_dim] of K and V, layer by layer."""
        for layer in self._kv:
            yield from layer
