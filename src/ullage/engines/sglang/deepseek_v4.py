"""DeepSeek-V4 in SGLang: what a token of context costs apart from what a token of the pool is charged."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...figure import Figure, inferred

# Layers by compression (config.json `compress_ratios` without the draft layers): c4 with index keys, c128.
_LAYERS = {"flash": (21, 20), "pro": (30, 31)}
_KV_BYTES, _INDEX_BYTES = 584, 132  # per compressed slot: 448 + 64 * 2 + 8; fp8 index key 128 + 4
# What the first generations charge per token; it tells the model where no name does (facts: table of four generations).
_CHARGED = {
    15955.85: "flash",
    15897.45: "flash",
    26024.93: "flash",
    7705.45: "flash",
    9259.90: "flash",
    23749.84: "pro",
    13735.04: "pro",
}


def is_v4(figures: Mapping[str, Figure]) -> bool:
    """By what a token is charged, which only its lines state, else by the name of the model."""
    named = [figures[name] for name in ("model_class", "model_path", "served_model_name") if name in figures]
    is_named = any(re.search(r"deepseek-?_?v4", str(figure.value), re.IGNORECASE) for figure in named)
    return "bytes_per_full_token" in figures or is_named


def context_bytes_per_token(figures: Mapping[str, Figure]) -> Figure | None:
    """Bytes that one more token of context takes: c4 KV and index keys at a quarter of the tokens, c128 KV at 1/128.

    (pool_configurator.py, generations A to B; 3,850.25 B for Flash.) None where the model is not one whose layers are
    known.
    """
    charged = figures.get("bytes_per_full_token")
    model = _model(figures)
    if charged is None or model is None:
        return None
    c4, c128 = _LAYERS[model]
    cost = 0.25 * c4 * (_KV_BYTES + _INDEX_BYTES) + c128 * _KV_BYTES / 128
    return inferred(
        "context_bytes_per_token",
        cost,
        "bytes",
        (charged,),
        f"DeepSeek-V4-{model.title()}: {c4} c4 and {c128} c128 layers",
    )


def _model(figures: Mapping[str, Figure]) -> str | None:
    for name in ("model_path", "served_model_name"):
        figure = figures.get(name)
        match = re.search(r"v4-?(flash|pro)", str(figure.value), re.IGNORECASE) if figure else None
        if match:
            return match[1].lower()
    charged = figures.get("bytes_per_full_token")
    return _CHARGED.get(round(float(charged.number), 2)) if charged else None
