"""What endpoints and metrics pages state of several ranks, and values that no server that runs can have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.evidence import URL, document, gauges, metrics
from ullage.engines.server import Server
from ullage.engines.sglang.read import facts_of, servers


def state(tokens: object, running: object = 64, window: object = None) -> dict[str, Any]:
    memory = {"token_capacity": tokens, "token_capacity_swa": window, "kvcache": 2.0}
    return {"memory_usage": memory, "effective_max_running_requests_per_dp": running, "last_gen_throughput": 5.0}


def info(*states: object, **besides: object) -> Server:
    data = {"model_path": "/m", "mem_fraction_static": 0.8, "internal_states": list(states), **besides}
    [found] = servers(facts_of(document(URL, "server_info", data)))
    return found


def loads(*entries: dict[str, Any]) -> Server:
    [found] = servers(facts_of(document(URL, "v1/loads", {"loads": list(entries)})))
    return found


def test_of_ranks_that_differ_the_least_limit_counts() -> None:
    found = info(state(40_000, 64, 900), state(39_000, 60, 1000), max_total_num_tokens=40_000, dp_size=2)
    limits = ("max_total_num_tokens", "swa_max_total_num_tokens", "max_running_requests")
    assert [found.says(name) for name in limits] == [39_000, 900, 60]
    asked = [{"dp_rank": n, "num_running_reqs": 1, "max_running_requests": 9 - n} for n in (0, 1)]
    assert loads(*asked).says("max_running_requests") == 8


def test_ranks_are_counted_by_their_states_where_no_argument_tells() -> None:
    assert info(*[state(40_000)] * 8).says("dp_size") == 8
    assert info(*[state(40_000)] * 8, dp_size=None).pools[0].partitions == 8


def test_a_state_that_is_missing_does_not_shift_the_ranks() -> None:
    found = info(None, state(30_000), state(40_000), dp_size=3)
    assert {rank.name: rank.figures["max_total_num_tokens"].value for rank in found.ranks} == {
        "DP1": 30_000,
        "DP2": 40_000,
    }
    assert "internal_states[1]" in str(found.figure("kv_total_gib").source)


def test_a_count_that_one_rank_does_not_state_has_no_sum() -> None:
    entries = [
        {"dp_rank": 0, "num_reqs": 3, "num_waiting_reqs": 5},
        {"dp_rank": 1, "num_reqs": 3, "num_waiting_reqs": 1},
    ]
    found = loads(*entries)
    assert not found.use("num_running_reqs").known
    assert found.use("num_queue_reqs").value == 6


@pytest.mark.parametrize("value", [0, 0.5, -1, True, "40000", float("nan"), float("inf"), 1e300, [40_000], {"a": 1}])
def test_what_is_no_limit_gives_no_figure(value: Any) -> None:
    found = info(state(value, value, value), max_total_num_tokens=value, max_req_input_len=value)
    names = ("max_total_num_tokens", "swa_max_total_num_tokens", "max_running_requests", "max_req_input_len")
    assert not any(found.figure(name).known for name in names)


@pytest.mark.parametrize("value", [0, 0.5, -1, float("nan"), float("inf"), 1e300])
def test_what_is_no_limit_gives_no_figure_on_a_page_either(value: float) -> None:
    page = gauges(max_total_num_tokens=value, context_len=value, page_size=value, num_running_reqs=3)
    [found] = servers(facts_of(metrics(URL, *page)))
    assert not any(found.figure(name).known for name in ("max_total_num_tokens", "context_len", "page_size"))
    assert found.use("num_running_reqs").value == 3
