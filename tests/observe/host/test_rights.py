"""What an ordinary user learns of another user's servers, with privileges really dropped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import ullage

from .actors import Stage, can_unshare, free_port, stage

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
LOOK = """
import json, os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
from ullage.engines import programs
from ullage.observe.host.find import find_servers
found = find_servers(programs, fix="sudo /opt/ullage")
pid = int(sys.argv[1])
print(json.dumps({
    "servers": [(s.urls, s.remarks, s.main.environment, s.main.cwd, s.main.net_ns, s.listens, s.output, s.foreign,
                 len(s.members)) for s in found.servers if s.main.pid == pid],
    "unreadable": [tuple(line) for line in found.unreadable if f"pid {pid}" in line.what],
}))
"""


@pytest.fixture
def actors(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


def as_nobody(pid: int) -> dict[str, Any]:
    """The search as the user nobody. The sources may lie where only root may look, so they are copied first."""
    source = Path(ullage.__file__).parents[1]
    line = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(source)!r})\n{PRELOAD}\n{LOOK}", str(pid)]
    answer: dict[str, Any] = json.loads(subprocess.run(line, check=True, capture_output=True, timeout=60).stdout)
    return answer


PRELOAD = """
import ullage.engines.programs, ullage.observe.host.find, pwd, yaml
"""


def test_a_server_of_another_user_is_found_and_asked_at_the_port_of_its_flags(actors: Stage) -> None:
    port = free_port()
    words = [sys.executable, "-m", "sglang.launch_server", "--port", str(port)]
    part = {"ports": [["127.0.0.1", port], ["127.0.0.1", free_port()]], "titles": ["sglang::scheduler_TP0"]}
    process = actors.start(words, part=part)
    seen = as_nobody(process.pid)
    ((urls, remarks, environment, cwd, net_ns, listens, output, foreign, members),) = seen["servers"]
    assert urls == [f"http://127.0.0.1:{port}"]
    assert remarks == ["its sockets are not readable: the port is taken from its flags"]
    assert (environment, cwd, net_ns, foreign, members) == (None, "", None, False, 1)
    assert listens == [["127.0.0.1", port, None, ""]]
    assert output[0] == "unknown"
    what = f"environment, working directory, sockets, output of pid {process.pid} (SGLang)"
    assert seen["unreadable"] == [[what, "it belongs to another user (root)", "sudo /opt/ullage"]]


def test_a_relative_config_file_of_another_user(actors: Stage) -> None:
    (actors.folder / "c.yaml").write_text("port: 1\n")
    process = actors.start([sys.executable, "-m", "sglang.launch_server", "--config", "c.yaml"])
    lines = {tuple(line) for line in as_nobody(process.pid)["unreadable"]}
    what = f"c.yaml, the --config of pid {process.pid}"
    assert (what, "its working directory is not readable", "sudo /opt/ullage") in lines


def test_an_absolute_config_file_behind_a_root_that_is_closed(actors: Stage) -> None:
    """What lies at that path for us may be another file: a container has a root of its own."""
    path = actors.folder / "c.yaml"
    path.write_text("port: 1\n")
    process = actors.start([sys.executable, "-m", "sglang.launch_server", "--config", str(path)])
    lines = {tuple(line) for line in as_nobody(process.pid)["unreadable"]}
    assert (f"{path}, the --config of pid {process.pid}", "it is not ours to read", "sudo /opt/ullage") in lines


def test_a_server_that_nobody_listens_for_has_no_url(actors: Stage) -> None:
    port = free_port()
    process = actors.start([sys.executable, "-m", "sglang.launch_server", "--port", str(port)])
    ((urls, remarks, *_),) = as_nobody(process.pid)["servers"]
    assert urls == []
    assert f"does not listen on port {port}" in remarks


@pytest.mark.skipif(not can_unshare(), reason="network namespaces are not permitted here")
def test_another_users_network_is_told_from_ours(actors: Stage) -> None:
    """Though the namespace itself may not be read: else our own port of that number would be asked."""
    port = free_port()
    line = f"ip link set lo up; exec {sys.executable} -m sglang.launch_server --port {port}"
    process = actors.start(["unshare", "--net", "sh", "-c", line], part={"ports": [["127.0.0.1", port]]})
    ((urls, remarks, _, _, net_ns, listens, _, foreign, _),) = as_nobody(process.pid)["servers"]
    assert (urls, net_ns, foreign) == ([], None, True)
    assert listens == [["127.0.0.1", port, None, ""]]
    assert remarks[-1].startswith("listens in a network namespace of its own")


def may_run(path: str, user: dict[str, Any]) -> bool:
    try:
        return subprocess.run([path, "-c", ""], check=False, **user).returncode == 0
    except OSError:
        return False


def test_a_server_of_ones_own_is_read_whole() -> None:
    nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
    pythons = [path for path in (sys.executable, "/usr/bin/python3") if may_run(path, nobody)]
    if not pythons:
        pytest.skip("no Python here that another user may run")
    port = free_port()
    with TemporaryDirectory() as folder, stage(Path(folder)) as actors:
        actors.folder.chmod(0o755)
        part: dict[str, Any] = {"ready": actors.ready_folder(), "ports": [["127.0.0.1", port]]}
        Path(part["ready"]).chmod(0o777)
        words = [pythons[0], "-m", "sglang.launch_server", "--port", str(port)]
        process = actors.start(words, part=part, **nobody)
        seen = as_nobody(process.pid)
    ((urls, remarks, environment, cwd, *_),) = seen["servers"]
    assert (urls, remarks, environment, cwd) == ([f"http://127.0.0.1:{port}"], [], {}, str(actors.folder))
    assert seen["unreadable"] == []
