"""Processes that look like the servers of an engine: its words, its titles, its ports, its forks, but no engine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ullage.engines import programs
from ullage.observe.host.find import find_servers
from ullage.observe.host.running import Found, Running

ACTOR = """
import json, os, signal, socket, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

signal.alarm(120)  # whatever becomes of the test
part = json.loads(os.environ.get("ACTOR_PART", "{}"))
sockets = []
for host, port in part.get("ports", []):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    one = socket.socket(family)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if part.get("shared"):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind((host, port))
    one.listen()
    sockets.append(one)
if "http" in part:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"here")
    Thread(target=HTTPServer(tuple(part["http"]), Handler).serve_forever, daemon=True).start()
if "socket" in part:
    one = socket.socket(socket.AF_UNIX)
    one.bind(part["socket"])
    one.listen()
    sockets.append(one)

def titled(title):
    import setproctitle
    setproctitle.setproctitle(title)

children = 0
for title in part.get("titles", []):
    if os.fork() == 0:
        signal.alarm(120)
        if title:
            titled(title)
        open(os.path.join(part["ready"], str(os.getpid())), "w").close()
        while True:
            time.sleep(60)
    children += 1
for line, own in part.get("starts", []):
    subprocess.Popen(line, env={**os.environ, "ACTOR_PART": json.dumps(own)})
if "title" in part:
    titled(part["title"])
while len(os.listdir(part["ready"])) < children:
    time.sleep(0.005)
if not part.get("unready"):
    open(os.path.join(part["ready"], "main-%d" % os.getpid()), "w").close()
while True:
    time.sleep(60)
"""
MODULES = (
    "sglang/launch_server.py",
    "sglang_router/launch_router.py",
    "vllm/entrypoints/openai/api_server.py",
    "bin/vllm",
    "bin/llama-server",
    "bin/smg",
)


class Stage:
    """A folder with stand-ins for the engines, and the processes that were started from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        self._readies = 0
        for name in MODULES:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!{sys.executable}\n{ACTOR}")
            path.chmod(0o755)
        for package in ("sglang", "sglang_router", "vllm", "vllm/entrypoints", "vllm/entrypoints/openai"):
            (folder / package / "__init__.py").touch()

    def ready_folder(self) -> str:
        self._readies += 1
        path = self.folder / f"ready-{self._readies}"
        path.mkdir(mode=0o777)
        return str(path)

    def start(self, words: Sequence[str | bytes], mains: int = 1, **options: Any) -> subprocess.Popen[bytes]:
        """Starts it and waits until it has played its part. `part`: what it does (see ACTOR)."""
        part = {"ready": self.ready_folder(), **options.pop("part", {})}
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "ACTOR_PART": json.dumps(part)}
        environment |= options.pop("env", {})
        options.setdefault("start_new_session", True)
        process = subprocess.Popen(list(words), env=environment, **{"cwd": self.folder, **options})
        self.started.append(process)
        wait_for(lambda: len(list(Path(part["ready"]).glob("main-*"))) >= mains, process)
        return process

    def end(self) -> None:
        for process in self.started:
            for pid in [*descendants(process.pid), process.pid]:
                kill(pid)
            if process.returncode is None:
                process.wait(20)
            if process.stdout:
                process.stdout.close()


def wait_for(done: Any, process: subprocess.Popen[bytes] | None = None) -> None:
    for _ in range(4000):
        if done():
            return
        assert process is None or process.poll() is None, "the actor has ended"
        time.sleep(0.005)
    raise AssertionError("it did not come to pass")


def descendants(pid: int) -> list[int]:
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def look() -> Found:
    return find_servers(programs)


def running(found: Found, process: subprocess.Popen[bytes]) -> list[Running]:
    """The servers of a process that was started, among all that run on this machine."""
    family = {process.pid, *descendants(process.pid)}
    return [server for server in found.servers if server.main.pid in family]


def the_one(process: subprocess.Popen[bytes]) -> Running:
    found: list[Running] = []

    def is_there() -> bool:
        found[:] = running(look(), process)
        return len(found) == 1

    wait_for(is_there, process)
    return found[0]


def can_unshare() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run(["unshare", "--net", "true"], check=False).returncode == 0
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    made = Stage(folder)
    try:
        yield made
    finally:
        made.end()
