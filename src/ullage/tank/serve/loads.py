"""How full a worker is: /v1/loads, and its predecessor /get_load."""

from __future__ import annotations

import time
from typing import Any

from ... import __version__
from ..config import GIB
from ..engine import Engine
from ..figures import Loads


def v1_loads(engine: Engine) -> dict[str, Any]:
    load = _load(engine)
    return {
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "version": __version__,
        "dp_rank_count": 1,
        "loads": [load],
        "aggregate": _over_all(load),
    }


def _over_all(load: dict[str, Any]) -> dict[str, Any]:
    """The one rank is all."""
    return {
        "total_running_reqs": load["num_running_reqs"],
        "total_waiting_reqs": load["num_waiting_reqs"],
        "total_reqs": load["num_running_reqs"] + load["num_waiting_reqs"],
        "total_used_tokens": load["num_used_tokens"],
        "total_tokens": load["num_total_tokens"],
        "avg_token_usage": load["token_usage"],
        "avg_throughput": load["gen_throughput"],
    }


def get_load(engine: Engine) -> list[dict[str, Any]]:
    load = _load(engine)
    waiting = load["num_waiting_reqs"]
    return [
        {
            "dp_rank": 0,
            "num_reqs": load["num_running_reqs"] + waiting,
            "num_waiting_reqs": waiting,
            "num_tokens": load["num_total_tokens"],
            "num_pending_tokens": load["num_total_tokens"] - load["num_used_tokens"],
            "ts_tic": time.monotonic(),
        }
    ]


def _load(engine: Engine) -> dict[str, Any]:
    """On a decode worker those in the prealloc, transfer and retracted queues wait too."""
    now, facts = engine.loads(), engine.facts
    waiting = now.waiting + now.prealloc_queue + now.transfer_queue + now.retracted_queue
    return {
        "dp_rank": 0,
        "num_running_reqs": now.running,
        "num_waiting_reqs": waiting,
        "num_used_tokens": now.used_tokens,
        "num_total_tokens": now.used_tokens + now.queued_tokens,
        "max_total_num_tokens": facts.max_total_num_tokens,
        "max_running_requests": facts.max_running_requests,
        "token_usage": round(now.token_usage, 4),
        "gen_throughput": round(now.gen_throughput, 2),
        "cache_hit_rate": round(now.cache_hit_rate, 4),
        "memory": {
            "weight_gb": round(facts.weight_bytes / GIB, 2),
            "kv_cache_gb": round(facts.kv_cache_bytes / GIB, 2),
            "graph_gb": 0,
            "token_capacity": facts.max_total_num_tokens,
        },
        "disaggregation": {"mode": "null" if facts.role == "unified" else facts.role, **_queues(facts.role, now)},
        "queues": {"waiting": now.waiting, "grammar": 0, "paused": 0, "retracted": now.retracted_queue},
    }


def _queues(role: str, now: Loads) -> dict[str, int]:
    """Those of its role: the others do not exist here."""
    if role == "prefill":
        return {
            "prefill_bootstrap_queue_reqs": now.bootstrap_queue,
            "prefill_inflight_queue_reqs": now.inflight_queue,
        }
    if role == "decode":
        return {
            "decode_prealloc_queue_reqs": now.prealloc_queue,
            "decode_transfer_queue_reqs": now.transfer_queue,
            "decode_retracted_queue_reqs": now.retracted_queue,
        }
    return {}
