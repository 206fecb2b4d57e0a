"""How a worker ends: told to, while it serves; and before it serves, with one line that says why."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

import openai
import pytest

from tests.tank.engines import free_port
from tests.tank.processes import Worker, worker
from tests.tank.serve.calls import Reply, call, caller, client, generate_body, until
from ullage.tank import worker as module
from ullage.tank.serve.server import listen

KEY = "tank-key-5f0c9d2e71"
SLOW = ("--pace", "prefill=0,decode=0.05", "--max-running-requests", "2")
END_S = 5.0
COMMAND = (sys.executable, "-m", "ullage.tank.worker", "--model-path", "tiny", "--memory", "64MiB")


def test_told_to_end_it_ends_all_that_runs_with_an_error_and_then_itself(tmp_path: Path) -> None:
    with worker(tmp_path, *SLOW) as each:
        body, replies = generate_body("j" * 20, 1000), []

        def ask(more: dict[str, Any]) -> None:
            replies.append(call(each.port, "POST", "/generate", {**body, **more}))

        callers = [threading.Thread(target=ask, args=({"stream": n % 2 == 0},)) for n in range(4)]
        for thread in callers:
            thread.start()
        until(lambda: each.load()["num_running_reqs"] == 2 and each.load()["num_waiting_reqs"] == 2)
        time.sleep(0.2)
        with caller(each.port, "/generate", {**body, "stream": True}):  # it never reads
            began = time.monotonic()
            each.process.terminate()
            assert each.process.wait(END_S) == 0
            assert time.monotonic() - began < END_S
        for thread in callers:
            thread.join(END_S)
        assert len(replies) == 4
        for reply in replies:
            streamed = reply.status == 200
            assert reply.status in (200, 500, 503)
            assert b'"object":"error"' in reply.body.replace(b" ", b"")
            assert reply.body.endswith(b"data: [DONE]\n\n") == streamed
        log = each.log.read_text("utf-8")
        assert "Traceback" not in log
        assert "ERROR" not in log


def test_each_of_a_pair_ends_with_an_error_for_its_callers(tmp_path: Path) -> None:
    """Decode while it generates, then prefill while it waits for a decode worker that never comes."""
    mode = "--disaggregation-mode"
    with worker(tmp_path, mode, "prefill") as prefill, worker(tmp_path, *SLOW, mode, "decode") as decode:
        replies = {}

        def ask(each: Worker, room: int, tokens: int) -> None:
            place = {"bootstrap_host": "127.0.0.1", "bootstrap_port": prefill.bootstrap_port, "bootstrap_room": room}
            body = {**generate_body("p" * 20, tokens), **place}
            replies[each.port, room] = call(each.port, "POST", "/generate", body)

        def asking(each: Worker, room: int) -> threading.Thread:
            thread = threading.Thread(target=ask, args=(each, room, 1000))
            thread.start()
            return thread

        callers = [asking(prefill, 1), asking(decode, 1)]
        until(lambda: decode.load()["num_running_reqs"] == 1)
        ends(decode, callers)
        assert replies[prefill.port, 1].status == 200
        assert replies[decode.port, 1].status in (500, 503)
        lonely = [asking(prefill, 2)]
        until(lambda: prefill.load()["disaggregation"]["prefill_bootstrap_queue_reqs"] == 1)
        ends(prefill, lonely)
        assert replies[prefill.port, 2].status in (500, 503)


def ends(each: Worker, callers: list[threading.Thread]) -> None:
    each.process.terminate()
    assert each.process.wait(END_S) == 0
    for thread in callers:
        thread.join(END_S)
        assert not thread.is_alive()
    log = each.log.read_text("utf-8")
    assert "Traceback" not in log
    assert "ERROR" not in log


def test_idle_it_ends_at_once_also_by_ctrl_c(tmp_path: Path) -> None:
    with worker(tmp_path) as each, socket.create_connection(("127.0.0.1", each.port)):
        each.process.send_signal(signal.SIGINT)
        assert each.process.wait(END_S) == 0
    assert "Traceback" not in each.log.read_text("utf-8")


def test_a_step_that_takes_too_long_is_not_waited_for(tmp_path: Path) -> None:
    with worker(tmp_path, "--pace", "prefill=0,decode=60") as each:
        replies: list[Reply] = []

        def ask() -> None:
            replies.append(call(each.port, "POST", "/generate", generate_body("a", 9)))

        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: each.load()["num_running_reqs"] == 1)
        each.process.terminate()
        assert each.process.wait(END_S + 2) == 1
        asking.join(END_S)
    assert [reply.status for reply in replies] == [503]


FAILING = """
from ullage.tank.scheduler.unified import Unified
from ullage.tank.worker import worker

def fail(self):
    raise RuntimeError("the pool is on fire")

Unified._decode = fail
worker()
"""


def test_a_failed_engine_tells_its_callers_and_ends_the_worker(tmp_path: Path) -> None:
    """What no request can bring about is brought about by hand."""
    port = free_port()
    each = Worker(port, 0, tmp_path / "log", [sys.executable, "-c", FAILING, *COMMAND[3:], "--port", str(port)])
    reply = call(port, "POST", "/generate", generate_body("a", 9))
    assert reply.status == 500
    assert "the pool is on fire" in reply.json["message"]
    assert each.process.wait(END_S) == 1
    assert each.log.read_text("utf-8").splitlines()[-1] == "ullage tank: the engine failed: the pool is on fire"


def started(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *flags], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )


def assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """What is wrong stands in one line: the only one, or the last after click's usage."""
    *usage, line = done.stderr.splitlines()
    assert done.returncode == (2 if usage else 1), done
    assert not usage or usage[0].startswith("Usage: ")
    assert line.startswith("Error: " if usage else "ullage tank: "), line
    assert all(word in line for word in words), line


def test_a_taken_port_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_one_line(started("--port", str(port)), f"port {port} of 127.0.0.1", "--port")
        flags = ("--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", str(port))
        assert_one_line(started("--port", str(free_port()), *flags), f"port {port}", "bootstrap-port")


def test_of_two_that_start_at_once_on_one_port_one_serves() -> None:
    port = str(free_port())
    both = [
        subprocess.Popen([*COMMAND, "--port", port], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        until(lambda: any(each.poll() is not None for each in both))
        [loser] = [each for each in both if each.poll() is not None]
        assert loser.stderr is not None
        assert (loser.returncode, loser.stderr.read().count("\n")) == (1, 1)
    finally:
        for each in both:
            each.terminate()
            each.wait(15)
            assert each.stderr is not None
            each.stderr.close()


def test_tokens_are_not_held_back() -> None:
    """Nagle's algorithm is off on what is accepted from the port."""

    async def is_off() -> bool:
        accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listen("127.0.0.1", 0))
        _, here = await asyncio.open_connection(*server.sockets[0].getsockname())
        there = await accepted
        off = bool(there.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        for each in (here, there, server):
            each.close()
            await each.wait_closed()
        return off

    assert asyncio.run(is_off())


WORDS_THAT_CANNOT_BE = (
    "--port http",
    "--port 70000",
    "--memory much",
    "--memory .",
    "--memory 1.2.3GiB",
    "--mem-fraction-static 1.5",
    "--mem-fraction-static nan",
    "--page-size 0",
    "--schedule-conservativeness nan",
    "--bootstrap-timeout-s nan",
    "--waiting-timeout-s -1",
    "--random-seed -1",
    "--threads 5000",
    "--disaggregation-mode both",
    "--pace fast",
    "--pace prefill=nan,decode=0",
    "--pace prefill=1",
    "--tp 2",
    "serve",
)


@pytest.mark.parametrize("words", WORDS_THAT_CANNOT_BE)
def test_a_flag_that_cannot_be_is_one_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process: nothing is loaded before the flags are read."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as ended:
        module.worker.main(["--model-path", "tiny", "--port", str(taken.getsockname()[1]), *words.split()], "worker")
    printed = capsys.readouterr()
    assert_one_line(subprocess.CompletedProcess(words, cast(int, ended.value.code), *printed), words.split()[0])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--memory 1MiB", "--memory"),
        ("--memory 4000000GiB", "memory"),
        ("--max-total-tokens 1", ""),
        ("--host no.such.host.invalid", "no.such.host.invalid"),
        ("--model-path /no/such/file.gguf", "/no/such/file.gguf"),
    ],
)
def test_what_cannot_be_served_is_one_line(words: str, told: str) -> None:
    assert_one_line(started("--port", str(free_port()), *words.split()), told)


def test_a_key_is_asked_for_and_never_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_TANK_API_KEY", KEY)
    with worker(tmp_path) as each:
        ask: dict[str, Any] = {"model": "tiny", "prompt": "a", "max_tokens": 2}
        for key in ("wrong", KEY[:-1], KEY + "x"):
            with client(each.port, key) as there, pytest.raises(openai.AuthenticationError) as refused:
                there.completions.create(**ask)
            assert "Unauthorized" in refused.value.message
        with client(each.port, KEY) as there:
            assert there.completions.create(**ask).choices[0].finish_reason
            assert there.models.list().data
        for path in ("/generate", "/v1/models", "/server_info", "/v1/loads", "/metrics", "/flush_cache", "/no"):
            assert call(each.port, "GET", path).status == 401
        for path in ("/health", "/health_generate"):
            assert call(each.port, "GET", path).status == 200
        info = call(each.port, "GET", "/server_info", None, Authorization=f"Bearer {KEY}")
        assert info.json["api_key"] == info.json["internal_states"][0]["api_key"] == "***"
        assert KEY.encode() not in info.body
    assert KEY not in each.log.read_text("utf-8")
