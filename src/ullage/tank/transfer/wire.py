"""Lines of JSON between two workers, and how a connection can end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, TypeVar

LINE_BYTES = 2**20
T = TypeVar("T")


class GoneError(Exception):
    """The other side gave up, or said why it will not go on."""


def line(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def parse(data: bytes) -> dict[str, Any]:
    """Raises GoneError where nothing came, where it is no line of ours, or where it says what went wrong."""
    if not data.endswith(b"\n"):
        raise GoneError("the other worker closed the connection")
    try:
        fields = json.loads(data)
    except ValueError:
        raise GoneError("the other worker does not speak the tank's transfer protocol") from None
    if not isinstance(fields, dict) or "error" in fields:
        raise GoneError(str(fields["error"]) if isinstance(fields, dict) else "the other worker sent no object")
    return fields


def watch(reader: asyncio.StreamReader) -> asyncio.Task[bytes]:
    """The next line of the other side, or its end. Nobody has to look at how it ended."""
    task = asyncio.create_task(reader.readline())
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def in_time(wanted: Awaitable[T], seconds: float, otherwise: str) -> T:
    """Raises GoneError with what did not happen."""
    try:
        return await asyncio.wait_for(wanted, seconds)
    except asyncio.TimeoutError:
        raise GoneError(f"{otherwise} in {seconds:g} s") from None


async def first_of(wanted: asyncio.Future[Any], watched: asyncio.Task[bytes]) -> Any:
    """The result of `wanted`, unless something comes from the other side before."""
    await asyncio.wait([wanted, watched], return_when=asyncio.FIRST_COMPLETED)
    if watched.done():
        parse(watched.result())
        raise GoneError("the other worker spoke out of turn")
    return wanted.result()


def why(error: BaseException) -> str:
    if isinstance(error, asyncio.IncompleteReadError):
        return "the other worker closed the connection in the middle of a transfer"
    if isinstance(error, OSError):
        return f"the connection to the other worker failed: {error.strerror or error}"
    return str(error) or type(error).__name__
