"""SGLang's JSON endpoints: /server_info, /model_info, /v1/models, /v1/loads and their older names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...evidence import Evidence
from ...figure import Figure, Kind, Source, derived
from .facts import Facts, argument_figures, plain, readings, role_of, words
from .quantities import unit_of

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
_SUMMED = ("num_running_reqs", "num_queue_reqs", "num_used_tokens", "gen_tokens_per_s")


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
    states = [s for s in data.get("internal_states") or [] if isinstance(s, dict)]
    first = states[0] if states else {}
    args = argument_figures(
        {**{k: v for k, v in first.items() if v is not None}, **{k: v for k, v in data.items() if v is not None}}, place
    )
    pairs: list[tuple[str, Any, Source]] = [
        (n, data.get(n), Source(evidence.place, n)) for n in ("max_total_num_tokens", "max_req_input_len")
    ]
    for index, state in enumerate(states):
        pairs += _state_pairs(state, f"internal_states[{index}]", evidence)
    effective = readings(pairs)
    effective.update(words([("version", data.get("version"), Source(evidence.place, "version"))]))
    effective.update(_unequal_ranks(states, evidence))
    usage = readings(
        [
            ("gen_tokens_per_s", s.get("last_gen_throughput"), Source(evidence.place, f"internal_states[{i}]"))
            for i, s in enumerate(states)
        ]
    )
    return Facts(
        evidence,
        "server_info",
        args,
        effective,
        usage,
        role=role_of(data.get("disaggregation_mode") or first.get("disaggregation_mode")),
    )


def _state_pairs(state: Mapping[str, Any], place: str, evidence: Evidence) -> list[tuple[str, Any, Source]]:
    memory = state.get("memory_usage")
    memory = memory if isinstance(memory, dict) else {}
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


def _unequal_ranks(states: list[dict[str, Any]], evidence: Evidence) -> dict[str, Figure]:
    """The pool by the least rank, with the range, where data-parallel ranks hold different pools."""
    sizes = readings(
        (str(i), (s.get("memory_usage") or {}).get("token_capacity"), Source(evidence.place, f"internal_states[{i}]"))
        for i, s in enumerate(states)
    )
    tokens = [f.number for f in sizes.values()]
    if len(set(tokens)) < 2:
        return {}
    name = "max_total_num_tokens"
    return {
        name: Figure(
            name,
            min(tokens),
            "tokens",
            Kind.DERIVED,
            inputs=tuple(sizes.values()),
            note="the least of the data-parallel ranks",
            low=min(tokens),
            high=max(tokens),
        )
    }


def from_model_info(evidence: Evidence, data: Mapping[str, Any]) -> Facts:
    source = Source(evidence.place, "model_path")
    args = argument_figures({"model_path": data.get("model_path")}, source)
    classes = data.get("architectures")
    name = classes[0] if isinstance(classes, list) and classes else None
    return Facts(evidence, "model_info", args, words([("model_class", name, Source(evidence.place, "architectures"))]))


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
    entries: Any = data.get("loads") if isinstance(data, dict) else data
    return [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []


def from_loads(evidence: Evidence, data: Any) -> Facts:
    """Load per data-parallel rank. On a decode server "waiting" includes prealloc, transfer and retracted."""
    ranks = {
        f"DP{entry.get('dp_rank', index)}": _load_usage(entry, f"[{index}]", evidence)
        for index, entry in enumerate(_loads(data))
    }
    effective = readings(
        (name, entry.get(key), Source(evidence.place, f"[{i}].{key}"))
        for i, entry in enumerate(_loads(data))
        for key, name in _LOAD_EFFECTIVE.items()
    )
    mode = (_loads(data)[0].get("disaggregation") or {}).get("mode")
    return Facts(
        evidence, "loads", {}, effective, over_ranks(ranks), ranks if len(ranks) > 1 else {}, role=role_of(mode)
    )


def _load_usage(entry: Mapping[str, Any], place: str, evidence: Evidence) -> dict[str, Figure]:
    queues = entry.get("disaggregation")
    queues = queues if isinstance(queues, dict) else {}
    pairs = [(name, entry.get(key), Source(evidence.place, f"{place}.{key}")) for key, name in _LOAD_USAGE.items()]
    pairs += [
        (name, queues.get(key), Source(evidence.place, f"{place}.disaggregation.{key}"))
        for key, name in _LOAD_QUEUES.items()
    ]
    usage = readings(pairs)
    if (
        "num_running_reqs" not in usage
        and {"num_reqs", "num_waiting_reqs"} <= entry.keys()
        and plain(entry["num_reqs"])
    ):
        running = int(entry["num_reqs"]) - int(entry["num_waiting_reqs"])
        usage.update(
            readings([("num_running_reqs", running, Source(evidence.place, f"{place}.num_reqs - num_waiting_reqs"))])
        )
    return usage


def over_ranks(ranks: Mapping[str, Mapping[str, Figure]]) -> dict[str, Figure]:
    """Counts summed over data-parallel ranks, shares by the fullest."""
    usage: dict[str, Figure] = {}
    for name in dict.fromkeys(name for rank in ranks.values() for name in rank):
        figures = tuple(rank[name] for rank in ranks.values() if name in rank)
        usage[name] = figures[0] if len(figures) == 1 else _together(name, figures)
    return usage


def _together(name: str, figures: tuple[Figure, ...]) -> Figure:
    numbers = [f.number for f in figures]
    if is_count(name):
        return derived(name, sum(numbers), unit_of(name), figures, f"sum over {len(figures)} data-parallel ranks")
    return derived(name, max(numbers), unit_of(name), figures, f"the fullest of {len(figures)} data-parallel ranks")


def is_count(name: str) -> bool:
    """Does the quantity add up over ranks? Shares, ratios and rates per request do not."""
    return name in _SUMMED or name.endswith(("_reqs", "_tokens", "_slots", "_total", "_tokens_per_s"))
