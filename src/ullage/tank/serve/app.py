"""All endpoints of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..engine import Engine
from ..request import RefusedError, Sampling
from .errors import Handler, error_response, told
from .gauges import EngineCollector, labels_of
from .generate import Generate
from .guard import Guard
from .histograms import Histograms
from .info import model_info, models, server_info
from .lines import Lines, Told
from .loads import get_load, v1_loads
from .openai import Chat, Completion, Completions

STUCK_S = 60.0  # a loop that has not turned for so long serves nobody
GENERATE_S = 20.0


def app_of(engine: Engine, lines: Lines) -> ASGIApp:
    """The application; it starts the engine when it starts, and ends it when it ends."""
    registry = CollectorRegistry()
    registry.register(EngineCollector(engine))
    histograms = Histograms(registry, labels_of(engine)) if engine.args.enable_metrics else None
    engine.observer = Told(lines, engine.facts.role, histograms)
    routes = [*_said(engine), *_asked(engine)]
    if engine.args.enable_metrics:
        routes.append(Route("/metrics", _metrics(registry)))
    app = Starlette(routes=routes, lifespan=_lifespan(engine, lines), exception_handlers={404: _nothing_here})
    return Guard(app, engine.args.api_key) if engine.args.api_key else app


def _said(engine: Engine) -> list[Route]:
    pages: dict[str, Callable[[Engine], Any]] = {
        "/server_info": server_info,
        "/get_server_info": server_info,
        "/model_info": model_info,
        "/get_model_info": model_info,
        "/v1/models": models,
        "/v1/loads": v1_loads,
        "/get_load": get_load,
    }
    return [Route(path, _page(engine, said)) for path, said in pages.items()]


def _page(engine: Engine, said: Callable[[Engine], Any]) -> Handler:
    async def page(_request: Request) -> Response:
        return JSONResponse(said(engine))

    return page


def _asked(engine: Engine) -> list[Route]:
    post: dict[str, Handler] = {
        "/generate": Generate(engine),
        "/v1/completions": Completions(engine, Completion()),
        "/v1/chat/completions": Completions(engine, Chat()),
    }
    health = _Health(engine)
    return [
        *(Route(path, told(handler), methods=["POST"]) for path, handler in post.items()),
        Route("/health", health.look),
        Route("/health_generate", health.try_it),
        Route("/flush_cache", _flush(engine), methods=["GET", "POST"]),
    ]


class _Health:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def look(self, _request: Request) -> Response:
        engine = self._engine
        if engine.failure is not None:
            return error_response(f"the engine failed: {engine.failure}", 503)
        stuck_s = time.monotonic() - engine.turned_at
        return Response() if stuck_s < STUCK_S else error_response(f"the engine is stuck for {stuck_s:.0f} s", 503)

    async def try_it(self, request: Request) -> Response:
        """A real token, where one worker can make one; the roles of a pair answer like /health."""
        if self._engine.facts.role != "unified" or self._engine.failure is not None:
            return await self.look(request)
        try:
            await asyncio.wait_for(self._one_token(), GENERATE_S)
        except asyncio.TimeoutError:
            return error_response(f"no token within {GENERATE_S:g} s", 503)
        except RefusedError as error:
            return error_response(error.message, 503)
        return Response()

    async def _one_token(self) -> None:
        async with contextlib.aclosing(self._engine.generate([0], Sampling(1, temperature=0))) as outputs:
            async for _ in outputs:
                pass


def _flush(engine: Engine) -> Handler:
    async def flush(_request: Request) -> Response:
        if await engine.flush_cache():
            return PlainTextResponse("Cache flushed.\n")
        return PlainTextResponse("Cache not flushed: requests are running or waiting.\n", 400)

    return flush


def _metrics(registry: CollectorRegistry) -> Handler:
    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return metrics


def _lifespan(engine: Engine, lines: Lines) -> Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await engine.start()
        lines.ready(engine.args)
        yield
        await engine.stop()

    return lifespan


async def _nothing_here(request: Request, _error: Exception) -> Response:
    return error_response(f"there is no {request.url.path} here", 404)
