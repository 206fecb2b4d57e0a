"""Several servers in one run: each keeps its own name and its own figures."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.evidence import DAY, document, failed, log, metrics, start
from ullage.capacity.request import Shape
from ullage.deployment import Deployment, answer, server_limits, total_context
from ullage.engines.read import read
from ullage.engines.server import Role, Server


def test_endpoints_that_failed_for_one_reason_are_told_without_a_gap() -> None:
    url = "http://127.0.0.1:8080"
    props = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 2, "model_path": "/models/small.gguf"}
    items = [document(url, "props", props), *(failed(url, topic, "401") for topic in ("metrics", "slots"))]
    [server] = read(items)[0]
    assert server.unread_words == "; not read: answered 401: /metrics, /slots"
    [server] = read(items[:2])[0]
    assert server.unread_words == "; metrics was not read: answered 401"


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


def test_ranks_with_different_pools_hold_their_sum() -> None:
    arguments, *_, ready = start(40_000, dp_size=2)
    pools = [
        f"[{DAY} 10:00:50 DP{rank} TP{rank}] max_total_num_tokens={tokens}, max_running_requests=64, context_len=32768"
        for rank, tokens in enumerate((40_000, 30_000))
    ]
    batches = [
        f"[{DAY} 11:00:01 DP{rank} TP{rank}] Decode batch. #running-req: 1, #token: 5000, #queue-req: 0"
        for rank in (0, 1)
    ]
    [server], _ = read([log("a.log", arguments, *pools, ready, *batches)])
    assert (server.says("max_total_num_tokens"), total_context(server).value) == (30_000, 70_000)
    [kv, _] = server.levels
    assert (kv.size.value, kv.used.value, kv.room.value) == (70_000, 10_000, 60_000)


def one_server(pools: Sequence[int], slots: int) -> Server:
    """A server of one data-parallel rank a pool."""
    arguments, *_, ready = start(min(pools), dp_size=len(pools))
    stated = [
        f"[{DAY} 10:00:50 DP{rank} TP{rank}] max_total_num_tokens={tokens}, max_running_requests={slots},"
        " context_len=9999"
        for rank, tokens in enumerate(pools)
    ]
    [server], _ = read([log("a.log", arguments, *stated, ready)])
    return server


@given(
    st.lists(st.integers(5_000, 90_000), min_size=2, max_size=4),
    st.integers(1, 64),
    st.integers(1, 4_000),
    st.integers(1, 500),
)
def test_ranks_hold_what_servers_of_their_sizes_hold(pools: list[int], slots: int, prompt: int, output: int) -> None:
    together = server_limits(one_server(pools, slots), Shape(prompt, output))
    apart = [server_limits(one_server([pool], slots), Shape(prompt, output)) for pool in pools]
    assert together.safe.value == sum(a.safe.count for a in apart)
    assert together.admits.value == sum(a.admits.count for a in apart)
    highs = [a.admits.count if a.admits.high is None else a.admits.high for a in apart]
    assert (together.admits.count if together.admits.high is None else together.admits.high) == sum(highs)


def test_a_server_that_another_followed_in_its_log_may_have_ended() -> None:
    servers, _ = read([log("a.log", *start(40_000), *start(90_000, port=30_001, at="12:00"))])
    assert ["whether this server still runs" in " ".join(s.notes) for s in servers] == [True, False]
