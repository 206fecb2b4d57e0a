"""Containers: what docker and podman tell, in their own forms, by programs of our own in their place; and a real podman
where one can run.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.engines.read import log_markers
from ullage.evidence import Evidence, Failure, Log
from ullage.masking import Masker
from ullage.observe.host import container_log
from ullage.observe.host.containers import (
    Container,
    ContainerRef,
    container_of,
    read_container,
    read_container_log,
    remark_of,
)
from ullage.observe.log_choice import LogWords
from ullage.observe.log_file import LogScan

from .servers import fixed, running

ID, OTHER = "3f2a" * 16, "9c1e" * 16
DOCKER, PODMAN = ContainerRef("docker", ID), ContainerRef("podman", ID)
MASKER = Masker()
SCAN = LogScan(tuple(LogWords(*markers) for markers in log_markers()))
PATIENCE = 60.0
STARTED = datetime(2026, 11, 30, 9, 0, 0, 116406, timezone.utc)
USER = "/user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize(
    ("cgroup", "ref"),
    [
        (f"/docker/{ID}", DOCKER),
        (f"/system.slice/docker-{ID}.scope", DOCKER),
        (f"/system.slice/docker-{ID}.scope/init", DOCKER),
        (f"/my.slice/docker-{ID}.scope", DOCKER),
        (f"/actions_job/{ID}", DOCKER),
        (f"/docker/{ID}/docker/{OTHER}", DOCKER),
        (f"{USER}/user.slice/docker-{ID}.scope", ContainerRef("docker", ID, 1000)),
        (f"/machine.slice/libpod-{ID}.scope/container", PODMAN),
        (f"/libpod_parent/libpod-{ID}", PODMAN),
        (f"/system.slice/sglang.service/libpod-payload-{ID}", PODMAN),
        (f"{USER}/user.slice/libpod-{ID}.scope/container", ContainerRef("podman", ID, 1000)),
        (f"{USER}/app.slice/sglang.service/libpod-payload-{ID}", ContainerRef("podman", ID, 1000)),
        (f"/user.slice/user-0.slice/user@0.service/user.slice/libpod-{ID}.scope", PODMAN),
        ("/", None),
        ("", None),
        ("/system.slice/sglang.service", None),
        ("/docker/3f2a", None),
        (f"/machine.slice/libpod-conmon-{ID}.scope", None),
        (f"/default/{ID}", None),
        (f"/system.slice/docker-{ID}.service", None),
    ],
)
def test_a_control_group_names_the_container(cgroup: str, ref: ContainerRef | None) -> None:
    assert container_of(cgroup) == ref
    assert remark_of(cgroup) == ""


@pytest.mark.parametrize(
    "cgroup",
    [
        f"/kubepods/burstable/pod0a1b/{ID}",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b.slice/cri-containerd-{ID}.scope",
        f"/system.slice/crio-{ID}.scope",
        f"/docker/{OTHER}/kubelet/kubepods/besteffort/pod0a1b/{ID}",
    ],
)
def test_kubernetes_is_out_of_scope_and_said_to_be(cgroup: str) -> None:
    assert container_of(cgroup) is None
    assert remark_of(cgroup) == "it runs in a Kubernetes pod, which is out of scope"


FORMS = {
    "docker-{}.scope": "docker",
    "docker/{}": "docker",
    "libpod-{}.scope": "podman",
    "libpod-{}": "podman",
    "libpod-payload-{}": "podman",
}
PLAIN = st.lists(
    st.text("abcxyz0123456789-_.@\\x", min_size=1, max_size=70).filter(lambda part: len(part) != 64), max_size=4
)
ANY = st.text() | st.sampled_from([ID, f"docker-{OTHER}.scope", f"libpod-{OTHER}"])


@given(PLAIN, st.sampled_from(sorted(FORMS)), st.text("0123456789abcdef", min_size=64, max_size=64), st.lists(ANY))
def test_the_outermost_container_counts_whatever_stands_around_it(
    before: list[str], form: str, name: str, inside: list[str]
) -> None:
    inside = [part for part in inside if not remark_of(part)]
    found = container_of("/".join(["", *before, form.format(name), *inside]))
    assert found == ContainerRef(FORMS[form], name)


@given(st.text() | st.text("docker-libpodscope./0123456789abcdef@user"))
def test_any_text_is_a_control_group(text: str) -> None:
    found = container_of(text)
    assert found is None or found.id in text


def docker_inspect(**changes: Any) -> dict[str, Any]:
    """As Docker 20 to 29 tell it, shortened to what a server's container is likely to have."""
    return {
        "Id": ID,
        "Created": "2026-11-29T08:00:00.000000001Z",
        "Path": "python3",
        "Args": ["-m", "sglang.launch_server", "--port", "30000", "--api-key", "hunter2-hunter2"],
        "State": {"Status": "running", "Running": True, "Pid": 4242, "StartedAt": "2026-11-30T09:00:00.116406887Z"},
        "Image": "sha256:" + ID,
        "LogPath": f"/var/lib/docker/containers/{ID}/{ID}-json.log",
        "Name": "/sglang-decode",
        "RestartCount": 2,
        "HostConfig": {
            "LogConfig": {"Type": "json-file", "Config": {}},
            "NetworkMode": "bridge",
            "PortBindings": {"30000/tcp": [{"HostIp": "", "HostPort": "8000"}]},
        },
        "Config": {
            "Image": "lmsysorg/sglang:latest",
            "Env": [
                "PATH=/usr/bin",
                "SGLANG_HEALTH_CHECK_TIMEOUT=20",
                "HF_TOKEN=hf_abcdefghijK1",
                "CUDA_VISIBLE_DEVICES=0,1",
            ],
            "Cmd": ["python3"],
            "Entrypoint": None,
        },
        "NetworkSettings": {
            "Ports": {
                "30000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8000"}, {"HostIp": "::", "HostPort": "8000"}],
                "9000/udp": [{"HostIp": "0.0.0.0", "HostPort": "9000"}],
                "8998/tcp": None,
            },
            "IPAddress": "172.17.0.2",
            "Networks": {"bridge": {"IPAddress": "172.17.0.2", "GlobalIPv6Address": ""}},
        },
    } | changes


def podman_inspect(**changes: Any) -> dict[str, Any]:
    """As Podman 4 and 5 tell it."""
    return {
        "Id": ID,
        "Path": "/bin/llama-server",
        "Args": ["/bin/llama-server"],
        "State": {"Status": "running", "Running": True, "Pid": 77, "StartedAt": "2026-11-30T10:00:00.116406887+01:00"},
        "ImageName": "ghcr.io/ggml-org/llama.cpp:server",
        "Name": "llama",
        "RestartCount": 0,
        "NetworkSettings": {
            "Ports": {"8080/tcp": [{"HostIp": "", "HostPort": "9001"}]},
            "IPAddress": "",
            "Networks": {"llm": {"IPAddress": "10.89.0.5", "GlobalIPv6Address": "fd00::5"}},
        },
        "Config": {"Image": "", "Env": ["LLAMA_ARG_CTX_SIZE=8192"], "Cmd": ["/bin/llama-server"], "Entrypoint": ""},
        "HostConfig": {
            "NetworkMode": "bridge",
            "LogConfig": {"Type": "k8s-file", "Config": None, "Path": "/var/lib/x/ctr.log", "Size": "10MB"},
        },
    } | changes


class Program:
    """A program in docker's or podman's place on the PATH. It writes down how it was called."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.path = folder, folder / name
        self.calls_file = folder / "calls"

    def does(self, script: str) -> None:
        self.path.write_text(
            f'#!/bin/sh\necho "$@" "$DOCKER_HOST" "$TZ" >> {shlex.quote(str(self.calls_file))}\n{script}\n'
        )
        self.path.chmod(0o755)

    def prints(self, output: str = "", errors: str = "", code: int = 0) -> None:
        (self.folder / "output").write_text(output)
        (self.folder / "errors").write_text(errors)
        where = shlex.quote(str(self.folder))
        self.does(f"cat {where}/output; cat {where}/errors >&2; exit {code}")

    def inspects(self, data: dict[str, Any], **others: dict[str, Any]) -> None:
        cases = "".join(f"*{other}*) cat {self._file(told)};;\n" for other, told in others.items())
        self.does(f'case "$*" in\n{cases}*) cat {self._file(data)};;\nesac')

    def logs(self, data: dict[str, Any], output: str, errors: str = "", tail: str = "") -> None:
        files = [self._file(data), *(shlex.quote(str(self._text(text))) for text in (output, errors, tail))]
        rest = f"cat {files[1]}; cat {files[2]} >&2"
        self.does(f'case "$*" in inspect*) cat {files[0]};; *--tail*) cat {files[3]};; *) {rest};;\nesac')

    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines()

    def _file(self, data: dict[str, Any]) -> str:
        return shlex.quote(str(self._text(json.dumps([data]))))

    def _text(self, text: str) -> Path:
        path = self.folder / f"text{len(list(self.folder.iterdir()))}"
        path.write_text(text)
        return path


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return program(tmp_path, "docker", monkeypatch)


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return program(tmp_path, "podman", monkeypatch)


def program(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The only one on the PATH, beside the shell's own."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    (folder / "bin").mkdir()
    for tool in ("cat", "sleep", "yes"):
        (folder / "bin" / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(folder / "bin"))
    made = Program(folder, "")
    made.path = folder / "bin" / name
    return made


def told(ref: ContainerRef) -> Container:
    found = read_container(ref, MASKER, PATIENCE)
    assert isinstance(found, Container), found
    return found


def refused(ref: ContainerRef, time_limit_s: float = PATIENCE) -> Failure:
    found = read_container(ref, MASKER, time_limit_s)
    assert isinstance(found, Failure), found
    return found


def test_what_docker_tells(docker: Program) -> None:
    docker.inspects(docker_inspect())
    found = told(DOCKER)
    assert str(found.ref) == "docker 3f2a3f2a3f2a"
    assert (found.name, found.image, found.pid, found.restarts) == ("sglang-decode", "lmsysorg/sglang:latest", 4242, 2)
    assert found.command == ("python3", "-m", "sglang.launch_server", "--port", "30000", "--api-key", "***")
    assert found.environment == {
        "SGLANG_HEALTH_CHECK_TIMEOUT": "20",
        "HF_TOKEN": "***",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }
    assert found.ports == {30000: (("0.0.0.0", 8000), ("::", 8000))}
    assert (found.addresses, found.network, found.started_at) == (("172.17.0.2",), "bridge", STARTED)
    assert (found.log_driver, found.log_rotates, found.remarks) == ("json-file", False, ())
    assert found.log_path.endswith("-json.log")
    assert docker.calls() == [f"inspect --type container {ID} unix:///var/run/docker.sock UTC"]


def test_what_podman_tells(podman: Program) -> None:
    podman.inspects(podman_inspect())
    found = told(PODMAN)
    assert (found.name, found.command, found.image) == (
        "llama",
        ("/bin/llama-server",),
        "ghcr.io/ggml-org/llama.cpp:server",
    )
    assert found.environment == {"LLAMA_ARG_CTX_SIZE": "8192"}
    assert found.ports == {8080: (("0.0.0.0", 9001),)}
    assert (found.addresses, found.started_at) == (("10.89.0.5", "fd00::5"), STARTED)
    assert (found.log_driver, found.log_path, found.log_rotates) == ("k8s-file", "/var/lib/x/ctr.log", True)


@pytest.mark.parametrize(
    ("listens", "urls"),
    [
        ([("0.0.0.0", 30000)], ("http://127.0.0.1:8000", "http://[::1]:8000")),
        ([("0.0.0.0", 30000), ("0.0.0.0", 40000), ("", 0)], ("http://127.0.0.1:8000", "http://[::1]:8000")),
        ([("::", 40000)], ("http://172.17.0.2:40000",)),
        ([("::", 40000), ("::", 40001)], ()),
        ([("127.0.0.1", 30000)], ()),
        ([], ()),
    ],
)
def test_how_a_server_inside_is_reached(docker: Program, listens: list[tuple[str, int]], urls: tuple[str, ...]) -> None:
    docker.inspects(docker_inspect())
    assert told(DOCKER).urls(listens) == urls


def test_in_the_network_of_the_host(docker: Program) -> None:
    docker.inspects(docker_inspect(HostConfig={"NetworkMode": "host"}, NetworkSettings={"Ports": {}, "Networks": {}}))
    found = told(DOCKER)
    assert found.urls([("::", 30000), ("127.0.0.1", 1), ("", 0)]) == ("http://[::1]:30000", "http://127.0.0.1:1")
    assert found.remarks == ()


def test_in_the_network_of_another_container(docker: Program) -> None:
    inside = docker_inspect(HostConfig={"NetworkMode": f"container:{OTHER}"}, NetworkSettings={"Ports": {}})
    docker.inspects(inside, **{OTHER: docker_inspect()})
    assert told(DOCKER).urls([("0.0.0.0", 30000)])[0] == "http://127.0.0.1:8000"


def test_nothing_published_is_said(docker: Program) -> None:
    docker.inspects(docker_inspect(NetworkSettings={"Ports": {}, "Networks": {}}))
    found = told(DOCKER)
    assert (found.remarks, found.urls([("0.0.0.0", 30000)])) == (("it publishes no port",), ())


def test_one_that_ended_meanwhile(docker: Program) -> None:
    state = {"Status": "exited", "Running": False, "Pid": 0, "StartedAt": "0001-01-01T00:00:00Z"}
    docker.inspects(docker_inspect(State=state))
    found = told(DOCKER)
    assert (found.pid, found.started_at, found.remarks) == (None, None, ("it does not run any more",))


DENIED = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get"
    ' "http://%2Fvar%2Frun%2Fdocker.sock/v1.50/containers/x/json": dial unix /var/run/docker.sock: connect: permission'
    " denied"
)
DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
DOWN_NEW = (
    "failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is correct and if the daemon"
    " is running: dial unix /var/run/docker.sock: connect: no such file or directory"
)


@pytest.mark.parametrize(
    ("said", "status", "advice"),
    [
        (DENIED, "no rights", "to the group: sudo usermod -aG docker "),
        (DOWN, "down", "sudo systemctl start docker"),
        (DOWN_NEW, "down", "sudo systemctl start docker"),
        (f"Error response from daemon: No such container: {ID}", "missing", "docker ps --all"),
        ("unknown flag: --type", "failed", "docker inspect 3f2a3f2a3f2a"),
        ("", "failed", "docker inspect 3f2a3f2a3f2a"),
    ],
)
def test_docker_refuses(docker: Program, said: str, status: str, advice: str) -> None:
    docker.prints("[]", f"{said}\n", 1)
    found = refused(DOCKER)
    assert found.status == status
    assert advice in found.advice


def test_the_line_that_gives_the_rights(docker: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The full path of this Ullage: root's PATH does not have it."""
    own = docker.folder / "ullage"
    own.write_text("")
    own.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(own)])
    docker.prints("", DENIED, 1)
    assert refused(DOCKER).advice.startswith(f"sudo {own}, or add ")


def test_a_secret_in_an_error_is_hidden(docker: Program) -> None:
    docker.prints("", "error: proxy http://op:hunter2@proxy failed", 1)
    assert "hunter2" not in refused(DOCKER).reason


def test_a_program_that_hangs_holds_nobody(docker: Program) -> None:
    docker.does("sleep 600")
    found = refused(DOCKER, 0.3)
    assert (found.status, found.reason) == ("timeout", "docker did not answer within 0.3 s")


def test_a_program_that_prints_without_end(docker: Program) -> None:
    docker.does("yes")
    assert refused(DOCKER).status == "too large"


@pytest.mark.parametrize("output", ["", "[]", "{}", "[1]", "no json", "[{}, {}]"])
def test_what_is_no_answer(docker: Program, output: str) -> None:
    docker.prints(output)
    assert refused(DOCKER).status == "not json"


@pytest.mark.parametrize(
    "changes",
    [
        {"Config": "a"},
        {"State": [1]},
        {"NetworkSettings": {"Ports": {"x/tcp": [{"HostPort": "1"}]}}},
        {"NetworkSettings": {"Ports": {"1/tcp": [{}]}}},
        {"Args": 1},
    ],
)
def test_an_answer_of_another_form_is_no_crash(docker: Program, changes: dict[str, Any]) -> None:
    docker.inspects(docker_inspect(**changes))
    assert refused(DOCKER).status == "not understood"


def test_a_program_that_cannot_be_started(docker: Program) -> None:
    docker.path.write_text("neither a script nor a binary")
    docker.path.chmod(0o755)
    assert "cannot be asked" in refused(DOCKER).reason


def test_without_its_program_docker_is_asked_by_its_socket(docker: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(str(docker.folder / "docker.sock")) as server:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{docker.folder}/docker.sock")
        server.answering = fixed(json.dumps(docker_inspect()))
        assert told(DOCKER).ports[30000][0] == ("0.0.0.0", 8000)
        assert told(DOCKER).environment["HF_TOKEN"] == "***"
        assert server.seen[0][0] == f"/containers/{ID}/json"
        server.answering = fixed(json.dumps({"message": f"No such container: {ID}"}), 404)
        assert refused(DOCKER).status == "missing"
        server.answering = fixed('"a"')
        assert refused(DOCKER).status == "not json"
    assert refused(DOCKER).status == "down"


def test_a_daemon_of_another_host_is_not_asked(docker: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
    docker.inspects(docker_inspect())
    told(DOCKER)
    told(DOCKER._replace(uid=os.geteuid() or None))
    assert "elsewhere" not in "".join(docker.calls())


@pytest.mark.usefixtures("podman")
def test_podman_that_is_not_there() -> None:
    assert refused(PODMAN).reason == "podman 3f2a3f2a3f2a cannot be asked: no podman on the PATH"


@pytest.mark.parametrize(("uid", "owner"), [(None, "root"), (54321, "54321")])
def test_podmans_containers_are_seen_by_their_user_alone(
    podman: Program, monkeypatch: pytest.MonkeyPatch, uid: int | None, owner: str
) -> None:
    podman.inspects(podman_inspect())
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    found = refused(PODMAN._replace(uid=uid))
    assert (found.status, found.reason) == ("no rights", f"podman 3f2a3f2a3f2a belongs to another user ({owner})")
    assert found.advice.startswith("sudo ")
    assert not podman.calls_file.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
def test_root_asks_for_a_users_container_as_that_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        podman = Path(folder) / "podman"
        answer = json.dumps([podman_inspect(Name="NAME")]).replace("NAME", "'$(id -u):$(id -g),$XDG_RUNTIME_DIR'")
        podman.write_text(f"#!/bin/sh\nprintf '%s' '{answer}'\n")
        podman.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        assert told(PODMAN._replace(uid=54321)).name == "54321:54321,/run/user/54321"


def log_lines(items: list[Evidence]) -> list[tuple[str, str]]:
    [item] = items
    assert isinstance(item.content, Log), item.content
    return [(line.time[11:19], line.text) for line in item.content.lines]


def gaps(items: list[Evidence]) -> tuple[str, ...]:
    [item] = items
    assert isinstance(item.content, Log), item.content
    return item.content.gaps


def stamped(at: str, text: str) -> str:
    return f"2026-11-30T{at}.000000001Z {text}\n"


ARGS = "[2026-11-30 {}] server_args=ServerArgs(model_path='/models/a', api_key='hunter2-hunter2')"
BATCH = "[2026-11-30 09:00:{:02}] Decode batch. #running-req: 1, #token: 5, token usage: 0.01"


def test_both_streams_of_a_log_in_the_order_of_time(docker: Program) -> None:
    output = stamped("09:00:02", BATCH.format(2)) + stamped("09:00:04", BATCH.format(4))
    errors = stamped("09:00:01", ARGS.format("09:00:01")) + stamped("09:00:03", BATCH.format(3))
    docker.logs(docker_inspect(), output, errors)
    items = read_container_log(DOCKER, SCAN, MASKER)
    assert [time for time, _ in log_lines(items)] == ["09:00:01", "09:00:02", "09:00:03", "09:00:04"]
    assert (
        log_lines(items)[0][1] == "[2026-11-30 09:00:01] server_args=ServerArgs(model_path='/models/a', api_key='***')"
    )
    assert gaps(items) == ()
    assert items[0].place == "log of docker 3f2a3f2a3f2a (sglang-decode)"
    assert docker.calls()[-1].startswith(f"logs --timestamps --since 2026-11-30T08:59:58.116406+00:00 {ID} unix:")


def test_of_a_long_log_the_begin_and_the_end_are_read(docker: Program) -> None:
    begin = stamped("09:00:01", ARGS.format("09:00:01"))
    filler = "".join(stamped(f"09:01:{n % 60:02}", "nothing of interest") for n in range(200))
    later = BATCH.format(5) + "\n"
    docker.logs(docker_inspect(), begin + filler * 100, tail=f"2026-11-30T17:00:00.000000001Z {later}")
    small = LogScan(SCAN.kinds, start_bytes=65536)
    items = read_container_log(DOCKER, small, MASKER)
    assert [time for time, _ in log_lines(items)] == ["09:00:01", "17:00:00"]
    [gap] = gaps(items)
    assert gap.startswith("lines from 2026-11-30 09:01:")
    assert gap.endswith(" to 2026-11-30 17:00:00 UTC were not read")


@pytest.mark.parametrize(
    ("options", "told"), [({"max-size": "10m"}, "rotated: the log begins"), ({}, "the log begins")]
)
def test_a_log_that_lost_its_begin(docker: Program, options: dict[str, str], told: str) -> None:
    host = {"NetworkMode": "host", "LogConfig": {"Type": "json-file", "Config": options}}
    docker.logs(docker_inspect(HostConfig=host), stamped("14:03:00", BATCH.format(0)))
    [gap] = gaps(read_container_log(DOCKER, SCAN, MASKER))
    assert gap.startswith(f"{told} 2026-11-30 14:03:00 UTC, the container started 2026-11-30 09:00:00 UTC")


def test_a_log_without_a_line(docker: Program) -> None:
    docker.logs(docker_inspect(), "")
    items = read_container_log(DOCKER, SCAN, MASKER)
    assert log_lines(items) == []
    assert gaps(items) == ("no line since the container started 2026-11-30 09:00:00 UTC",)


@pytest.mark.parametrize("driver", ["none", "passthrough"])
def test_a_log_that_is_not_kept(podman: Program, driver: str) -> None:
    podman.inspects(podman_inspect(HostConfig={"LogConfig": {"Type": driver}}))
    [item] = read_container_log(PODMAN, SCAN, MASKER)
    assert isinstance(item.content, Failure)
    assert item.content.status == "no log"


def test_a_log_that_the_daemon_cannot_read(docker: Program) -> None:
    refusal = "Error response from daemon: configured logging driver does not support reading"
    docker.logs(docker_inspect(), "", refusal)
    [item] = read_container_log(DOCKER, SCAN, MASKER)
    assert isinstance(item.content, Failure)
    assert item.content.reason == f"docker says: {refusal}"


def test_a_log_that_takes_too_long(docker: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came until then counts."""
    monkeypatch.setattr(container_log, "TIME_LIMIT_S", 1.0)
    container = Container(DOCKER, "a", "", (), started_at=STARTED)
    line = stamped("09:00:01", ARGS.format("09:00:01")).strip()
    docker.does(f'echo "{line}"; echo half a line; echo -n cut; sleep 600')
    items = read_container_log(DOCKER, SCAN, MASKER, container)
    assert [time for time, _ in log_lines(items)] == ["09:00:01"]
    assert gaps(items)[-1] == "docker logs gave no more of its begin within 1 s"
    docker.does(f'case "$*" in *--tail*) echo "{line}";; *) sleep 600;; esac')
    items = read_container_log(DOCKER, SCAN, MASKER, container)
    assert [time for time, _ in log_lines(items)] == ["09:00:01"]
    assert gaps(items) == ("docker logs gave no more of its begin within 1 s",)
    docker.does("sleep 600")
    [item] = read_container_log(DOCKER, SCAN, MASKER, container)
    assert isinstance(item.content, Failure)
    assert item.content.status == "timeout"


def test_the_log_of_a_container_that_is_gone(docker: Program) -> None:
    docker.prints("[]", f"Error: No such container: {ID}", 1)
    [item] = read_container_log(DOCKER, SCAN, MASKER)
    assert isinstance(item.content, Failure)
    assert item.content.status == "missing"


TALKER = """
#include <stdio.h>
#include <unistd.h>
int main(void) {
    fputs("[2026-11-30 09:00:01] server_args=ServerArgs(model_path='/models/a')\\n", stderr);
    usleep(20000);
    puts("[2026-11-30 09:00:02] Decode batch. #running-req: 1, #token: 5, token usage: 0.01");
    fflush(stdout);
    pause();
}
"""


@pytest.fixture
def real_podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ContainerRef, int]]:
    """A container of a real podman, with a program of our own as its only file; its id, and its process."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if shutil.which("podman") is None or compiler is None or os.geteuid() != 0:
        pytest.skip("needs podman, a C compiler, and root")
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "talker.c").write_text(TALKER)
    subprocess.run([compiler, "-static", "-o", tmp_path / "rootfs" / "talker", tmp_path / "talker.c"], check=True)
    (tmp_path / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/root"\nrunroot = "{tmp_path}/run"\n'
    )
    (tmp_path / "containers.conf").write_text(
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n[containers]\nlog_driver = "k8s-file"\n'
    )
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(tmp_path / "storage.conf"))
    monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "--cgroups=disabled", "--network=host"]
    run = ["podman", "run", "--detach", "--name", "talker", *limits, "--env", "SGLANG_KEY_API_KEY=hunter2-hunter2"]
    # Of a host with both versions of control groups crun wants one: a mount of our own shows it that.
    own = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    command = shlex.join([*run, "--rootfs", f"{tmp_path}/rootfs", "/talker"])
    script = f"mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec {command}"
    done = subprocess.run([*own, script], capture_output=True, text=True, timeout=120, check=False)
    try:
        if done.returncode:
            pytest.skip(f"podman cannot run a container here: {done.stderr.strip()[-200:]}")
        ref = ContainerRef("podman", done.stdout.strip())
        pid = subprocess.run(
            ["podman", "inspect", "--format", "{{.State.Pid}}", ref.id], capture_output=True, text=True, check=True
        )
        yield ref, int(pid.stdout)
    finally:
        subprocess.run(
            ["podman", "rm", "--force", "--time", "0", "talker"], capture_output=True, timeout=120, check=False
        )


def test_a_real_podman(real_podman: tuple[ContainerRef, int]) -> None:
    ref, pid = real_podman
    found = told(ref)
    assert (found.name, found.command, found.pid, found.network) == ("talker", ("/talker",), pid, "host")
    assert found.environment == {"SGLANG_KEY_API_KEY": "***"}
    assert found.started_at is not None
    assert timedelta(0) < datetime.now(timezone.utc) - found.started_at < timedelta(minutes=5)
    assert found.urls([("0.0.0.0", 30000)]) == ("http://127.0.0.1:30000",)
    deadline = time.monotonic() + PATIENCE
    while len(log_lines(read_container_log(ref, SCAN, MASKER, found))) < 2:
        assert time.monotonic() < deadline
    lines = log_lines(read_container_log(ref, SCAN, MASKER))  # of two pipes, which conmon reads in either order
    assert sorted(line[1][22:33] for line in lines) == ["Decode batc", "server_args"]
    assert gaps(read_container_log(ref, SCAN, MASKER)) == ()
    assert refused(ref._replace(id=OTHER)).status == "missing"
