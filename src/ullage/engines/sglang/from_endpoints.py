"""SGLang's JSON endpoints: /server_info, /model_info, /v1/models, /v1/loads and their older names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...evidence import Evidence
from ...figure import Figure, Kind, Source
from ..facts import Facts, number, readings, refused, words
from ..server import Role
from .facts import argument_figures, role_of
from .ranks import least_of, over_ranks, rank_limits, ranks_counted

_MEMORY = {
    "weight": "weights_gib",
    "kvcache": "kv_total_gib",
    "startup_available": "startup_available_gib",
    "token_capacity": "max_total_num_tokens",
}
_LOAD_EFFECTIVE = {"max_total_num_tokens": "max_total_num_tokens", "max_running_requests": "max_running_requests"}
_LOAD_USAGE = {
    "num_running_reqs": "num_running_reqs",
    "num_waiting_reqs": "num_queue_reqs",
    "num_used_tokens": "num_used_tokens",
    "num_tokens": "num_total_tokens_used_and_queued",
    "token_usage": "token_usage",
    "gen_throughput": "gen_tokens_per_s",
    "cache_hit_rate": "cache_hit_rate",
}
_LOAD_QUEUES = {
    "prefill_bootstrap_queue_reqs": "num_prefill_bootstrap_queue_reqs",
    "prefill_inflight_queue_reqs": "num_prefill_inflight_queue_reqs",
    "decode_prealloc_queue_reqs": "num_decode_prealloc_queue_reqs",
    "decode_transfer_queue_reqs": "num_decode_transfer_queue_reqs",
    "decode_retracted_queue_reqs": "num_retracted_reqs",
}


def looks_like_server_info(data: Any) -> bool:
    return isinstance(data, dict) and (
        "internal_states" in data or {"mem_fraction_static", "model_path"} <= data.keys()
    )


def looks_like_models(data: Any) -> bool:
    return (
        isinstance(data, dict) and isinstance(data.get("data"), list) and any(_is_sglang_model(m) for m in data["data"])
    )


def _is_sglang_model(model: Any) -> bool:
    return isinstance(model, dict) and model.get("owned_by") == "sglang"


def looks_like_model_info(data: Any) -> bool:
    return isinstance(data, dict) and "model_path" in data and "is_generation" in data


def looks_like_loads(data: Any) -> bool:
    entries = _loads(data)
    return (
        bool(entries)
        and bool({"num_running_reqs", "num_reqs", "num_waiting_reqs"} & entries[0].keys())
        and "dp_rank" in entries[0]
    )


def from_server_info(evidence: Evidence, data: Mapping[str, Any]) -> Facts:
    """The arguments (after the engine resolved them), the pool, and what each data-parallel rank says of its memory."""
    place = Source(evidence.place)
    listed = data.get("internal_states")
    states = {i: s for i, s in enumerate(listed) if isinstance(s, dict)} if isinstance(listed, list) else {}
    first = next(iter(states.values()), {})
    args = argument_figures(
        {**{k: v for k, v in first.items() if v is not None}, **{k: v for k, v in data.items() if v is not None}}, place
    )
    top = [(n, data.get(n), Source(evidence.place, n)) for n in ("max_total_num_tokens", "max_req_input_len")]
    by_rank = {i: _state_pairs(state, f"internal_states[{i}]", evidence) for i, state in states.items()}
    stated = [*top, *(pair for pairs in by_rank.values() for pair in pairs)]
    effective = readings(stated)
    effective.update(words([("version", data.get("version"), Source(evidence.place, "version"))]))
    limits = rank_limits(by_rank.items())
    effective.update(least_of(limits))
    effective.update(ranks_counted(states, Source(evidence.place, "internal_states"), "that state their memory"))
    return Facts(
        evidence,
        "server_info",
        args,
        effective,
        over_ranks(_rates(states, evidence)),
        limits,
        role=role_of(data.get("disaggregation_mode") or first.get("disaggregation_mode")),
        notes=refused(stated),
    )


def _rates(states: Mapping[int, Mapping[str, Any]], evidence: Evidence) -> dict[str, dict[str, Figure]]:
    key = "last_gen_throughput"
    return {
        f"DP{i}": readings([("gen_tokens_per_s", s.get(key), Source(evidence.place, f"internal_states[{i}].{key}"))])
        for i, s in states.items()
    }


def _dicts(data: Any) -> list[dict[str, Any]]:
    return [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []


def _memory(state: Mapping[str, Any]) -> dict[str, Any]:
    memory = state.get("memory_usage")
    return memory if isinstance(memory, dict) else {}


def _state_pairs(state: Mapping[str, Any], place: str, evidence: Evidence) -> list[tuple[str, Any, Source]]:
    memory = _memory(state)
    pairs = [
        (name, memory.get(key), Source(evidence.place, f"{place}.memory_usage.{key}")) for key, name in _MEMORY.items()
    ]
    pairs.append(
        (
            "swa_max_total_num_tokens",
            memory.get("token_capacity_swa"),
            Source(evidence.place, f"{place}.memory_usage.token_capacity_swa"),
        )
    )
    graph = memory.get("graph", memory.get("cuda_graph"))
    total = sum(v for v in graph.values() if isinstance(v, (int, float))) if isinstance(graph, dict) else graph
    pairs.append(("graph_total_gib", total, Source(evidence.place, f"{place}.memory_usage.graph")))
    running = "effective_max_running_requests_per_dp"
    return [*pairs, ("max_running_requests", state.get(running), Source(evidence.place, f"{place}.{running}"))]


def from_model_info(evidence: Evidence, data: Mapping[str, Any]) -> Facts:
    source = Source(evidence.place, "model_path")
    args = argument_figures({"model_path": data.get("model_path")}, source)
    classes = data.get("architectures")
    name = classes[0] if isinstance(classes, list) and classes else None
    effective = words([("model_class", name, Source(evidence.place, "architectures"))])
    if isinstance(answers := data.get("is_generation"), bool):
        place = Source(evidence.place, "is_generation")
        effective["is_generation"] = Figure("is_generation", answers, "", Kind.READ, place)
    return Facts(evidence, "model_info", args, effective)


def from_models(evidence: Evidence, data: Mapping[str, Any]) -> Facts:
    """`max_model_len` is the context of one request, not the pool."""
    model = next(m for m in data["data"] if _is_sglang_model(m))
    effective = readings([("context_len", model.get("max_model_len"), Source(evidence.place, "data[0].max_model_len"))])
    return Facts(
        evidence,
        "models",
        argument_figures({"served_model_name": model.get("id")}, Source(evidence.place, "data[0].id")),
        effective,
    )


def _loads(data: Any) -> list[dict[str, Any]]:
    return _dicts(data.get("loads") if isinstance(data, dict) else data)


def from_loads(evidence: Evidence, data: Any) -> Facts:
    """Load per data-parallel rank. On a decode server "waiting" includes prealloc, transfer and retracted."""
    loads = _loads(data)
    numbers = [_load_rank(entry, index) for index, entry in enumerate(loads)]
    ranks = {
        f"DP{n}": _load_usage(entry, f"[{i}]", evidence)
        for i, (n, entry) in enumerate(zip(numbers, loads, strict=True))
    }
    stated = [
        [(name, entry.get(key), Source(evidence.place, f"[{i}].{key}")) for key, name in _LOAD_EFFECTIVE.items()]
        for i, entry in enumerate(loads)
    ]
    limits = rank_limits(zip(numbers, stated, strict=True))
    effective = readings(pair for pairs in stated for pair in pairs) | least_of(limits)
    effective.update(ranks_counted(numbers, Source(evidence.place, "dp_rank"), "that answered"))
    told_apart = {rank: {**found, **limits.get(rank, {})} for rank, found in ranks.items()} if len(ranks) > 1 else {}
    return Facts(evidence, "loads", {}, effective, over_ranks(ranks), told_apart, role=_load_role(loads[0]))


def _load_rank(entry: Mapping[str, Any], index: int) -> int:
    rank = entry.get("dp_rank")
    return rank if isinstance(rank, int) and not isinstance(rank, bool) else index


def _load_role(entry: Mapping[str, Any]) -> Role:
    queues = entry.get("disaggregation")
    return role_of(queues.get("mode") if isinstance(queues, dict) else None)


def _load_usage(entry: Mapping[str, Any], place: str, evidence: Evidence) -> dict[str, Figure]:
    queues = entry.get("disaggregation")
    queues = queues if isinstance(queues, dict) else {}
    pairs = [(name, entry.get(key), Source(evidence.place, f"{place}.{key}")) for key, name in _LOAD_USAGE.items()]
    pairs += [
        (name, queues.get(key), Source(evidence.place, f"{place}.disaggregation.{key}"))
        for key, name in _LOAD_QUEUES.items()
    ]
    usage = readings(pairs)
    every, waiting = number(entry.get("num_reqs")), number(entry.get("num_waiting_reqs"))
    if "num_running_reqs" not in usage and every is not None and waiting is not None:
        source = Source(evidence.place, f"{place}.num_reqs - num_waiting_reqs")
        usage.update(readings([("num_running_reqs", every - waiting, source)]))
    return usage
