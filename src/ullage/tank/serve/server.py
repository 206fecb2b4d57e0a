"""A worker's life: port, model, engine, HTTP; and the end of all of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Generator
from types import FrameType

import uvicorn

from ...errors import UllageError
from ..config import ServerArgs
from ..engine import Engine
from ..model.load import load_model
from .app import app_of
from .lines import Lines

_GRACE_S = 3  # for answers that are under way when the end comes
_LAST_RESORT_S = 4.0
_KEEP_ALIVE_S = 75  # longer than the router keeps a connection that idles: it never sends into one that closes
_BACKLOG = 2048


def serve(args: ServerArgs) -> None:
    """Until it is told to end. The port is taken first, so that a taken one is told at once; who asks before all is
    ready waits for an answer.
    """
    lines = Lines()
    with listen(args.host, args.port) as listening:
        lines.asked(args)
        lines.loading(args.memory_bytes)
        loaded = load_model(
            args.model_path, seed=args.random_seed, threads=args.threads, context_length=args.context_length
        )
        engine = Engine(args, loaded)
        lines.sized(args, engine.facts)
        asyncio.run(_run(engine, lines, listening))


def listen(host: str, port: int) -> socket.socket:
    """Listens at once: a port that is only bound can be bound by another worker too. Only where the protocol is named
    asyncio turns off Nagle's algorithm, which would hold tokens back.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _taken(f"port {port} of {host}", error, "give another --port") from None
    return listening


def _taken(what: str, error: OSError, advice: str) -> UllageError:
    known = error.errno is not None and error.errno > 0
    return UllageError(f"{what} cannot be taken: {os.strerror(error.errno or 0) if known else error.strerror}", advice)


async def _run(engine: Engine, lines: Lines, listening: socket.socket) -> None:
    args = engine.args
    app = app_of(engine, lines)
    try:
        await engine.start()
    except OSError as error:
        port = args.disaggregation_bootstrap_port
        raise _taken(f"bootstrap port {port}", error, "give another --disaggregation-bootstrap-port") from None
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="error",  # the router's probe for HTTP/2 is worth no warning
        access_log=False,
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=_KEEP_ALIVE_S,
        ws="none",
        backlog=_BACKLOG,
    )
    await _Server(config, engine, lines).serve([listening])
    if engine.failure is not None:
        raise UllageError(f"the engine failed: {engine.failure}")


class _Server(uvicorn.Server):
    """Ends by SIGTERM or SIGINT, and when its engine has failed, as SGLang does: whoever watches it starts it anew."""

    def __init__(self, config: uvicorn.Config, engine: Engine, lines: Lines) -> None:
        super().__init__(config)
        self._engine = engine
        self._lines = lines

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._lines.ready(self._engine.args)

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._engine.failure is not None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Nobody new is let in, and who is here is told that it ends."""
        await asyncio.gather(super().shutdown(sockets), self._engine.stop())

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """To be told to end is no fault: the exit code is 0."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A step of the engine that takes too long is not waited for."""
        if not self.should_exit:
            last_resort = threading.Timer(_LAST_RESORT_S, os._exit, [1])
            last_resort.daemon = True
            last_resort.start()
        super().handle_exit(sig, frame)
