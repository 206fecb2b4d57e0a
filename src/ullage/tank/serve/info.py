"""What a worker says of itself: /server_info, /model_info, /v1/models."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from ... import __version__
from ..config import GIB, ServerArgs
from ..engine import Engine

_BEGAN = int(time.time())
MARK = "ullage-tank"  # by this Ullage knows that it is a tank


# What SGLang has a flag for, and is always so here.
_FIXED = {
    "dtype": "float32",
    "kv_cache_dtype": "float32",
    "device": "cpu",
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "schedule_policy": "fcfs",
    "disable_cuda_graph": True,
}


def stated_args(args: ServerArgs) -> dict[str, Any]:
    """All flags, with a key never in clear."""
    masked = {"api_key": "***" if args.api_key else None, "pace": args.pace and list(args.pace)}
    return {**asdict(args), **_FIXED, **masked}


def server_info(engine: Engine) -> dict[str, Any]:
    """SGLang's shape: the arguments, what is in effect, and one internal state. `tank_memory` has the exact bytes."""
    facts, args = engine.facts, engine.args
    asked = {
        **stated_args(args),
        "mem_fraction_static": facts.mem_fraction_static,
        "served_model_name": model_name(engine),
        "tokenizer_path": engine.loaded.path,
    }
    return {
        **asked,
        "engine": MARK,
        "version": __version__,
        "status": "ready",
        "max_total_num_tokens": facts.max_total_num_tokens,
        "max_req_input_len": facts.max_req_input_len,
        "internal_states": [_internal_state(engine, asked)],
        "tank_memory": tank_memory(engine),
    }


def _internal_state(engine: Engine, asked: dict[str, Any]) -> dict[str, Any]:
    facts = engine.facts
    return {
        **asked,
        "last_gen_throughput": engine.loads().gen_throughput,
        "memory_usage": {
            "weight": _gib(facts.weight_bytes),
            "kvcache": _gib(facts.kv_cache_bytes),
            "startup_available": _gib(facts.available_before_load_bytes),
            "token_capacity": facts.max_total_num_tokens,
            "graph": 0,
        },
        "effective_max_running_requests_per_dp": facts.max_running_requests,
    }


def tank_memory(engine: Engine) -> dict[str, int]:
    """Where every byte of --memory went; the parts sum to it."""
    facts = engine.facts
    return {
        "memory_bytes": facts.memory_bytes,
        "weight_bytes": facts.weight_bytes,
        "kv_cache_bytes": facts.kv_cache_bytes,
        "request_table_bytes": facts.request_table_bytes,
        "scratch_bytes": facts.scratch_bytes,
        "available_bytes": facts.available_bytes,
        "kv_bytes_per_token": facts.kv_bytes_per_token,
    }


def model_info(engine: Engine) -> dict[str, Any]:
    return {
        "model_path": engine.loaded.path,
        "tokenizer_path": engine.loaded.path,
        "is_generation": True,
        "weight_version": "default",
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
    }


def models(engine: Engine) -> dict[str, Any]:
    name = model_name(engine)
    card = {
        "id": name,
        "object": "model",
        "created": _BEGAN,
        "owned_by": "sglang",
        "root": name,
        "max_model_len": engine.facts.context_len,
    }
    return {"object": "list", "data": [card]}


def model_name(engine: Engine) -> str:
    return engine.args.served_model_name or engine.loaded.config.name


def _gib(value_bytes: int) -> float:
    """Two decimals, as SGLang rounds them."""
    return round(value_bytes / GIB, 2)
