"""llama-server's endpoints: what each slot holds, who waits, and what they leave open."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.evidence import document, metrics
from ullage.capacity.request import Shape
from ullage.deployment import server_limits, total_context
from ullage.engines.read import read
from ullage.engines.server import Role

from .llamacpp import DATA, all_of, document_of, logged, pool_sizes, recorded, server_of, values

URL = "http://127.0.0.1:8080"


def live(*besides: Any, slots: str = "slots-busy.json") -> Any:
    return server_of(
        document(URL, "props", document_of("props.json")), document(URL, "slots", document_of(slots)), *besides
    )


def test_props_and_slots_leave_open_whether_the_slots_share_a_pool() -> None:
    server = live()
    assert (server.name, server.says("version"), server.says("n_slots")) == (URL, "b10000-0c1e570", 2)
    total = total_context(server)
    assert (total.low, total.high) == (1024, 2048)
    safe = server_limits(server, Shape(500, 500)).safe
    assert (safe.value, safe.low, safe.high) == (1, 1, 2)
    assert "share one KV pool" in safe.note
    assert server_limits(server, Shape(400, 100)).safe.low is None
    assert any("share one KV pool" in note for note in server.notes)


def test_the_log_of_the_same_server_settles_it() -> None:
    server = recorded("props.json", "unified-overflow.log")
    assert pool_sizes(server) == {"slots": (2, 1), "KV pool": (1024, 1)}
    assert server_limits(server, Shape(500, 500)).safe.value == 1


def test_one_slot_leaves_nothing_open() -> None:
    props = document_of("props.json") | {"total_slots": 1}
    server = server_of(document(URL, "props", props))
    assert (total_context(server).value, total_context(server).low) == (1024, None)


def test_slots_that_hold_more_than_one_of_them_may_do_not_share_one_pool() -> None:
    slots = document_of("slots-busy.json")
    for slot in slots:
        slot["n_prompt_tokens"] = 900
    server = server_of(document(URL, "slots", slots))
    assert (total_context(server).value, total_context(server).low) == (2048, None)


def test_what_slots_hold_is_their_prompt_with_what_was_generated() -> None:
    server = live()
    [cells, taken] = server.levels
    assert (cells.pool, cells.used.value, cells.evictable.value) == ("KV pool", 65 + 66, 0)
    assert (taken.pool, taken.used.value, taken.free.value) == ("slots", 2, 0)
    assert server.running.value == 2
    assert [(r.name, r.figures["held_cells"].value) for r in server.ranks] == [("slot 0", 65), ("slot 1", 66)]


def test_what_idle_slots_keep_is_room() -> None:
    server = live(slots="slots-after.json")
    held = sum(slot["n_prompt_tokens"] for slot in document_of("slots-after.json"))
    level = server.levels[0]
    assert held > 0
    assert (level.used.value, level.evictable.value, level.room.value) == (0, held, 1024)


def test_slots_that_never_had_a_task_hold_nothing() -> None:
    assert live(slots="slots-idle.json").levels[0].evictable.value == 0


def test_a_build_that_does_not_state_what_a_slot_holds() -> None:
    slots = [{"id": 0, "n_ctx": 4096, "is_processing": True, "next_token": {"n_decoded": 7, "n_remain": -1}}]
    server = server_of(document(URL, "slots", slots))
    assert [level.pool for level in server.levels] == ["slots"]
    assert server.running.value == 1
    assert server_of(document(URL, "slots", [{"id": 0, "n_ctx": 4096, "state": 1}])).running.value == 1


def test_metrics_tell_who_runs_and_who_waits() -> None:
    server = recorded("metrics-busy.txt", "props.json")
    assert (server.running.value, [(q.label, q.waiting.value) for q in server.queues]) == (2, [("deferred", 2)])
    assert server.use("tokens_predicted_total").known


def test_the_model_list_alone_tells_the_context_of_a_slot() -> None:
    server = recorded("models.json")
    assert (server.says("n_ctx_slot"), server.says("n_ctx_train")) == (1024, 8192)
    assert not server_limits(server, Shape(100)).admits.known
    refused = server_limits(server, Shape(1024)).refused
    assert refused is not None
    assert refused.tokens.value == 1023


def test_a_page_of_metrics_that_is_one_json_string(tmp_path: Any) -> None:
    """llama.cpp b7010 and later (issue 17384)."""
    path = tmp_path / "metrics.txt"
    path.write_text(json.dumps((DATA / "metrics-busy.txt").read_text("utf-8")))
    whole = path.read_text()
    for text in (whole, whole[: whole.index("requests_deferred 2") + 19]):
        path.write_text(text)
        from ullage.cli.gather import Options, gather

        [server] = all_of(gather([str(path)], [], Options()))
        assert (server.running.value, server.queues[0].waiting.value) == (2, 2)


@pytest.mark.parametrize("value", ["NaN", "-1", "1e300"])
def test_a_gauge_that_is_no_quantity_is_not_used(value: str) -> None:
    server = server_of(metrics(URL, f"llamacpp:requests_processing {value}", "llamacpp:n_decode_total 5"))
    assert not server.running.known
    assert any("requests_processing" in note for note in server.notes)


ROUTER_PROPS = {
    "role": "router",
    "max_instances": 4,
    "model_path": "none",
    "default_generation_settings": {"params": None, "n_ctx": 0},
    "build_info": "b10000-0c1e570",
}


def model(name: str, state: str, *args: str) -> dict[str, object]:
    status = {"value": state, "args": ["llama-server", "--host", "127.0.0.1", *args]}
    return {"id": name, "object": "model", "owned_by": "llamacpp", "status": status}


ROUTER_MODELS = {
    "data": [
        model("small", "loaded", "--port", "42627", "--ctx-size", "1024", "--model", "/models/small.gguf"),
        model("large", "unloaded", "--port", "0", "--model", "/models/large.gguf"),
    ]
}


def test_a_router_has_no_slots_of_its_own() -> None:
    """Its /props states total_slots 1 (b9100), though no model is in that process."""
    props = document_of("props.json") | {"role": "router", "total_slots": 1, "max_instances": 4}
    figures = server_of(document(URL, "props", props)).figures
    assert (figures["models_max"].value, "n_slots" in figures) == (4, False)


def test_a_router_names_the_children_that_it_has_loaded() -> None:
    items = [document(URL, "props", ROUTER_PROPS), document(URL, "models", ROUTER_MODELS)]
    server = server_of(*items)
    assert (server.role, server.workers, server.pools) == (Role.ROUTER, ("http://127.0.0.1:42627",), ())
    assert values(server.usage) == {"models_available": 2, "models_loaded": 1}
    assert any("--follow" in note for note in server.notes)


def test_a_routers_word_on_a_childs_arguments_settles_what_the_child_leaves_open() -> None:
    props = {"default_generation_settings": {"n_ctx": 1024}, "total_slots": 4, "model_path": "/models/small.gguf"}
    items = [
        document(URL, "props", ROUTER_PROPS),
        document(URL, "models", ROUTER_MODELS),
        document("http://127.0.0.1:42627", "props", props),
    ]
    router, child = sorted(all_of(items), key=lambda s: s.role is not Role.ROUTER)
    assert router.role is Role.ROUTER
    assert (child.says("kv_unified"), total_context(child).value, total_context(child).low) == (True, 1024, None)


@pytest.mark.parametrize(
    "data", [[], [{}], {"default_generation_settings": 3}, [{"id": 0, "n_ctx": "x"}], {"data": []}]
)
def test_a_broken_answer_is_no_reading(data: Any) -> None:
    servers, _ = read([document(URL, "props", data)])
    assert not any(server.says("n_ctx_slot") for server in servers)


def test_a_sleeping_server_says_so() -> None:
    server = server_of(document(URL, "props", document_of("props.json") | {"is_sleeping": True}))
    assert any("sleeps" in note for note in server.notes)
    assert logged("srv  llama_server: model loaded").says("ready") is True
