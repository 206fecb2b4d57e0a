"""llama-server's endpoints: /props, /slots, /v1/models and /metrics, of a server with a model and of a router."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from ...evidence import Evidence, Samples
from ...figure import Figure, Kind, Source, derived
from ..facts import Facts, number, quantity, readings, refused, words
from ..server import Role
from .flags import arguments_of

_SERIES = "llamacpp:"
_HOST = re.compile(r"https?://(?:[^@/]*@)?(?:\[[^\]]+\]|[^:/]+)")
_META = {"n_ctx": "n_ctx_slot", "n_ctx_train": "n_ctx_train", "n_params": "n_params", "size": "model_bytes"}


def looks_like_props(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(data.get("default_generation_settings"), dict)


def looks_like_slots(data: Any) -> bool:
    return (
        isinstance(data, list) and bool(data) and all(isinstance(s, dict) and {"id", "n_ctx"} <= s.keys() for s in data)
    )


def looks_like_models(data: Any) -> bool:
    models = data.get("data") if isinstance(data, dict) else None
    return isinstance(models, list) and any(isinstance(m, dict) and m.get("owned_by") == "llamacpp" for m in models)


def looks_like_metrics(samples: Samples) -> bool:
    return any(sample.name.startswith(_SERIES) for sample in samples.samples)


def from_props(evidence: Evidence, data: Mapping[str, Any]) -> list[Facts]:
    """Slots, the context of one, the model, the build. It does not say whether the slots share one pool."""
    place = evidence.place
    settings = data["default_generation_settings"]
    is_router = data.get("role") == "router"
    params = settings.get("params") if isinstance(settings.get("params"), dict) else settings
    stated = [
        ("n_slots", None if is_router else data.get("total_slots"), Source(place, "total_slots")),
        ("n_ctx_slot", settings.get("n_ctx") or None, Source(place, "default_generation_settings.n_ctx")),
        ("models_max", data.get("max_instances"), Source(place, "max_instances")),
    ]
    effective = readings(stated)
    effective |= words(
        [
            ("version", str(data.get("build_info") or ""), Source(place, "build_info")),
            *(() if is_router else _names(data, place)),
        ]
    )
    for name in ("is_sleeping", "endpoint_slots", "endpoint_metrics"):
        if isinstance(data.get(name), bool):
            effective[name] = Figure(name, data[name], "", Kind.READ, Source(place, name))
    predict = params.get("n_predict", params.get("max_tokens"))
    if isinstance(predict, int) and not isinstance(predict, bool):
        source = Source(place, "default_generation_settings.params.n_predict")
        effective["n_predict"] = Figure("n_predict", predict, "tokens", Kind.READ, source)
    role = Role.ROUTER if is_router else Role.UNIFIED
    return [Facts(evidence, "props", {}, effective, role=role, notes=refused(stated))]


def _names(data: Mapping[str, Any], place: str) -> Iterable[tuple[str, object, Source]]:
    return ((name, data.get(name), Source(place, name)) for name in ("model_path", "model_alias"))


def from_slots(evidence: Evidence, data: list[dict[str, Any]]) -> list[Facts]:
    """Each slot: whether it works, and the cells it holds. An idle slot keeps its last prompt."""
    place = evidence.place
    counted = Figure("n_slots", len(data), "requests", Kind.READ, Source(place, "the slots listed"))
    context = min((c for slot in data if (c := quantity("context_len", slot.get("n_ctx")))), default=None)
    effective = {"n_slots": counted} | readings([("n_ctx_slot", context, Source(place, "[].n_ctx"))])
    slots = {f"slot {slot['id']}": _slot(slot, f"[{n}]", evidence) for n, slot in enumerate(data)}
    return [Facts(evidence, "slots", {}, effective, _over_slots(data, slots, place), slots, Role.UNIFIED)]


def _slot(slot: Mapping[str, Any], place: str, evidence: Evidence) -> dict[str, Figure]:
    first = slot.get("next_token")
    first = first[0] if isinstance(first, list) and first else first
    first = first if isinstance(first, dict) else {}
    pairs = [
        ("n_prompt_tokens", slot.get("n_prompt_tokens"), "n_prompt_tokens"),
        ("n_prompt_tokens_processed", slot.get("n_prompt_tokens_processed"), "n_prompt_tokens_processed"),
        ("n_prompt_tokens_cache", slot.get("n_prompt_tokens_cache"), "n_prompt_tokens_cache"),
        ("n_decoded", first.get("n_decoded"), "next_token[0].n_decoded"),
    ]
    found = readings([(name, value, Source(evidence.place, f"{place}.{key}")) for name, value, key in pairs])
    working = is_working(slot)
    if working is not None:
        source = Source(evidence.place, f"{place}.is_processing")
        found["is_processing"] = Figure("is_processing", working, "", Kind.READ, source)
    if (held := _held(found, never_used="id_task" not in slot)) is not None:
        found["held_cells"] = held
    return found


def is_working(slot: Mapping[str, Any]) -> bool | None:
    """`is_processing`; builds of 2024 state a `state` instead, 0 when idle."""
    if isinstance(working := slot.get("is_processing"), bool):
        return working
    return bool(slot["state"]) if isinstance(slot.get("state"), int) else None


def _held(slot: Mapping[str, Figure], *, never_used: bool) -> Figure | None:
    """Cells of the KV cache. `n_prompt_tokens` grows with every token that is generated (server-context.cpp: the size
    of slot.prompt), so it is all of it. None where a build does not state it.
    """
    stated = slot.get("n_prompt_tokens")
    if stated is not None:
        return derived("held_cells", stated.count, "tokens", (stated,), "prompt and generated tokens in the cache")
    working = slot.get("is_processing")
    if never_used and working is not None and working.value is False and "n_decoded" not in slot:
        return derived("held_cells", 0, "tokens", (working,), "no task was given to it yet")
    return None


def _over_slots(data: list[dict[str, Any]], slots: Mapping[str, Mapping[str, Figure]], place: str) -> dict[str, Figure]:
    found = {}
    if all(is_working(slot) is not None for slot in data):
        working = sum(is_working(slot) is True for slot in data)
        source = Source(place, "[].is_processing")
        found["requests_processing"] = Figure("requests_processing", working, "requests", Kind.READ, source)
    held = [(slot["is_processing"].value, slot["held_cells"]) for slot in slots.values() if "held_cells" in slot]
    if len(held) == len(slots):
        for name, wanted, note in _HELD:
            parts = tuple(figure for working, figure in held if working is wanted)
            found[name] = derived(
                name, sum(p.count for p in parts), "tokens", parts or (found["requests_processing"],), note
            )
    return found


_HELD = (
    ("processing_cells", True, "over the slots that work"),
    ("idle_cells", False, "kept by idle slots for reuse"),
)


def from_models(evidence: Evidence, data: Mapping[str, Any]) -> list[Facts]:
    """The model and the context of a slot. A router lists all models it could load, with the state of each, and the
    arguments that it started those with that it has loaded.
    """
    models = [(n, m) for n, m in enumerate(data["data"]) if isinstance(m, dict) and m.get("owned_by") == "llamacpp"]
    if any("status" in model for _, model in models):
        return [*_from_router_models(evidence, [model for _, model in models])]
    number_, model = models[0]
    stated_meta = model.get("meta")
    meta = stated_meta if isinstance(stated_meta, dict) else {}
    stated = [
        (name, meta.get(key), Source(evidence.place, f"data[{number_}].meta.{key}")) for key, name in _META.items()
    ]
    effective = readings(stated)
    effective |= words([("model_alias", model.get("id"), Source(evidence.place, f"data[{number_}].id"))])
    return [Facts(evidence, "models", {}, effective, role=Role.UNIFIED)]


def _from_router_models(evidence: Evidence, models: list[dict[str, Any]]) -> Iterator[Facts]:
    loaded = [model for model in models if _status(model).get("value") == "loaded"]
    source = Source(evidence.place, "data[].status")
    usage = {
        name: Figure(name, count, "", Kind.READ, source)
        for name, count in (("models_available", len(models)), ("models_loaded", len(loaded)))
    }
    children = {url: model for model in loaded if (url := _url(evidence.origin.target, _status(model).get("args")))}
    effective = words((f"child {model.get('id')}", url, source) for url, model in children.items())
    yield Facts(evidence, "models", {}, effective, usage, role=Role.ROUTER)
    for url, model in children.items():
        of_child = evidence._replace(origin=evidence.origin._replace(target=url))
        place = Source(evidence.place, "data[].status.args")
        args, notes = arguments_of([str(word) for word in _status(model)["args"]], {}, place)
        yield Facts(of_child, "flags", args, role=Role.UNIFIED, notes=notes)


def _status(model: Mapping[str, Any]) -> Mapping[str, Any]:
    status = model.get("status")
    return status if isinstance(status, dict) else {}


def _url(router: str, args: Any) -> str | None:
    """Of the child: on the router's host, at the port in the arguments it was started with."""
    host = _HOST.match(router)
    port = next((after for word, after in pairwise(args) if word == "--port"), "") if isinstance(args, list) else ""
    return f"{host[0]}:{port}" if host and str(port).isdigit() and port != "0" else None


def from_metrics(evidence: Evidence, samples: Samples) -> Facts:
    """Counters and gauges by their own names. (kv_cache_usage_ratio and kv_cache_tokens ended in May 2025.)"""
    known = [
        (sample.name.removeprefix(_SERIES), sample.value, Source(evidence.place, sample.name))
        for sample in samples.samples
        if sample.name.startswith(_SERIES)
    ]
    stated = [(name, value, source) for name, value, source in known if number(value) is not None]
    return Facts(evidence, "metrics", {}, {}, readings(stated), notes=(*samples.problems, *refused(known)))
