"""Answers that end when their caller goes away: the engine's generator is closed at once, and its pages come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from ..request import Output, RefusedError
from .errors import GONE, raise_if_aborted

T = TypeVar("T")
Outputs = AsyncGenerator[Output, None]
DONE = b"data: [DONE]\n\n"
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
_START: Message = {"type": "http.response.start", "status": 200, "headers": _HEADERS}
_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


class GoneError(RefusedError):
    """Nobody reads the answer any more."""

    def __init__(self) -> None:
        super().__init__("the caller is gone", GONE)


def event(fields: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


class EventStream:
    """Server-sent events, as an ASGI application: what `say` makes of each output, as it comes."""

    def __init__(self, first: Output, outputs: Outputs, say: Callable[[Output], bytes]) -> None:
        self._first = first
        self._outputs = outputs
        self._say = say

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(GoneError, asyncio.CancelledError):  # cancelled: the server's grace is over
                await unless_gone(receive, self._send_all(send))
        finally:
            await self._outputs.aclose()

    async def _send_all(self, send: Send) -> None:
        await send(_START)
        await self._send(send, self._first)
        if self._first.finish is None:
            async for output in self._outputs:
                await self._send(send, output)
        await send(_END)

    async def _send(self, send: Send, output: Output) -> None:
        if said := self._say(output):
            await send({"type": "http.response.body", "body": said, "more_body": True})


async def unless_gone(receive: Receive, wanted: Awaitable[T]) -> T:
    """Waits for something as long as the caller does. Raises GoneError."""
    task = asyncio.ensure_future(wanted)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise GoneError
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await each


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def begun(request: Request, outputs: Outputs) -> Output:
    """The first output: until it is here, whatever goes wrong is still a status code."""
    try:
        first = await unless_gone(request.receive, outputs.__anext__())
        raise_if_aborted(first.finish)
        return first
    except BaseException:
        await outputs.aclose()
        raise


async def gathered(request: Request, outputs: Outputs) -> tuple[str, list[int], Output]:
    """(text, tokens, the last output) of a request whose caller waits for the whole."""

    async def whole() -> tuple[str, list[int], Output]:
        text: list[str] = []
        tokens: list[int] = []
        async for output in outputs:
            text.append(output.text)
            tokens += output.token_ids
        return "".join(text), tokens, output

    try:
        return await unless_gone(request.receive, whole())
    finally:
        await outputs.aclose()
