"""--api-key: all but the health pages ask for it, as in SGLang."""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from .errors import error_response

_OPEN = frozenset(["/health", "/health_generate"])


class Guard:
    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app = app
        self._wanted = f"Bearer {api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN or self._knows_it(scope):
            await self._app(scope, receive, send)
        else:
            await error_response("Unauthorized: the API key is missing or wrong", 401)(scope, receive, send)

    def _knows_it(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._wanted)
