"""The servers of this host, from real processes: which there are, and which processes are one server."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psutil
import pytest

from ullage.engines import programs
from ullage.observe.host import proc
from ullage.observe.host.find import find_servers, told
from ullage.observe.host.running import Found

from .actors import Stage, descendants, free_port, kill, look, running, stage, the_one, wait_for

PYTHON = sys.executable


@pytest.fixture
def actors(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


def test_a_launcher_with_its_titled_ranks_is_one_server(actors: Stage) -> None:
    port = free_port()
    titles = ["sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"]
    words = [PYTHON, "-m", "sglang.launch_server", "--model-path", "m", "--port", str(port)]
    process = actors.start(words, part={"titles": titles, "ports": [["127.0.0.1", port]]})
    server = the_one(process)
    assert (server.program, server.main.pid, server.main.words) == ("SGLang", process.pid, tuple(words))
    assert sorted(member.title for member in server.members) == sorted(titles)
    assert server.urls == (f"http://127.0.0.1:{port}",)
    assert server.main.cwd == str(actors.folder)
    assert server.main.user == psutil.Process(process.pid).username()
    assert server.main.net_ns == os.stat("/proc/self/ns/net").st_ino
    assert server.owner == f"{process.pid}@{proc.stat('/proc', process.pid).start_ticks}"  # type: ignore[union-attr]


def test_vllms_engine_core_and_workers_below_each_other_are_one_server(actors: Stage) -> None:
    words = [str(actors.folder / "bin/vllm"), "serve", "m", "--port", str(free_port())]
    process = actors.start(words, part={"titles": ["VLLM::EngineCore", "VLLM::Worker_TP0", ""]})
    server = the_one(process)
    assert server.program == "vLLM"
    assert server.main.words[1:] == tuple(words), "the interpreter, then the script"
    assert len(server.members) == 3, "a fork with its parent's command line is no server of its own"


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_shell_around_a_server_is_not_the_server(actors: Stage, shell: str) -> None:
    line = f"{PYTHON} -m sglang.launch_server --model-path m; true"
    server = the_one(actors.start([shell, "-c", line]))
    assert server.main.words[1:3] == ("-m", "sglang.launch_server")


def test_two_servers_of_one_script_are_two(actors: Stage) -> None:
    one = f"{PYTHON} -m sglang.launch_server --port"
    process = actors.start(["bash", "-c", f"{one} 1 & {one} 2 & wait"], mains=2)
    assert [s.main.words[-1] for s in running(look(), process)] == ["1", "2"]


def test_a_child_with_a_command_line_of_its_own_is_a_server_of_its_own(actors: Stage) -> None:
    program, ready = str(actors.folder / "bin/llama-server"), actors.ready_folder()
    child = [program, "-m", "model.gguf", "--port", str(free_port())]
    part = {"ready": ready, "starts": [[child, {"ready": ready, "titles": [""]}]]}
    process = actors.start([program, "--models-dir", "x"], mains=2, part=part)
    servers = running(look(), process)
    assert [s.main.words[2:] for s in servers] == [("--models-dir", "x"), tuple(child[1:])]
    assert [len(s.members) for s in servers] == [0, 1]


def test_ranks_of_a_launcher_that_died_are_left_over(actors: Stage) -> None:
    process = actors.start([PYTHON, "-m", "sglang.launch_server"], part={"titles": ["sglang::scheduler_TP0"] * 2})
    orphans = descendants(process.pid)
    try:
        process.kill()
        process.wait(20)
        found = look()
        (left,) = [x for x in found.leftovers if {p.pid for p in x.processes} & set(orphans)]
        assert (left.program, [p.title for p in left.processes]) == ("SGLang", ["sglang::scheduler_TP0"] * 2)
    finally:
        for pid in orphans:
            kill(pid)


def test_an_engine_inside_a_script_is_told_apart_from_what_is_left_over(actors: Stage) -> None:
    """As `LLM(...)` in a script of one's own: it serves nobody, and nothing of it is left over."""
    script = actors.folder / "offline.py"
    script.write_text((actors.folder / "bin/vllm").read_text())
    process = actors.start([PYTHON, str(script)], part={"titles": ["VLLM::EngineCore"]})
    found = look()
    assert running(found, process) == []
    (engine,) = [engine for engine in found.embedded if engine.parent.pid == process.pid]
    assert (engine.program, [p.title for p in engine.processes]) == ("vLLM", ["VLLM::EngineCore"])
    assert [left for left in found.leftovers if left.processes[0].ppid == process.pid] == []


def test_a_rank_whose_parent_is_gone_belongs_to_the_older_server_of_its_group(actors: Stage) -> None:
    """The helper forks and ends, so that its child is nobody's."""
    helper = (
        "import os,sys,time\nimport setproctitle as s\nif os.fork(): sys.exit()\ns.setproctitle('sglang::detokenizer')"
    )
    helper += "\nf = open(sys.argv[1] + '~', 'w'); f.write(str(os.getpid())); f.close(); os.rename(f.name, sys.argv[1])"
    flag = actors.folder / "orphan"
    part = {"starts": [[[PYTHON, "-c", f"{helper}\ntime.sleep(60)", str(flag)], {}]]}
    process = actors.start([PYTHON, "-m", "sglang.launch_server"], part=part)
    wait_for(flag.exists)
    orphan = int(flag.read_text())
    try:
        assert [m.title for m in the_one(process).members if m.pid == orphan] == ["sglang::detokenizer"]
    finally:
        kill(orphan)


def test_a_router_under_a_title_and_the_flags_that_its_unit_tells(actors: Stage) -> None:
    port, metrics = sorted([free_port(), free_port()], reverse=True)
    words = [PYTHON, "-m", "sglang_router.launch_router", "--port", str(port)]
    part = {"title": "sglang::router", "ports": [["127.0.0.1", port], ["127.0.0.1", metrics]]}
    process = actors.start(words, part=part)
    found = look()
    (server,) = running(found, process)
    assert (server.program, server.main.words, server.main.environment) == ("sglang-router", ("sglang::router",), None)
    assert server.urls == (f"http://127.0.0.1:{metrics}", f"http://127.0.0.1:{port}")
    assert any("which of them serves" in remark for remark in server.remarks)
    (line,) = [line for line in found.unreadable if f"pid {process.pid} " in line.what]
    assert line.what == f"the flags and the environment of pid {process.pid} (sglang-router)"
    known = told(server, words, programs)
    assert (known.urls, known.remarks, known.words) == ((f"http://127.0.0.1:{port}",), (), tuple(words))


def test_flags_lost_under_a_title_are_read_from_the_parent_that_waits(actors: Stage) -> None:
    port = free_port()
    words = [PYTHON, "-m", "sglang_router.launch_router", "--port", str(port)]
    part = {"title": "sglang::router", "ports": [["127.0.0.1", port], ["127.0.0.1", free_port()]]}
    process = actors.start(["timeout", "100", *words], part=part)
    server = the_one(process)
    assert server.words == tuple(words)
    assert server.urls == (f"http://127.0.0.1:{port}",)
    assert f"its flags are read from the process that started it (pid {process.pid})" in server.remarks


def test_only_variables_that_bear_on_it_are_kept(actors: Stage) -> None:
    env = {
        "SGLANG_DP_RANK": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "MY_SECRET": "s",
        "HF_TOKEN": "hf_x",
        "LLAMA_ARG_A": "",
    }
    server = the_one(actors.start([PYTHON, "-m", "sglang.launch_server"], env=env))
    assert server.main.environment == {"SGLANG_DP_RANK": "1", "CUDA_VISIBLE_DEVICES": "0,1"}


def test_words_of_any_bytes_and_any_length(actors: Stage) -> None:
    long = b"x" * 100_000
    words = [PYTHON.encode(), b"-m", b"sglang.launch_server", b"--served-model-name", b"\xff\xfe\x80", long]
    server = the_one(actors.start(words))
    assert server.main.words[4] == "\ufffd\ufffd\ufffd"
    assert len(server.main.words[5]) == 100_000


@pytest.mark.parametrize("title", [" ", "\n", "(odd) ) S 1", "a\tb"])
def test_a_process_with_any_title_does_no_harm(actors: Stage, title: str) -> None:
    process = actors.start([PYTHON, "-m", "sglang.launch_server"], part={"title": title})
    assert running(look(), process) == []


def test_a_zombie_is_no_server(actors: Stage) -> None:
    process = actors.start([str(actors.folder / "bin/llama-server")])
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert [s for s in look().servers if s.main.pid == process.pid] == []


def test_processes_that_come_and_go_meanwhile(actors: Stage) -> None:
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            subprocess.run(["/bin/true", "vllm", "serve"], check=False)

    process = actors.start([PYTHON, "-m", "sglang.launch_server"])
    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert all(len(running(look(), process)) == 1 for _ in range(15))
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_pid_that_is_given_out_again_while_it_is_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    own = proc.stat("/proc", os.getpid())
    assert own is not None
    assert proc.whole("/proc", os.getpid()) is not None
    answers = iter([own, own._replace(start_ticks=own.start_ticks + 1)])
    monkeypatch.setattr(proc, "stat", lambda *_: next(answers))
    assert proc.whole("/proc", os.getpid()) is None


def test_a_process_begins_when_the_boot_clock_says(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    own = proc.stat("/proc", os.getpid())
    assert own is not None
    began = proc.started_at(own.start_ticks, now)
    assert began is not None
    assert abs(began.timestamp() - psutil.Process().create_time()) < 5, "psutil's is by the wall clock at boot"
    (tmp_path / "uptime").write_text("1000.50 7.00\n")
    ticks = 900 * os.sysconf("SC_CLK_TCK")
    assert proc.started_at(ticks, now, str(tmp_path)) == now - timedelta(seconds=100.5)
    moved = now + timedelta(days=30)
    assert proc.started_at(ticks, moved, str(tmp_path)) == moved - timedelta(seconds=100.5), "the clock was set"
    assert proc.started_at(ticks, now, str(tmp_path / "none")) is None


def test_a_host_without_servers(tmp_path: Path) -> None:
    assert find_servers(programs, str(tmp_path)) == Found((), (), (), 0)


def test_two_servers_told_to_use_one_port(actors: Stage) -> None:
    port = str(free_port())
    words = [PYTHON, "-m", "sglang.launch_server", "--port", port]
    first = actors.start(words, part={"ports": [["127.0.0.1", int(port)]]})
    second = actors.start([str(actors.folder / "bin/vllm"), "serve", "m", "--port", port])
    assert the_one(first).remarks == ()
    server = the_one(second)
    assert server.urls == ()
    taken = f"port {port}, which its flags name, is taken by pid {first.pid} (SGLang)"
    assert server.remarks == (f"does not listen on port {port}", taken)


def test_a_port_that_a_stranger_has(actors: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        server = the_one(actors.start([PYTHON, "-m", "sglang.launch_server", "--port", str(port)]))
    assert f"port {port}, which its flags name, is taken by a process that is none of its own" in server.remarks


def test_one_port_shared_by_two_servers_and_by_one(actors: Stage) -> None:
    port = free_port()
    part = {"ports": [["127.0.0.1", port], ["127.0.0.1", port]], "shared": True}
    words = [PYTHON, "-m", "sglang.launch_server", "--port", str(port)]
    first = actors.start(words, part=part)
    assert the_one(first).remarks == ()
    second = actors.start([*words, "--tp", "2"], part=part)
    for one, other in ((first, second), (second, first)):
        server = the_one(one)
        assert server.urls == (f"http://127.0.0.1:{port}",)
        whose = f"port {port} is that of pid {other.pid} (SGLang) too: a request reaches either of them"
        assert server.remarks == (whose,)


def test_a_router_that_started_its_own_workers_is_a_server_beside_theirs(actors: Stage) -> None:
    """As `smg server` does: both set titles, and theirs stand below its own."""
    ready = actors.ready_folder()
    ports = [free_port(), free_port()]
    workers = [{"ready": ready, "title": "sglang::server", "ports": [["127.0.0.1", port]]} for port in ports]
    words = [PYTHON, "-m", "sglang.launch_server"]
    part = {"ready": ready, "title": "sglang::router", "starts": [[words, worker] for worker in workers]}
    process = actors.start([str(actors.folder / "bin/smg"), "server", "--dp-size", "2"], mains=3, part=part)
    servers = running(look(), process)
    assert sorted(s.program for s in servers) == ["SGLang", "SGLang", "sglang-router"]
    assert sorted(s.urls[0] for s in servers if s.urls) == sorted(f"http://127.0.0.1:{port}" for port in ports)


def test_the_real_router(tmp_path: Path) -> None:
    pytest.importorskip("sglang_router")
    port, metrics = free_port(), free_port()
    words = [PYTHON, "-m", "sglang_router.launch_router", "--port", str(port), "--prometheus-port", str(metrics)]
    words += ["--host", "127.0.0.1", "--worker-urls", f"http://127.0.0.1:{free_port()}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(lambda: any(len(s.listens) == 2 for s in running(look(), process)), process)
        server = the_one(process)
        assert (server.program, server.main.words) == ("sglang-router", ("sglang::router",))
        assert {one.port for one in server.listens} == {port, metrics}
        assert told(server, words, programs).urls == (f"http://127.0.0.1:{port}",)
    finally:
        process.kill()
        process.wait(20)


def test_a_server_that_was_called_by_another_name(actors: Stage) -> None:
    line = f"exec -a prod-llm {PYTHON} -m sglang.launch_server --model-path m --port {(port := free_port())}"
    process = actors.start(["bash", "-c", line], part={"ports": [["127.0.0.1", port]]})
    server = the_one(process)
    assert server.program == "SGLang"
    assert server.main.words == (os.path.realpath(PYTHON), *line.split()[4:])
    assert server.urls == (f"http://127.0.0.1:{port}",)
    assert server.remarks == ()


def test_a_program_that_was_replaced_under_a_server(actors: Stage) -> None:
    """As an upgrade does: what runs is not what the next start would run."""
    program = actors.folder / "llama-server"
    shutil.copy("/bin/sleep", program)
    process = subprocess.Popen([program, "60"])
    try:
        before = the_one(process)
        shutil.copy("/bin/true", actors.folder / "new")
        (actors.folder / "new").replace(program)
        after = the_one(process)
    finally:
        process.kill()
        process.wait()
    said = f"{program} was removed or replaced since it started: it runs on with the old one"
    assert (said in before.remarks, said in after.remarks) == (False, True)
