"""Errors as SGLang and OpenAI's clients know them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ..request import Finish, RefusedError

GONE = 499  # the caller went away: nobody reads this answer
_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    503: "ServiceUnavailableError",
}
Handler = Callable[[Request], Awaitable[ASGIApp]]


def error_fields(message: str, status: int) -> dict[str, Any]:
    """Both shapes at once: SGLang's at the top, OpenAI's under `error`."""
    error = {"message": message, "type": _TYPES.get(status, "InternalServerError"), "param": None, "code": status}
    return {"object": "error", **error, "error": error}


def error_response(message: str, status: int) -> JSONResponse:
    return JSONResponse(error_fields(message, status), status)


def failure_of(finish: Finish | None) -> RefusedError | None:
    """What went wrong with a request that had begun."""
    return RefusedError(finish.message, finish.status) if finish is not None and finish.type == "abort" else None


def raise_if_aborted(finish: Finish | None) -> None:
    if (failure := failure_of(finish)) is not None:
        raise failure


def told(handler: Handler) -> Handler:
    """What a handler refuses becomes an answer."""

    async def answer(request: Request) -> ASGIApp:
        try:
            return await handler(request)
        except RefusedError as error:
            return error_response(error.message, error.status)
        except ClientDisconnect:
            return error_response("the caller is gone", GONE)
        except asyncio.CancelledError:  # the server's grace is over
            return error_response("the worker ends", 503)

    return answer


async def not_served(request: Request, error: Exception) -> Response:
    """No such path, or not by this method."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return error_response(f"there is no {request.url.path} here", error.status_code)
    said = f"{request.url.path} does not take {request.method}"
    return JSONResponse(error_fields(said, error.status_code), error.status_code, error.headers)


async def fault(_request: Request, error: Exception) -> Response:
    """What nobody has foreseen; the log has the whole of it."""
    return error_response(f"the worker failed: {type(error).__name__}", 500)


HANDLERS = {HTTPException: not_served, Exception: fault}
