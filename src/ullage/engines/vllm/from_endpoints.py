"""vLLM's JSON endpoints: /version, /v1/models, and /server_info of development mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...evidence import Evidence
from ...figure import Kind, Source
from ..facts import Facts, readings, words
from .arguments import argument_figures, printed, role_of, settled


def from_version(evidence: Evidence, data: Mapping[str, Any]) -> Facts:
    place = Source(evidence.place, "version")
    return Facts(evidence, "version", effective=words([("version", data.get("version"), place)]))


def from_models(evidence: Evidence, data: Mapping[str, Any]) -> Facts:
    """The base model: adapters stand in the list too, with a parent."""
    models = [m for m in data["data"] if isinstance(m, dict)]
    index, model = next(((n, m) for n, m in enumerate(models) if not m.get("parent")), (0, models[0]))
    place = Source(evidence.place, f"data[{index}]")
    length = place._replace(place=f"{place.place}.max_model_len")
    return Facts(
        evidence,
        "models",
        args=words([("served_model_name", model.get("id"), place), ("model", model.get("root"), place)]),
        effective=readings([("max_model_len", model.get("max_model_len"), length)]),
    )


def from_config(evidence: Evidence, data: Mapping[str, Any]) -> Facts:
    """The whole configuration, as JSON or as its text; it is resolved, and in effect."""
    config = data["vllm_config"]
    place = Source(evidence.place, "vllm_config")
    values = settled(_flat(config)) if isinstance(config, dict) else printed(str(config))
    return Facts(evidence, "server_info", effective=argument_figures(values, place, Kind.READ), role=role_of({}))


def _flat(config: Mapping[str, Any]) -> dict[str, object]:
    """`{"model_config": {"max_model_len": ...}, ...}` by the names inside; the first of a name counts."""
    found: dict[str, object] = {}
    for name, value in config.items():
        if (
            isinstance(value, dict)
            and name.endswith("_config")
            and name not in ("kv_transfer_config", "speculative_config")
        ):
            found.update({n: v for n, v in value.items() if n not in found})
        else:
            found[name] = value
    return found
