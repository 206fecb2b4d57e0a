"""What a worker says of itself: SGLang's pages, with SGLang's names in SGLang's shapes."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.tank.processes import Worker
from tests.tank.serve.calls import call, caller, generate_body, post, until
from tests.tank.serve.conftest import Pair

EVERYWHERE = {
    "gauge": """max_total_num_tokens page_size num_pages context_len weight_memory_usage_gb kv_cache_memory_usage_gb
        startup_available_gpu_memory_gb num_running_reqs num_queue_reqs token_usage full_token_usage num_used_tokens
        kv_used_tokens kv_available_tokens kv_evictable_tokens decode_sum_seq_lens gen_throughput cache_hit_rate""",
    "counter": """prompt_tokens generation_tokens cached_tokens num_requests num_aborted_requests
        num_retracted_requests num_retracted_input_tokens num_retracted_output_tokens""",
    "histogram": """time_to_first_token_seconds inter_token_latency_seconds e2e_request_latency_seconds
        prompt_tokens_histogram generation_tokens_histogram""",
}
OF_ROLE = {
    "unified": {"gauge": "new_token_ratio", "counter": "", "histogram": "queue_time_seconds"},
    "prefill": {
        "gauge": "num_prefill_bootstrap_queue_reqs num_prefill_inflight_queue_reqs",
        "counter": "num_bootstrap_failed_reqs num_transfer_failed_reqs",
        "histogram": """queue_time_seconds kv_transfer_speed_gb_s kv_transfer_latency_ms kv_transfer_bootstrap_ms
            kv_transfer_total_mb""",
    },
    "decode": {
        "gauge": """num_decode_prealloc_queue_reqs num_decode_transfer_queue_reqs pending_prealloc_token_usage
            num_retracted_reqs""",
        "counter": "num_bootstrap_failed_reqs num_transfer_failed_reqs",
        "histogram": "kv_transfer_alloc_ms",
    },
}
OF_PAIRS = ("bootstrap", "inflight", "prealloc", "transfer")


def get(worker: Worker, path: str) -> Any:
    reply = call(worker.port, "GET", path)
    assert reply.status == 200, reply
    return reply.json


def families(worker: Worker) -> dict[str, Any]:
    reply = call(worker.port, "GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    return {family.name: family for family in text_string_to_metric_families(reply.body.decode())}


def values(worker: Worker) -> dict[str, float]:
    """Of all series of one moment, without their labels."""
    samples = [sample for family in families(worker).values() for sample in family.samples]
    return {sample.name.removeprefix("sglang:"): float(sample.value) for sample in samples}


def value(worker: Worker, name: str) -> float:
    return values(worker)[name]


@pytest.fixture
def roles(plain: Worker, pair: Pair) -> dict[str, Worker]:
    return {"unified": plain, **pair._asdict()}


def test_the_model_is_told_as_sglang_tells_it(plain: Worker) -> None:
    said = get(plain, "/model_info")
    assert said == get(plain, "/get_model_info")
    assert said == {
        "model_path": "tiny",
        "tokenizer_path": "tiny",
        "is_generation": True,
        "weight_version": "default",
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
    }
    [model] = get(plain, "/v1/models")["data"]
    assert (model["object"], model["id"], model["max_model_len"]) == ("model", "tiny", 2048)


def test_server_info_has_the_arguments_what_is_in_effect_and_an_internal_state(plain: Worker) -> None:
    said = get(plain, "/server_info")
    assert said.keys() == get(plain, "/get_server_info").keys()
    asked = {"model_path": "tiny", "port": plain.port, "page_size": 16, "max_total_tokens": 4096}
    for each in (said, said["internal_states"][0]):
        assert {name: each[name] for name in asked} == asked
        assert (each["disaggregation_mode"], each["tp_size"], each["dp_size"]) == ("null", 1, 1)
        assert (each["api_key"], each["pace"], each["max_running_requests"]) == (None, None, None)
        assert 0 < each["mem_fraction_static"] < 1
    assert (said["status"], said["max_total_num_tokens"], said["max_req_input_len"]) == ("ready", 4096, 2042)
    [state] = said["internal_states"]
    assert state["memory_usage"].keys() == {"weight", "kvcache", "startup_available", "token_capacity", "graph"}
    assert state["memory_usage"]["token_capacity"] == 4096
    assert state["effective_max_running_requests_per_dp"] == 64
    assert isinstance(state["last_gen_throughput"], float)


def test_every_byte_of_the_memory_is_accounted_for(plain: Worker) -> None:
    account = get(plain, "/server_info")["tank_memory"]
    parts = ("weight_bytes", "kv_cache_bytes", "request_table_bytes", "scratch_bytes", "available_bytes")
    assert sum(account[part] for part in parts) == account["memory_bytes"] == 64 * 2**20
    assert account["kv_cache_bytes"] == 4096 * account["kv_bytes_per_token"]


def test_loads_are_told_in_both_shapes(plain: Worker) -> None:
    said = get(plain, "/v1/loads")
    [load] = said["loads"]
    assert (said["dp_rank_count"], load["dp_rank"]) == (1, 0)
    assert (load["num_running_reqs"], load["num_waiting_reqs"], load["num_used_tokens"]) == (0, 0, 0)
    assert (load["max_total_num_tokens"], load["max_running_requests"]) == (4096, 64)
    assert load["memory"].keys() == {"weight_gb", "kv_cache_gb", "graph_gb", "token_capacity"}
    assert load["queues"] == {"waiting": 0, "grammar": 0, "paused": 0, "retracted": 0}
    assert load["disaggregation"]["mode"] == "null"
    assert said["aggregate"].keys() >= {"total_running_reqs", "total_waiting_reqs", "total_reqs", "avg_token_usage"}
    [older] = get(plain, "/get_load")
    counts = {"dp_rank": 0, "num_reqs": 0, "num_waiting_reqs": 0, "num_tokens": 0, "num_pending_tokens": 0}
    assert {name: older[name] for name in counts} == counts


def test_what_runs_shows_in_loads_and_in_the_gauges(slow: Worker) -> None:
    until(slow.is_empty)
    with caller(slow.port, "/generate", generate_body("a" * 40, 1000)):
        until(lambda: slow.load()["num_used_tokens"] >= 48)
        with caller(slow.port, "/generate", generate_body("b" * 40, 2)):
            until(lambda: slow.load()["num_waiting_reqs"] == 1)
            load, [older], now = slow.load(), get(slow, "/get_load"), values(slow)
            assert call(slow.port, "POST", "/flush_cache").status == 400
    assert load["num_total_tokens"] == load["num_used_tokens"] + 40
    assert (older["num_reqs"], older["num_waiting_reqs"], older["num_pending_tokens"]) == (2, 1, 40)
    assert (now["num_running_reqs"], now["num_queue_reqs"]) == (1, 1)
    assert now["kv_used_tokens"] + now["kv_available_tokens"] + now["kv_evictable_tokens"] == 4096
    assert now["num_used_tokens"] == now["kv_used_tokens"] >= now["decode_sum_seq_lens"] > 40
    assert now["token_usage"] == now["kv_used_tokens"] / 4096
    until(slow.is_empty)


@pytest.mark.parametrize("role", OF_ROLE)
def test_every_family_of_a_role_is_there_and_none_of_another(roles: dict[str, Worker], role: str) -> None:
    found = families(roles[role])
    for kind, names in EVERYWHERE.items():
        for name in f"{names} {OF_ROLE[role][kind]}".split():
            family = found[f"sglang:{name}"]
            assert family.type == kind, name
            assert family.samples, name
    mine = {name for names in OF_ROLE[role].values() for name in names.split()}
    foreign = {name for kinds in OF_ROLE.values() for names in kinds.values() for name in names.split()} - mine
    assert not {f"sglang:{name}" for name in foreign} & found.keys()
    if role == "unified":
        assert not [name for name in found if any(word in name for word in OF_PAIRS)]


def test_families_have_sglangs_labels(roles: dict[str, Worker]) -> None:
    for role, each in roles.items():
        for family in families(each).values():
            for sample in family.samples:
                assert sample.labels["model_name"] == "tiny"
                assert sample.labels.get("engine_type", role) == role
                assert {sample.labels.get("tp_rank", "0"), sample.labels.get("pp_rank", "0")} == {"0"}
        [running] = families(each)["sglang:num_running_reqs"].samples
        assert running.labels == {"model_name": "tiny", "engine_type": role, "tp_rank": "0", "pp_rank": "0"}


def test_counters_grow_by_exactly_what_was_asked(plain: Worker) -> None:
    until(plain.is_empty)
    names = ("prompt_tokens", "generation_tokens", "cached_tokens", "num_requests", "num_aborted_requests")
    histograms = ("time_to_first_token_seconds", "e2e_request_latency_seconds", "prompt_tokens_histogram")
    series = (*(f"{name}_total" for name in names), *(f"{name}_count" for name in histograms))
    before = {name: value(plain, name) for name in series}
    prompts = [f"{number} of these, counted to the token" for number in range(5)]
    cached = sum(
        post(plain.port, "/generate", generate_body(prompt, 7))["meta_info"]["cached_tokens"] for prompt in prompts
    )
    call(plain.port, "POST", "/generate", generate_body("x", 5000))
    until(lambda: value(plain, "num_requests_total") >= before["num_requests_total"] + 5)
    grown = {name: value(plain, name) - before[name] for name in series}
    assert grown == {
        "prompt_tokens_total": sum(map(len, prompts)),
        "generation_tokens_total": 35,
        "cached_tokens_total": cached,
        "num_requests_total": 5,
        "num_aborted_requests_total": 0,
        "time_to_first_token_seconds_count": 5,
        "e2e_request_latency_seconds_count": 5,
        "prompt_tokens_histogram_count": 5,
    }


def test_health_and_a_real_token(roles: dict[str, Worker]) -> None:
    for each in roles.values():
        assert call(each.port, "GET", "/health").status == 200
        assert call(each.port, "GET", "/health_generate").status == 200


def test_health_generate_answers_also_where_another_request_runs(slow: Worker) -> None:
    running = threading.Thread(target=post, args=(slow.port, "/generate", generate_body("c" * 40, 40)))
    running.start()
    until(lambda: slow.load()["num_running_reqs"] == 1)
    assert call(slow.port, "GET", "/health_generate").status == 200
    running.join(30)


def test_a_flushed_cache_is_empty(plain: Worker) -> None:
    post(plain.port, "/generate", generate_body("something to keep, longer than a page", 20))
    until(plain.is_empty)
    assert value(plain, "kv_evictable_tokens") > 0
    for method in ("POST", "GET"):
        assert call(plain.port, method, "/flush_cache").status == 200
    assert value(plain, "kv_evictable_tokens") == 0
    assert value(plain, "kv_available_tokens") == 4096


def test_pages_come_at_once_also_under_load(slow: Worker) -> None:
    running = threading.Thread(target=post, args=(slow.port, "/generate", generate_body("d" * 40, 30)))
    running.start()
    until(lambda: slow.load()["num_running_reqs"] == 1)
    for path in ("/health", "/server_info", "/metrics", "/v1/loads"):
        began = time.monotonic()
        assert call(slow.port, "GET", path).status == 200
        assert time.monotonic() - began < 1
    running.join(30)
