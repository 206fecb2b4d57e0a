"""Real worker processes with the tiny model: started on free ports, asked over HTTP, ended by their own pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from tests.tank.engines import free_port

UP_S, REQUEST_S = 60.0, 120.0
_BASE = ("--model-path", "tiny", "--memory", "64MiB", "--context-length", "2048", "--threads", "1")


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def tokens(self) -> list[int]:
        return list(self.body["output_ids"])

    @property
    def error(self) -> str:
        return str(self.body.get("message", ""))


class Worker:
    def __init__(self, port: int, bootstrap_port: int, log: Path, command: list[str]) -> None:
        self.port = port
        self.bootstrap_port = bootstrap_port
        self.log = log
        self.command = command
        self.url = f"http://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=out, start_new_session=True)
        deadline = time.monotonic() + UP_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(OSError, HTTPException):
                if self.get("/health").status == 200:
                    return
            time.sleep(0.02)
        raise AssertionError(f"no worker came up: {self.log.read_text('utf-8')[-2000:]}")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(15)

    def get(self, path: str) -> Answer:
        return self._call("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        return self._call("POST", path, body)

    def generate(self, prompt: list[int], output: int, **fields: Any) -> Answer:
        """Greedy, and to its full length."""
        sampling = {"max_new_tokens": output, "temperature": 0, "ignore_eos": True}
        return self.post("/generate", {"input_ids": prompt, "sampling_params": sampling, **fields})

    @property
    def kept_back_tokens(self) -> int:
        """What admission keeps back for each request, beside its tokens."""
        info = self.get("/server_info").body
        return int(info["num_reserved_decode_tokens"]) if info["disaggregation_mode"] == "decode" else 0

    def load(self) -> dict[str, Any]:
        load: dict[str, Any] = self.get("/v1/loads").body["loads"][0]
        return load

    def counter(self, name: str) -> float:
        wanted = f"sglang:{name}_total{{"
        page = self.get("/metrics").body
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(wanted))

    def is_empty(self) -> bool:
        load = self.load()
        queues = [value for name, value in load["disaggregation"].items() if name.endswith("_reqs")]
        return not any([load["num_running_reqs"], load["num_waiting_reqs"], load["num_used_tokens"], *queues])

    def until_empty(self, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not self.is_empty():
            assert time.monotonic() < deadline, self.load()
            time.sleep(0.02)

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_S)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read().decode()
        finally:
            connection.close()
        is_json = "json" in (response.getheader("Content-Type") or "")
        return Answer(response.status, json.loads(data) if is_json else data)


@contextmanager
def worker(folder: Path, *flags: str) -> Iterator[Worker]:
    port, bootstrap = free_port(), free_port()
    module = [sys.executable, "-m", "ullage.tank.worker", *_BASE]
    ports = ["--port", str(port), "--disaggregation-bootstrap-port", str(bootstrap)]
    made = Worker(port, bootstrap, folder / f"worker-{port}.log", [*module, *ports, *flags])
    try:
        yield made
    finally:
        made.stop()


class Watch:
    """Looks at a worker's load again and again, and keeps the most that it saw of everything."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.most: dict[str, float] = {}

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.is_set():
            load = self._worker.load()
            seen = {**load, **load["disaggregation"]}
            for name, value in seen.items():
                if isinstance(value, (int, float)):
                    self.most[name] = max(value, self.most.get(name, 0))
            time.sleep(0.002)
