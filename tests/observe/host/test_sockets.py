"""Where servers listen and how they are reached from here, with real listeners in real network namespaces."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.engines import programs
from ullage.masking import Masker
from ullage.observe.host.evidence import process_of
from ullage.observe.host.find import find_servers
from ullage.observe.host.net_tables import (
    Socket,
    host_of,
    listening,
    network_of,
    networks,
    own_addresses,
    tcp_sockets,
    unix_sockets,
)
from ullage.observe.targets import socket_of

from .actors import Stage, can_unshare, free_port, stage, the_one, wait_for

PYTHON = sys.executable
SGLANG = [PYTHON, "-m", "sglang.launch_server"]


@pytest.fixture
def actors(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


def can_link() -> bool:
    """May we make a pair of interfaces? Tried inside a namespace of its own, which vanishes."""
    script = "ip link add ullage-a type veth peer name ullage-b"
    return can_unshare() and subprocess.run(["unshare", "--net", "sh", "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:{}"),
        ("0.0.0.0", "http://127.0.0.1:{}"),
        ("::1", "http://[::1]:{}"),
        ("::", "http://[::1]:{}"),
        ("127.0.0.9", "http://127.0.0.9:{}"),
    ],
)
def test_the_address_decides_the_url(actors: Stage, host: str, url: str) -> None:
    if ":" in host and not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    port = free_port()
    server = the_one(actors.start([*SGLANG, "--port", str(port)], part={"ports": [[host, port]]}))
    assert [(one.host, one.port, one.pid) for one in server.listens] == [(host, port, server.main.pid)]
    assert server.urls == (url.format(port),)


def test_tls_makes_it_https(actors: Stage) -> None:
    port = free_port()
    words = [*SGLANG, "--ssl-certfile", "c", "--ssl-keyfile", "k", f"--port={port}"]
    assert the_one(actors.start(words, part={"ports": [["127.0.0.1", port]]})).urls == (f"https://127.0.0.1:{port}",)


def test_other_ports_of_a_server_are_no_urls(actors: Stage) -> None:
    """Those of collectives and message queues do not speak HTTP, and would not bear to be asked."""
    port, queue, bootstrap = free_port(), free_port(), free_port()
    part = {"ports": [["127.0.0.1", p] for p in (queue, bootstrap, port)]}
    server = the_one(actors.start([*SGLANG, "--port", str(port)], part=part))
    assert {one.port for one in server.listens} == {port, queue, bootstrap}
    assert server.urls == (f"http://127.0.0.1:{port}",)
    starting = the_one(
        actors.start([*SGLANG, "--port", str(free_port())], part={"ports": [["127.0.0.1", free_port()]]})
    )
    assert starting.urls == ()
    assert starting.remarks[0].startswith("does not listen on port")


def test_a_forked_worker_may_hold_the_socket(actors: Stage) -> None:
    port = free_port()
    part = {"ports": [["127.0.0.1", port]], "titles": ["VLLM::APIServer_0"]}
    server = the_one(actors.start([str(actors.folder / "bin/vllm"), "serve", "m", "--port", str(port)], part=part))
    assert server.urls == (f"http://127.0.0.1:{port}",)
    assert len(server.listens) == 1


def test_a_server_on_a_unix_socket(actors: Stage) -> None:
    words = [str(actors.folder / "bin/vllm"), "serve", "m", "--uds", "vllm.sock"]
    server = the_one(actors.start(words, part={"socket": "vllm.sock"}))
    at = socket_of(server.urls[0])
    assert at is not None
    assert at.path == str(actors.folder / "vllm.sock")
    gone = the_one(actors.start([*words[:-1], "/run/none.sock"], part={"socket": "other.sock"}))
    assert (gone.urls, gone.remarks) == ((), ("does not listen on /run/none.sock",))


@pytest.mark.skipif(not can_unshare(), reason="namespaces are not permitted here")
def test_files_of_another_root_are_opened_through_it(actors: Stage) -> None:
    """As a container has it: a socket and a settings file at paths that are nothing to us."""
    inner = actors.folder / "inner"
    inner.mkdir()
    text = "served-model-name: inside"
    line = f"mount -t tmpfs none {inner}; cd {inner}; echo '{text}' > c.yaml; "
    line += f"exec {actors.folder}/bin/vllm serve m --uds {inner}/v.sock --config c.yaml >out.log"
    process = actors.start(["unshare", "--mount", "sh", "-c", line], part={"socket": f"{inner}/v.sock"})
    server = the_one(process)
    root = f"/proc/{process.pid}/root"
    at = socket_of(server.urls[0])
    assert at is not None
    assert at.path == f"{root}{inner}/v.sock"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(at.path)
    assert "inside" in server.words
    assert server.output.path == f"{root}{inner}/out.log"
    assert Path(server.output.path).exists()


@pytest.mark.skipif(not can_unshare(), reason="network namespaces are not permitted here")
def test_a_network_of_its_own_is_not_reachable(actors: Stage) -> None:
    port = free_port()
    inside = ["unshare", "--net", "sh", "-c", f"ip link set lo up; exec {PYTHON} -m sglang.launch_server --port {port}"]
    for host in ("127.0.0.1", "0.0.0.0"):
        server = the_one(actors.start(inside, part={"ports": [[host, port]]}))
        assert server.foreign
        assert server.main.net_ns not in (None, os.stat("/proc/self/ns/net").st_ino)
        assert server.urls == ()
        why = f"listens in a network namespace of its own, on {host}:{port}: not reachable from here"
        assert server.remarks == (why,)


@pytest.mark.skipif(not can_unshare(), reason="network namespaces are not permitted here")
def test_one_port_in_two_networks_is_no_collision(actors: Stage) -> None:
    port = free_port()
    part = {"ports": [["127.0.0.1", port]]}
    here = actors.start([*SGLANG, "--port", str(port)], part=part)
    line = f"ip link set lo up; exec {PYTHON} -m sglang.launch_server --port {port}"
    there = actors.start(["unshare", "--net", "sh", "-c", line], part=part)
    assert the_one(here).remarks == ()
    assert len(the_one(there).remarks) == 1


@pytest.mark.skipif(not can_link(), reason="interfaces may not be made here")
def test_a_network_that_this_host_has_a_route_to(actors: Stage) -> None:
    """As a container on a bridge: an address of its own, on a network of ours."""
    name = f"ul{os.getpid() % 100000}"
    net = f"10.213.{os.getpid() % 250}"
    holder = subprocess.Popen(["unshare", "--net", "sleep", "100"])
    try:
        wait_for(lambda: network_of("/proc", holder.pid) not in (0, network_of("/proc", "self")))
        for line in (
            f"ip link add {name} type veth peer name {name}b netns {holder.pid}",
            f"ip addr add {net}.1/24 dev {name}",
            f"ip link set {name} up",
            f"nsenter --net --target {holder.pid} ip addr add {net}.2/24 dev {name}b",
            f"nsenter --net --target {holder.pid} ip link set {name}b up",
            f"nsenter --net --target {holder.pid} ip link set lo up",
        ):
            subprocess.run(line.split(), check=True)
        enter = ["nsenter", "--net", "--target", str(holder.pid), *SGLANG]
        server = the_one(actors.start([*enter, "--port", "30000"], part={"http": ["0.0.0.0", 30000]}))
        assert server.urls == (f"http://{net}.2:30000",)
        assert urlopen(server.urls[0], timeout=20).read() == b"here"
        own = the_one(actors.start([*enter, "--port", "30001"], part={"ports": [["127.0.0.1", 30001]]}))
        assert own.urls == ()
    finally:
        subprocess.run(["ip", "link", "del", name], check=False)
        holder.kill()
        holder.wait(20)


def test_an_address_that_is_ours_too_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would lead to this host, where another program may have that port."""
    from ullage.observe.host import reach

    trie = "     |-- 10.0.0.5\n        /32 host LOCAL\n"
    route = "Iface Destination Gateway Flags RefCnt Use Metric Mask\ne 0000000A 00000000 0001 0 0 0 00FFFFFF\n"
    texts = {"/proc/7/net/fib_trie": trie, "/proc/self/net/fib_trie": "", "/proc/self/net/route": route}
    monkeypatch.setattr(reach, "_text", texts.__getitem__)
    assert reach._addresses("/proc", 7) == ["10.0.0.5"]
    texts["/proc/self/net/fib_trie"] = trie
    assert reach._addresses("/proc", 7) == []


def test_this_hosts_own_tables() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        inode, port = os.fstat(one.fileno()).st_ino, one.getsockname()[1]
        assert Socket("127.0.0.1", port, inode, os.geteuid()) in listening("/proc", "self")
    addresses = own_addresses(Path("/proc/self/net/fib_trie").read_text())
    ours = [a.address for of in psutil.net_if_addrs().values() for a in of if a.family == socket.AF_INET]
    assert set(addresses) == {address for address in ours if not address.startswith("127.")}
    reached = networks(Path("/proc/self/net/route").read_text())
    assert all(network.prefixlen for network in reached)


def test_tables_that_cannot_be_read_tell_nothing(actors: Stage, tmp_path: Path) -> None:
    """It may listen all the same: neither is said that it does not, nor that it is in another network."""
    port = free_port()
    words = [sys.executable, "-m", "sglang.launch_server", "--port", str(port)]
    process = actors.start(words, part={"ports": [["127.0.0.1", port]]})
    proc = tmp_path / "proc"
    (proc / str(process.pid)).mkdir(parents=True)
    for path in Path(f"/proc/{process.pid}").iterdir():
        if path.name != "net":
            (proc / str(process.pid) / path.name).symlink_to(path)
    for name in ("self", "uptime"):
        (proc / name).symlink_to(Path("/proc") / name)
    (server,) = find_servers(programs, str(proc)).servers
    assert (server.urls, server.listens, server.foreign) == ((), (), False)
    assert server.remarks == ("the tables of its network are not readable: where it listens is not known",)
    assert process_of(server, (), Masker()).sockets_hidden


@given(st.ip_addresses(v=4), st.integers(1, 65535), st.integers(0, 2**32), st.integers(0, 2**31))
def test_a_line_of_tcp_is_read_as_the_kernel_wrote_it(host: IPv4Address, port: int, inode: int, uid: int) -> None:
    text = struct.pack("=I", struct.unpack("!I", host.packed)[0]).hex().upper()
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    rest = f"00000000:00000000 00:00000000 00000000 {uid:5d}        0 {inode} 1 0000000000000000 100 0 0 10 0"
    line = f"   0: {text}:{port:04X} 00000000:0000 0A {rest}\n"
    assert tcp_sockets((head + line).encode()) == [Socket(str(host), port, inode, uid)]
    assert tcp_sockets((head + line.replace(" 0A ", " 01 ")).encode()) == []


@given(st.ip_addresses(v=6))
def test_addresses_of_ipv6(host: IPv6Address) -> None:
    text = struct.pack("=4I", *struct.unpack("!4I", host.packed)).hex()
    assert host_of(text) == str(host.ipv4_mapped or host)


@given(st.binary(max_size=300))
def test_no_table_raises(text: bytes) -> None:
    lines = b"head\n 0: " + text + b" 0A " + text + b" 00010000 "
    tcp_sockets(lines)
    unix_sockets(lines)
    networks(lines.decode("latin-1"))
    own_addresses(lines.decode("latin-1"))


def test_the_default_route_is_no_network() -> None:
    head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
    text = (
        head + "eth0 00000000 010011AC 0003 0 0 0 00000000 0 0 0\ndocker0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0\n"
    )
    text += "* 000010AC 00000000 0201 0 0 0 0000FFFF 0 0 0\n"  # rejected
    assert [str(network) for network in networks(text)] == ["172.17.0.0/16"]
