"""Real tanks for tests: in a state folder of their own, on free ports, with nothing left of them afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from ullage.tank.up.probe import Answer, ask

PATIENCE_S = 120


class Ports(NamedTuple):
    base: int
    bootstrap: int
    router: int
    metrics: int

    @property
    def words(self) -> tuple[str, ...]:
        named = {"--base-port": self.base, "--bootstrap-port": self.bootstrap, "--port": self.router}
        named["--metrics-port"] = self.metrics
        return tuple(word for name, port in named.items() for word in (name, str(port)))

    def listening(self) -> list[int]:
        """Those that somebody listens on."""
        return [port for port in (self.base, self.base + 1, *self[1:]) if not _free(port)]


class Tank:
    """The command on a tank of its own. `environment` is added to that of every call."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.ports = free_ports()
        self.url = f"http://127.0.0.1:{self.ports.router}"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(home), **(environment or {})}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ullage", "tank", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=self.environment)

    def up(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("up", "--model", "tiny", *self.ports.words, *words)

    def started(self, *words: str) -> subprocess.Popen[str]:
        """In the foreground, with a process group of its own, as a shell gives it."""
        command = [sys.executable, "-m", "ullage", "tank", "up", "--model", "tiny", *self.ports.words, *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=self.environment, start_new_session=True
        )

    def status(self) -> Any:
        return json.loads(self.run("status", "--json").stdout)

    def pid(self, name: str) -> int:
        """0 while it is down."""
        return next(int(part["pid"] or 0) for part in self.status()["parts"] if part["name"] == name)

    def complete(self, key: str | None = None, timeout_s: float = 30.0) -> Answer:
        body = {"model": "tiny", "prompt": "Hello", "max_tokens": 4}
        return ask(self.url, "/v1/completions", body, key=key, timeout_s=timeout_s)

    def processes(self) -> list[psutil.Process]:
        """All that were started with its state folder in their environment."""
        return [process for process in psutil.process_iter() if self._is_of_it(process)]

    def _is_of_it(self, process: psutil.Process) -> bool:
        try:
            home = process.environ().get("XDG_STATE_HOME") == str(self.home)
            return home and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def require_nothing_left(self) -> None:
        assert self.processes() == []
        assert self.ports.listening() == []
        assert not (self.home / "ullage" / "tank" / "state.json").exists()

    def kill(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGKILL)


def free_ports() -> Ports:
    """Two for workers side by side, and the others anywhere."""
    while True:
        anywhere = [_any_port() for _ in range(4)]
        if anywhere[0] < 65535 and _free(anywhere[0] + 1) and len({*anywhere, anywhere[0] + 1}) == 5:
            return Ports(*anywhere)


def _any_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def _free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def until(true: Callable[[], object], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.1)
