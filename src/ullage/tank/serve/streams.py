"""Answers that end when their caller goes away: the engine's generator is closed at once, and its pages come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..request import Output, RefusedError

T = TypeVar("T")
DONE = b"data: [DONE]\n\n"


def event(fields: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


class EventStream(StreamingResponse):
    """Server-sent events, with the generator closed however the response ends."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()


async def unless_gone(request: Request, wanted: Awaitable[T]) -> T:
    """Waits for something as long as the caller does."""
    task = asyncio.ensure_future(wanted)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RefusedError("the caller is gone", 499)
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await each


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def begun(request: Request, outputs: AsyncGenerator[Output, None]) -> AsyncGenerator[Output, None]:
    """The same outputs, once the first of them is here: until then a refusal is still a status code."""
    first = await unless_gone(request, outputs.__anext__())

    async def all_of_them() -> AsyncGenerator[Output, None]:
        try:
            yield first
            if first.finish is None:
                async for output in outputs:
                    yield output
        finally:
            await outputs.aclose()

    return all_of_them()


async def gathered(request: Request, outputs: AsyncGenerator[Output, None]) -> tuple[str, list[int], Output]:
    """(text, tokens, the last output) of a request whose caller waits for the whole."""

    async def whole() -> tuple[str, list[int], Output]:
        text: list[str] = []
        tokens: list[int] = []
        async for output in outputs:
            text.append(output.text)
            tokens += output.token_ids
        return "".join(text), tokens, output

    try:
        return await unless_gone(request, whole())
    finally:
        await outputs.aclose()
