"""Servers in containers of one host, each in a network of its own, with the ports that the host publishes for them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.systemd.machine import PYTHON, Machine
from tests.systemd.test_bare_ullage import finding, report, told, ullage

PREFILL, DECODE = "3f2a" * 16, "9c1e" * 16
PUBLISHED = {PREFILL: 9001, DECODE: 9002}
SECRET = "sesame-opens-43"
SERVER = """#!/usr/bin/python3
import socket, time
server = socket.create_server(("0.0.0.0", 8000))
print("listens", flush=True)
time.sleep(1000)
"""
DOCKER = """#!/usr/bin/python3
import json, sys
told = json.load(open("/srv/containers.json"))[sys.argv[-1]]
print(json.dumps([told["inspect"]]) if sys.argv[1] == "inspect" else told["log"])
"""
LOG = "2026-11-30T09:00:0{0}.000000000Z INFO 11-30 09:00:0{0} [kv_cache_utils.py:1] GPU KV cache size: {0}4,000 tokens"


def inspected(identity: str) -> dict[str, object]:
    port = [{"HostIp": "0.0.0.0", "HostPort": str(PUBLISHED[identity])}]
    return {
        "Id": identity,
        "Name": f"/of-{identity[:4]}",
        "Path": "vllm",
        "Args": ["serve", "m", "--api-key", SECRET],
        "Config": {"Image": "vllm/vllm-openai", "Env": [f"VLLM_API_KEY={SECRET}"]},
        "HostConfig": {"NetworkMode": "bridge", "LogConfig": {"Type": "json-file", "Config": {}}},
        "NetworkSettings": {"Ports": {"8000/tcp": port}, "IPAddress": ""},
        "State": {"Pid": 1, "StartedAt": "2026-11-30T09:00:00Z", "Running": True},
    }


@pytest.fixture(scope="module")
def docks(machines: type[Machine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machines(tmp_path_factory.mktemp("docks") / "machine") as machine:
        machine.write("/usr/bin/docker", DOCKER, 0o755)
        machine.write("/srv/bin/vllm", SERVER, 0o755)
        kept = {
            identity: {"inspect": inspected(identity), "log": LOG.format(number)}
            for number, identity in enumerate(PUBLISHED, 3)
        }
        machine.write("/srv/containers.json", json.dumps(kept))
        for identity in PUBLISHED:
            group = f"/sys/fs/cgroup/docker/{identity}"
            line = f"exec unshare --net /srv/bin/vllm serve m --port 8000 --api-key {SECRET}"
            script = f"#!/bin/sh\nmkdir -p {group}\necho $$ > {group}/cgroup.procs\n{line}\n"
            machine.write(f"/srv/{identity}.sh", script, 0o755)
            machine.run("sh", "-c", f"setsid /srv/{identity}.sh > /srv/{identity}.log 2>&1 &")
            machine.until("grep", "listens", f"/srv/{identity}.log")
        yield machine


def test_each_is_reached_at_its_published_port(docks: Machine) -> None:
    data = report(docks)
    names = {s["name"]: s["figures"]["kv_cache_size_tokens"]["value"] for s in data["servers"]}
    assert names == {"http://127.0.0.1:9001": 34_000, "http://127.0.0.1:9002": 44_000}
    text = told(docks)
    assert "docker of-3f2a" in text
    assert "not reachable from here" not in text


def test_one_port_in_two_networks_is_no_port_of_both(docks: Machine) -> None:
    assert finding(report(docks), "port-taken") is None


@pytest.mark.parametrize("words", [(), ("--json",), ("--sources",), ("--history",)])
def test_no_secret_of_a_container_is_told(docks: Machine, words: tuple[str, ...]) -> None:
    assert SECRET not in ullage(docks, *words).stdout


def test_a_router_names_the_published_port(docks: Machine) -> None:
    """A server of the host that listens on the port they have inside is none of them."""
    line = "--port 8100 --worker-urls http://127.0.0.1:9001 http://127.0.0.1:8000 --prometheus-port 29001"
    docks.run("systemd-run", "--unit=router", PYTHON, "-m", "sglang_router.launch_router", *line.split())
    docks.until("pgrep", "-f", "sglang_router.launch_router")
    text = told(docks)
    docks.systemctl("stop", "router")
    below = text.partition("router sglang-router")[2].partition("Parallel")[0]
    assert "http://127.0.0.1:8000 not read" in below
    assert "http://127.0.0.1:9001 | pid" in below
