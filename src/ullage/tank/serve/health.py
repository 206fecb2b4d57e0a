"""Whether a worker serves: /health looks at its loop, /health_generate wants a token."""

from __future__ import annotations

import asyncio
import contextlib
import time

from starlette.requests import Request
from starlette.responses import Response

from ..config import ServerArgs
from ..engine import Engine
from ..request import RefusedError, Sampling
from .errors import error_response

STUCK_S = 60.0  # a loop that has not turned for so long serves nobody
GENERATE_S = 20.0
_LOOK_S = 0.02


class Health:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stuck_s = STUCK_S + _longest_step_s(engine.args)

    async def look(self, _request: Request) -> Response:
        engine = self._engine
        if engine.failure is not None:
            return error_response(f"the engine failed: {engine.failure}", 503)
        still_s = time.monotonic() - engine.turned_at
        if still_s > self._stuck_s:
            return error_response(f"the engine is stuck for {still_s:.0f} s", 503)
        return Response()

    async def generate(self, request: Request) -> Response:
        """A real token, where one worker can make one; the roles of a pair answer like /health."""
        if self._engine.facts.role != "unified" or self._engine.failure is not None:
            return await self.look(request)
        try:
            await asyncio.wait_for(self._token(), GENERATE_S)
        except asyncio.TimeoutError:
            return error_response(f"no token within {GENERATE_S:g} s", 503)
        return Response()

    async def _token(self) -> None:
        """Its own where nobody is served, else the next one that anybody gets, as in SGLang."""
        engine, before = self._engine, self._engine.counters.generation_tokens
        while engine.counters.generation_tokens == before:
            now = engine.loads()
            if not now.running and not now.waiting:
                await self._own_token()
            await asyncio.sleep(_LOOK_S)

    async def _own_token(self) -> None:
        with contextlib.suppress(RefusedError):
            async with contextlib.aclosing(self._engine.generate([0], Sampling(1, temperature=0))) as outputs:
                async for _ in outputs:
                    pass


def _longest_step_s(args: ServerArgs) -> float:
    """How long a pace may hold one step back."""
    pace = args.pace
    return args.chunked_prefill_size * pace.prefill_token_s + pace.decode_step_s if pace else 0.0
