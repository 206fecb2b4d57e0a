"""vLLM's evidence read into Servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...evidence import Argv, Document, Evidence, Log, Samples
from ...figure import Figure, default, derived, missing
from ..facts import Facts
from ..grouping import group
from ..join import Joined, join
from ..levels import level_of
from ..server import Level, Queue, Role, Server
from ..trust import Trust
from .arguments import from_argv, is_vllm, role_of
from .capacity import capacity_figures, cost_note
from .engines import context_of_all, engine_ranks, over_engines
from .from_endpoints import from_config, from_models, from_version
from .layout import Decision
from .pools import ceilings_of, decision_of, engines_of, pools_of
from .settings import default_output, settings_of

TRUST = Trust(
    # What the server states when asked outranks its log, which may be of another start. The page is not asked for what
    # it has wrong by version: see findings.
    effective=("server_info", "version", "models", "metrics", "log", "flags"),
    usage=("metrics", "log"),
    asked=("flags", "log", "models", "metrics"),
    identity=("model", "served_model_name", "port"),
    pool="num_gpu_blocks",
    loose=frozenset(
        ["architecture", "device", "graph_gib", "dtype", "model", "served_model_name", "max_model_len_at_least"]
    ),
    # The page reckons these again with a block size that is resolved late, and is wrong for models with several groups
    # (vllm-project/vllm issues 50456, 51163).
    of_quantity={
        "kv_cache_size_tokens": ("server_info", "log", "metrics"),
        "kv_cache_max_concurrency": ("server_info", "log", "metrics"),
        "max_model_len": ("server_info", "models", "log", "flags", "metrics"),
    },
    why=dict.fromkeys(
        ("kv_cache_size_tokens", "kv_cache_max_concurrency"),
        "the log states what the pool was made with; the page reckons it again, wrongly for models with several groups"
        " of layers",
    ),
)
_QUEUES = (
    ("num_requests_waiting_by_reason_capacity", "for capacity"),
    ("num_requests_waiting_by_reason_deferred", "deferred"),
    ("num_requests_deferred", "deferred"),
    ("num_requests_swapped", "swapped"),
)
_NOT_STATED = "no metrics or statistics lines in the evidence"


def facts_of(evidence: Evidence) -> list[Facts]:
    """What an item says of vLLM servers; nothing where it is not vLLM's."""
    content = evidence.content
    if isinstance(content, Log):
        from .from_log import from_log  # its patterns take their time to compile

        return from_log(evidence, content)
    if isinstance(content, Samples):
        from .from_metrics import from_metrics, looks_like_vllm

        return [from_metrics(evidence, content)] if looks_like_vllm(content) else []
    if isinstance(content, Argv):
        return [from_argv(evidence, content)] if is_vllm(content.words) else []
    return _of_document(evidence, content.data) if isinstance(content, Document) else []


def _of_document(evidence: Evidence, data: Any) -> list[Facts]:
    if not isinstance(data, dict):
        return []
    if "vllm_config" in data:
        return [from_config(evidence, data)]
    models = data.get("data")
    if isinstance(models, list) and any(isinstance(m, dict) and m.get("owned_by") == "vllm" for m in models):
        return [from_models(evidence, data)]
    if isinstance(data.get("version"), str) and len(data) == 1:
        return [from_version(evidence, data)]
    return []


def servers(facts: Sequence[Facts]) -> list[Server]:
    return [_server(join(parts, TRUST)) for parts in group(facts, TRUST)]


def _server(joined: Joined) -> Server:
    joined.role = _role(joined)
    decision = decision_of(joined)
    figures, ranks = _figures(joined, decision), engine_ranks(joined)
    blocks, slots = pools_of(joined, decision)
    pool = over_engines(blocks, ranks)
    return Server(
        name=joined.name,
        engine="vLLM",
        role=joined.role,
        figures=figures,
        settings=settings_of(joined, decision),
        pools=(pool, slots),
        ceilings=ceilings_of(joined, decision),
        usage=joined.usage,
        running=joined.usage.get("num_requests_running") or missing("num_requests_running", "requests", _NOT_STATED),
        queues=_queues(joined.usage),
        levels=_levels(joined, decision),
        total_context=context_of_all(joined, ranks, pool),
        default_output=default_output(joined),
        ranks=ranks,
        history=joined.history,
        earlier=joined.earlier,
        disagreements=joined.disagreements,
        evidence=joined.evidence,
        notes=_notes(joined, figures),
    )


def _role(joined: Joined) -> Role:
    """What one side alone counts, else what the arguments say."""
    told = {part.role for part in joined.parts} & {Role.PREFILL, Role.DECODE}
    return told.pop() if len(told) == 1 else role_of(joined.args)


def _figures(joined: Joined, decision: Decision) -> dict[str, Figure]:
    """What is in effect, what was asked for under its own name too, and what follows for the pool."""
    return {**joined.args, **joined.asked, **joined.effective, **capacity_figures(joined, decision)}


def _queues(usage: Mapping[str, Figure]) -> tuple[Queue, ...]:
    reasons = tuple(Queue(label, figure) for name, label in _QUEUES if (figure := usage.get(name)))
    waiting = usage.get("num_requests_waiting")
    return (*((Queue("waiting", waiting),) if waiting else ()), *reasons)


def _levels(joined: Joined, decision: Decision) -> tuple[Level, ...]:
    return tuple(level for level in (_blocks(joined, decision), _slots(joined)) if level)


def _blocks(joined: Joined, decision: Decision) -> Level | None:
    """usage = 1 - free / (blocks - 1): cached blocks that nobody holds count as free (v1/core/block_pool.py)."""
    share = joined.usage.get("kv_cache_usage_perc")
    if share is None:
        return None
    pool, engines = pools_of(joined, decision)[0], engines_of(joined)
    size = pool.size
    if size.known and engines > 1:
        size = derived(size.name, size.count * engines, size.unit, (size,), f"over {engines} engines")
    cached = missing("evictable", pool.unit, "vLLM counts cached blocks that nobody holds as free")
    none = default("reserved", 0, pool.unit, "output is not reserved; the null block is not counted")
    used = _used(size, share, engines)
    level = level_of(pool.name, size, used, none.renamed("evictable"), none, share)
    return level._replace(evictable=cached)


def _used(size: Figure, share: Figure, engines: int) -> Figure:
    if not size.known or engines > 1:
        reason = "only the share of the fullest engine is stated" if size.known else size.note
        return missing("used", size.unit, reason)
    return derived("used", round(size.number * share.number), size.unit, (size, share), "pool x usage")


def _slots(joined: Joined) -> Level | None:
    pool, now = pools_of(joined, decision_of(joined))[1], joined.usage.get("num_requests_running")
    if now is None:
        return None
    none = default("evictable", 0, pool.unit, "a slot holds no cache")
    engines = engines_of(joined)
    size = (
        pool.size
        if engines == 1 or not pool.size.known
        else derived(pool.size.name, pool.size.count * engines, pool.unit, (pool.size,), f"over {engines} engines")
    )
    return level_of(pool.name, size, now, none, none.renamed("reserved"))


def _notes(joined: Joined, figures: Mapping[str, Figure]) -> tuple[str, ...]:
    notes = [*(note for part in joined.parts for note in part.notes), cost_note(figures)]
    if joined.role is Role.UNKNOWN:
        connector = joined.args["kv_connector"].value
        notes.append(
            f"one side of a prefill/decode pair by {connector}; the requests decide which, so limits are those"
            " of a whole server"
        )
    return tuple(dict.fromkeys(note for note in notes if note))
