"""The real sglang-router before workers, as its users start it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

from tests.tank.engines import free_port
from tests.tank.processes import Worker
from tests.tank.serve.calls import call, until

_OPTIONS = ("--policy", "round_robin", "--worker-startup-check-interval", "1", "--log-level", "warn")


def pd_words(prefill: Worker, decode: Worker) -> list[str]:
    return ["--pd-disaggregation", "--prefill", prefill.url, str(prefill.bootstrap_port), "--decode", decode.url]


def plain_words(*workers: Worker) -> list[str]:
    return ["--worker-urls", *(worker.url for worker in workers)]


@contextmanager
def router(folder: Path, words: list[str]) -> Iterator[int]:
    """Its port, once it is ready."""
    port, module = free_port(), [sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1"]
    ports = ["--port", str(port), "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]
    with (folder / f"router-{port}.log").open("wb") as log:
        process = subprocess.Popen([*module, *ports, *_OPTIONS, *words], stdout=log, stderr=log, start_new_session=True)
        try:
            until(lambda: is_ready(port), 60)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def is_ready(port: int) -> bool:
    with suppress(OSError, HTTPException):
        return call(port, "GET", "/readiness").status == 200
    return False
