"""What an ordinary user is told of the servers of others: less, and nothing that is not so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.systemd.machine import PYTHON, Machine
from tests.systemd.servers import TANK
from tests.systemd.test_bare_ullage import report, told

SOCKET = """#!/usr/bin/python3
import socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/vllm.sock")
server.listen()
print("listens", flush=True)
time.sleep(1000)
"""
IMPOSTOR = """
import os, socket
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/vllm.sock")
os.chmod("/tmp/vllm.sock", 0o777)
server.listen()
print("up", flush=True)
server.accept()
print("asked", flush=True)
"""


@pytest.fixture(scope="module")
def shared(machines: type[Machine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Servers of two users, and three others: one of them may read the journal."""
    with machines(tmp_path_factory.mktemp("shared") / "machine") as machine:
        for name in ("op", "mate", "reader"):
            machine.user(name)
        machine.run("usermod", "--append", "--groups", "systemd-journal", "reader")
        machine.write("/srv/bin/llama-server", "#!/usr/bin/python3\nimport time\ntime.sleep(1000)\n", 0o755)
        machine.write("/srv/bin/vllm", SOCKET, 0o755)
        silent = "StandardOutput=append:/home/op/log\nStandardError=inherit"
        machine.unit("silent.service", f"[Service]\nUser=op\n{silent}\nExecStart={TANK} --port 32001\n")
        machine.unit("mine.service", f"[Service]\nExecStart={TANK} --port 32002\n", user="op")
        machine.unit(
            "socket.service",
            "[Service]\nUser=op\nPrivateTmp=yes\nExecStart=/srv/bin/vllm serve m --uds /tmp/vllm.sock\n",
        )
        machine.systemctl("start", "silent.service", "socket.service")
        machine.systemctl("start", "mine.service", user="op")
        for port in (32001, 32002):
            asks = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/health', timeout=1)"
            machine.until(PYTHON, "-c", asks)
        machine.until("sh", "-c", "journalctl --unit=socket --output=cat | grep listens")
        yield machine


@pytest.mark.parametrize("user", ["", "op", "mate", "reader"])
def test_each_server_is_told_once_as_what_it_is(shared: Machine, user: str) -> None:
    found = report(shared, user=user)["servers"]
    pids = {s["figures"]["pid"]["value"]: s["engine"] for s in found if "pid" in s["figures"]}
    expected = {shared.show("silent.service", "MainPID"): "tank", shared.show("socket.service", "MainPID"): "vLLM"}
    expected[shared.show("mine.service", "MainPID", user="op")] = "tank"
    assert {str(pid): engine for pid, engine in pids.items()} == expected
    assert len(found) == len(pids)


@pytest.mark.parametrize("user", ["mate", "reader"])
def test_of_a_start_that_is_not_known_nothing_is_claimed(shared: Machine, user: str) -> None:
    text = told(shared, user=user)
    assert "no line of this start is left" not in text
    assert "it is a unit of op, whose manager tells nobody else; sudo" in text


def test_one_line_for_the_servers_of_one_user(shared: Machine) -> None:
    pids = sorted(int(shared.show(unit, "MainPID")) for unit in ("silent.service", "socket.service"))
    pids.append(int(shared.show("mine.service", "MainPID", user="op")))
    text = told(shared, user="mate")
    assert text.count("belongs to another user (op)") == 1
    assert all(f"pid {pid} (" in text for pid in pids)


def test_a_socket_of_the_same_name_is_another_servers(shared: Machine) -> None:
    shared.write("/srv/impostor.py", IMPOSTOR)
    shared.run("systemd-run", "--unit=impostor", PYTHON, "-u", "/srv/impostor.py")
    shared.until("sh", "-c", "journalctl --unit=impostor --output=cat | grep up")
    text = told(shared, user="mate")
    assert "listens on /tmp/vllm.sock, which is not there from here" in text
    assert "asked" not in shared.run("journalctl", "--unit=impostor", "--output=cat").stdout


def test_of_flags_in_a_closed_file_nothing_is_claimed(shared: Machine) -> None:
    """That a variable's value cannot be read is not that its flag is not set."""
    shared.write("/etc/closed.env", "PORT=32003\nFRACTION=0.83\n", 0o600)
    flags = "--port $PORT --mem-fraction-static ${FRACTION}"
    shared.unit("closed.service", f"[Service]\nUser=op\nEnvironmentFile=/etc/closed.env\nExecStart={TANK} {flags}\n")
    shared.systemctl("start", "closed.service")
    shared.until("sh", "-c", f"tr '\\0' ' ' < /proc/{shared.show('closed.service', 'MainPID')}/cmdline | grep 0.83")
    shared.run("sleep", "1.1")
    shared.write("/etc/closed.env", "PORT=32003\nFRACTION=0.85\n", 0o600)
    mine, theirs = told(shared), told(shared, user="mate")
    shared.systemctl("stop", "closed.service")
    assert "mem_fraction_static is 0.85 in /etc/systemd/system/closed.service" in mine
    assert "is not set in its files" not in theirs
    assert "/etc/closed.env (some of its command line there is not known)" in theirs
    assert "/etc/closed.env: no permission to read it; sudo" in theirs
