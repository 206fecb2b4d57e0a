"""All endpoints of a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..engine import Engine
from .dialects import Chat, Completion
from .errors import HANDLERS, Handler, told
from .gauges import EngineCollector, labels_of
from .generate import Generate
from .guard import Guard
from .health import Health
from .histograms import Histograms
from .info import model_info, models, server_info
from .lines import Lines, Told
from .loads import get_load, v1_loads
from .openai import Completions

_PAGES: dict[str, Callable[[Engine], Any]] = {
    "/server_info": server_info,
    "/get_server_info": server_info,
    "/model_info": model_info,
    "/get_model_info": model_info,
    "/v1/models": models,
    "/v1/loads": v1_loads,
    "/get_load": get_load,
}


def app_of(engine: Engine, lines: Lines) -> ASGIApp:
    """The application of an engine that is yet to be started: from then on it is told of the engine's steps."""
    registry = CollectorRegistry()
    measured = engine.args.enable_metrics
    engine.observer = Told(lines, engine.facts.role, Histograms(registry, labels_of(engine)) if measured else None)
    routes = [*(Route(path, _page(engine, said)) for path, said in _PAGES.items()), *_asked(engine), *_looked(engine)]
    if measured:
        registry.register(EngineCollector(engine))
        routes.append(Route("/metrics", _metrics(registry)))
    app = Starlette(routes=routes, exception_handlers=HANDLERS)
    app.router.redirect_slashes = False
    return Guard(app, engine.args.api_key) if engine.args.api_key else app


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
    return [Route(path, told(handler), methods=["POST"]) for path, handler in post.items()]


def _looked(engine: Engine) -> list[Route]:
    health = Health(engine)
    return [
        Route("/health", health.look),
        Route("/health_generate", health.generate),
        Route("/flush_cache", _flush(engine), methods=["GET", "POST"]),
    ]


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
