"""Which server a URL leads to, of those that were found on this host."""

from __future__ import annotations

from tests.evidence import on_host
from ullage.engines.on_host import is_at
from ullage.engines.read import read
from ullage.engines.server import Server
from ullage.evidence import Evidence, Process

LAUNCH = "python -m sglang.launch_server --model-path /models/small --port 30000"


def server(*items: Evidence, **process: object) -> Server:
    changed = [
        i._replace(content=i.content._replace(**process)) if isinstance(i.content, Process) else i  # type: ignore[arg-type]
        for i in items
    ]
    (found,) = read(changed)[0]
    return found


def test_one_that_listens_on_all_addresses_has_all_names_of_the_host() -> None:
    here = server(*on_host(LAUNCH, listens=["0.0.0.0:30000"], url="http://127.0.0.1:30000"))
    for name in ("127.0.0.1", "localhost", "10.0.0.5", "GPU1"):
        assert is_at(here, f"http://{name}:30000")
    assert not is_at(here, "http://10.0.0.6:30000")
    assert not is_at(here, "http://127.0.0.1:30001")


def test_a_container_is_at_the_port_that_this_host_publishes() -> None:
    """What it listens on in its own network is nothing that this host has: another server may be there."""
    items = on_host(LAUNCH, listens=["0.0.0.0:30000"], url="http://127.0.0.1:8001")
    inside = server(*items, network="network namespace 7")
    assert is_at(inside, "http://10.0.0.5:8001")
    assert is_at(inside, "http://localhost:8001")
    assert not is_at(inside, "http://127.0.0.1:30000")
    by_address = server(*on_host(LAUNCH, listens=["0.0.0.0:30000"], url="http://172.17.0.2:30000"), network="n")
    assert is_at(by_address, "http://172.17.0.2:30000")
    assert not is_at(by_address, "http://127.0.0.1:30000")


def test_one_that_is_not_reached_from_here_is_known_by_its_own_network() -> None:
    """A router beside it, in the same network, calls it so."""
    items = on_host(LAUNCH, listens=["127.0.0.1:30000"], url="pid 4242")
    assert is_at(server(*items, network="network namespace 7"), "http://127.0.0.1:30000")
