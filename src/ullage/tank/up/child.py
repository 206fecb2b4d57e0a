"""One process that was started, and is watched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from . import gate
from .backoff import delay_s
from .plan import KEY_VARIABLE, ROUTER, Part
from .probe import answers
from .process import Identity, identify
from .state import Running, open_log

_GATE = (sys.executable, "-S", "-E", gate.__file__)


class Child:
    """`ready`: it has answered since it was started. `due`: when it is to be started again."""

    def __init__(self, part: Part, log: Path, key: str | None = None) -> None:
        self.part = part
        self._environment = _environment(key)
        self.log = log
        self.ready = False
        self.due: float | None = None
        self.restarts = -1
        self.last_end = ""
        self._deaths: deque[float] = deque(maxlen=10)
        self._process: subprocess.Popen[bytes] | None = None
        self._began = self._since = 0.0
        self._identity = Identity(0, 0)

    @property
    def running(self) -> Running:
        part, who = self.part, self._identity
        return Running(
            part.name, part.role, part.url, str(self.log), *who, self._began, max(self.restarts, 0), self.last_end
        )

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._since

    def start(self, write_down: Callable[[], None]) -> None:
        """Starts it, and lets it go on once it is written down. Where that fails it ends at its gate."""
        inner, outer = os.pipe()
        try:
            self._spawn(inner)
            write_down()
            os.write(outer, b".")
        finally:
            os.close(outer)

    def _spawn(self, gate: int) -> None:
        log = open_log(self.log)
        try:
            self._process = subprocess.Popen(
                [*_GATE, str(gate), *self.part.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[gate],
                start_new_session=True,
                env=self._environment,
            )
        finally:
            os.close(log)
            os.close(gate)
        self._identity = identify(self._process.pid) or Identity(self._process.pid, -1)
        self._began, self._since = time.time(), time.monotonic()
        self.ready, self.due = False, None
        self.restarts += 1

    def look(self) -> str | None:
        """How it ended, told once. What it left of its group is killed before its pid can be another's."""
        if self._process is None:
            return None
        if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        _kill_group(self._process.pid)
        self.last_end = _how(self._process.wait())
        self._process = None
        self._deaths.append(time.monotonic())
        return self.last_end

    def put_off(self) -> float:
        """It is to be started again, after the seconds returned."""
        now = time.monotonic()
        wait_s = delay_s(self._deaths, now)
        self.due = now + wait_s
        return wait_s

    def became_ready(self) -> bool:
        """Told once for each start."""
        if self.ready or self._process is None:
            return False
        self.ready = answers(self.part.url, "/liveness" if self.part.role == ROUTER else "/health")
        return self.ready

    def last_words(self, lines: int = 12) -> list[str]:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 16384))
                return file.read().decode("utf-8", "replace").splitlines()[-lines:]
        except OSError:
            return []


def _environment(key: str | None) -> dict[str, str]:
    """Ours, with the key that was named, or with none."""
    ours = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    return {**ours, "PYTHONUNBUFFERED": "1"} | ({KEY_VARIABLE: key} if key else {})


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # nothing is left in it, or only what has ended
        return


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
