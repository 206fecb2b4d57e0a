"""Several servers in one run: each keeps its own name and its own figures."""

from __future__ import annotations

from tests.evidence import log, metrics, start
from ullage.capacity.request import Shape
from ullage.deployment import Deployment, answer
from ullage.engines.read import read
from ullage.engines.server import Role


def test_logs_of_two_hosts_with_one_name_and_port_stay_two_servers() -> None:
    prefill = log("a/server.log", *start(10_000, disaggregation_mode="prefill"))
    decode = log("b/server.log", *start(90_000, disaggregation_mode="decode"))
    servers, _ = read([prefill, decode])
    assert [s.name for s in servers] == [
        "server.log (port 30000), a/server.log",
        "server.log (port 30000), b/server.log",
    ]
    found = answer(Deployment(tuple(servers)), Shape(20_000))
    assert found.chain is not None
    assert found.chain.binds == "prefill: KV pool"
    assert found.chain.admits.value == 0


def test_servers_of_one_log_that_have_one_port_are_numbered() -> None:
    roles = ("prefill", "decode")
    servers, _ = read([log("all.log", *(line for role in roles for line in start(9, disaggregation_mode=role)))])
    assert [(s.name, s.role.value) for s in servers] == [
        ("all.log (port 30000) #1", "prefill"),
        ("all.log (port 30000) #2", "decode"),
    ]


def test_a_gateways_page_holds_several_workers() -> None:
    def line(name: str, address: str, role: str, value: int) -> str:
        return f'sglang_{name}{{model_name="m",engine_type="{role}",worker_addr="grpc://{address}"}} {value}'

    page = metrics(
        "http://gateway:30000",
        line("max_total_num_tokens", "one:1", "prefill", 10_000),
        line("max_total_num_tokens", "two:2", "decode", 90_000),
        line("num_running_reqs", "one:1", "prefill", 3),
        line("num_running_reqs", "two:2", "decode", 5),
    )
    servers, _ = read([page])
    found = [(s.name, s.role, s.says("max_total_num_tokens"), s.use("num_running_reqs").value) for s in servers]
    assert found == [("one:1", Role.PREFILL, 10_000, 3), ("two:2", Role.DECODE, 90_000, 5)]
