"""Errors as SGLang and OpenAI's clients know them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..request import Finish, RefusedError

_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    503: "ServiceUnavailableError",
}
Handler = Callable[[Request], Awaitable[Response]]


def error_fields(message: str, status: int) -> dict[str, Any]:
    kind = _TYPES.get(status, "InternalServerError")
    error = {"message": message, "type": kind, "param": None, "code": status}
    return {"object": "error", **error, "error": error}


def error_response(message: str, status: int) -> JSONResponse:
    return JSONResponse(error_fields(message, status), status)


def raise_if_aborted(finish: Finish | None) -> None:
    if finish is not None and finish.type == "abort":
        raise RefusedError(finish.message, finish.status)


def told(handler: Handler) -> Handler:
    """What a handler refuses becomes an answer."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RefusedError as error:
            return error_response(error.message, error.status)

    return answer
