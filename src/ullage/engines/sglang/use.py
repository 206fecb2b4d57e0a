"""How full the pools of an SGLang server are, who runs and who waits, over all data-parallel ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ...capacity.admission import FitsNow
from ...capacity.pool import Pool
from ...figure import Figure, default, derived, missing
from ..join import Joined
from ..levels import level_of
from ..server import Level, Queue, Role
from .admission import DecodeReserve, PrefillPass

_QUEUES = (
    ("num_queue_reqs", "waiting"),
    ("num_decode_prealloc_queue_reqs", "prealloc"),
    ("num_decode_transfer_queue_reqs", "transfer"),
    ("num_retracted_reqs", "retracted"),
    ("num_prefill_bootstrap_queue_reqs", "bootstrap"),
    ("num_prefill_inflight_queue_reqs", "in flight"),
)
_HOLD_SLOTS = ("num_decode_transfer_queue_reqs", "num_prefill_inflight_queue_reqs")  # queues that hold request slots
_HOLD_NONE = ("num_decode_prealloc_queue_reqs", "num_retracted_reqs")  # of decode: queues that hold none
_NOT_STATED = "no metrics, loads or batch lines in the evidence"


class _Stated(NamedTuple):
    """The names under which the use of a pool is stated: as a count, as a share, and the cache in it."""

    used: tuple[str, ...]
    share: tuple[str, ...]
    evictable: str


_STATED = {
    "KV pool": _Stated(("num_used_tokens",), ("full_token_usage", "token_usage"), "kv_evictable_tokens"),
    "window pool": _Stated(("swa_used_tokens",), ("swa_token_usage",), "swa_evictable_tokens"),
    "state slots": _Stated(("mamba_used_slots", "mamba_used_tokens"), ("mamba_usage",), "mamba_evictable_tokens"),
}


def running(joined: Joined) -> Figure:
    return joined.usage.get("num_running_reqs") or missing("num_running_reqs", "requests", _NOT_STATED)


def queues(joined: Joined) -> tuple[Queue, ...]:
    """Those that are stated, in the order in which a request passes them."""
    return tuple(Queue(label, figure) for name, label in _QUEUES if (figure := joined.usage.get(name)))


def levels(joined: Joined, pools: Sequence[Pool]) -> tuple[Level, ...]:
    """How full each pool is, where anything states its use."""
    return tuple(level for pool in pools if (level := _level(joined, pool)))


def kv_use(levels: Sequence[Level]) -> dict[str, Figure]:
    """Tokens in use and their share of the KV pool, under the names that findings and `explain` know them by."""
    kv = next((level for level in levels if level.pool == "KV pool"), None)
    if kv is None or not kv.used.known:
        return {}
    used = {"num_used_tokens": kv.used}
    return {**used, "kv_pool_usage": kv.in_use.renamed("kv_pool_usage")} if kv.size.known else used


def _level(joined: Joined, pool: Pool) -> Level | None:
    if pool.name == "request slots":
        return _slots(joined, pool)
    stated = _STATED.get(pool.name)
    if stated is None:
        return None
    size = _whole(joined, pool)
    share = _share(joined, stated)
    used = _used(joined, pool, stated, size, share)
    if not used.known and share is None and used.note == _NOT_STATED:
        return None
    evictable = _evictable(joined, pool, stated)
    return level_of(pool.name, size, used, evictable, _reserved(joined, pool, size, used), share)


def _slots(joined: Joined, pool: Pool) -> Level | None:
    """Running requests hold one each; so do those in transfer, and on decode those that wait with their KV here."""
    now = running(joined)
    if not now.known:
        return None
    besides, count = _waiting_with_slots(joined)
    used = _of_all_ranks(now, pool)
    if besides and used.known:
        words = "running, in transfer, or waiting with a slot"
        used = derived("request_slots_in_use", now.count + count, pool.unit, (now, *besides), words)
    none = default("evictable", 0, pool.unit, "a slot holds no cache")
    return level_of(pool.name, _whole(joined, pool), used, none, _nothing_kept(pool))


def _waiting_with_slots(joined: Joined) -> tuple[tuple[Figure, ...], int]:
    """The figures of queues that hold slots, and how many they hold. On decode /v1/loads counts those in prealloc, in
    transfer and set aside as waiting too; the gauge and the log do not.
    """
    stated = {name: f for name in (*_HOLD_SLOTS, *_HOLD_NONE, "num_queue_reqs") if (f := joined.usage.get(name))}
    waiting = stated.get("num_queue_reqs")
    holding = tuple(f for name, f in stated.items() if name in _HOLD_SLOTS)
    if joined.role is not Role.DECODE or waiting is None:
        return holding, sum(f.count for f in holding)
    without = tuple(f for name, f in stated.items() if name in _HOLD_NONE)
    if any(part.topic == "loads" and "num_queue_reqs" in part.usage for part in joined.parts):
        return (waiting, *without), max(0, waiting.count - sum(f.count for f in without))
    return (waiting, *holding), waiting.count + sum(f.count for f in holding)


def _whole(joined: Joined, pool: Pool) -> Figure:
    """The pool of all data-parallel ranks together."""
    if not pool.size.known or pool.partitions == 1:
        return pool.size
    if pool.size.low is not None:
        by_rank = _by_rank(joined, pool.size.name)
        if len(by_rank) != pool.partitions:
            return missing(pool.size.name, pool.unit, "the ranks differ, and not the pool of each is known")
        total, inputs = sum(f.count for f in by_rank), by_rank
    else:
        total, inputs = pool.size.count * pool.partitions, (pool.size,)
    return derived(pool.size.name, total, pool.unit, inputs, f"over {pool.partitions} data-parallel ranks")


def _by_rank(joined: Joined, name: str) -> tuple[Figure, ...]:
    told = {rank: found for part in reversed(joined.parts) for rank, found in part.rank_usage.items()}
    return tuple(found[name] for found in told.values() if name in found)


def _share(joined: Joined, stated: _Stated) -> Figure | None:
    """The share as stated. `token_usage` is the fullest of several pools where there are several: no use of KV."""
    several = bool({"swa_token_usage", "mamba_usage"} & joined.usage.keys())
    names = [name for name in stated.share if not (name == "token_usage" and several)]
    return next((f for name in names if (f := joined.usage.get(name))), None)


def _used(joined: Joined, pool: Pool, stated: _Stated, size: Figure, share: Figure | None) -> Figure:
    """The count that is stated, of all ranks; else the share of the pool."""
    name = stated.used[0]
    used = next((f for n in stated.used if (f := joined.usage.get(n))), None)
    if used is not None:
        return _of_all_ranks(used, pool)
    if share is None:
        return missing(name, pool.unit, _NOT_STATED)
    if not size.known or pool.partitions > 1:
        reason = "only a share is stated, of the fullest rank" if size.known else "only a share is stated"
        return missing(name, pool.unit, reason)
    note = f"pool x {share.name}, which is rounded to 1 %"
    return derived(name, round(size.number * share.number), pool.unit, (size, share), note)


def _of_all_ranks(used: Figure, pool: Pool) -> Figure:
    """A count, where every data-parallel rank told it."""
    told = max(1, len(used.inputs)) if used.note.startswith("sum over") else 1
    if told < pool.partitions:
        reason = f"{told} of {pool.partitions} data-parallel ranks told their use: {used.count:,}"
        return missing(used.name, pool.unit, reason)
    return replace(used, unit=pool.unit)


def _evictable(joined: Joined, pool: Pool, stated: _Stated) -> Figure:
    """What the prefix cache holds and would give back; nothing where there is no such cache."""
    if (figure := joined.usage.get(stated.evictable)) is not None:
        return replace(figure, unit=pool.unit)
    off = joined.known("disable_radix_cache")
    if off is not None and off.value is True:
        return derived(stated.evictable, 0, pool.unit, (off,), "there is no prefix cache")
    decode_cache = joined.known("disaggregation_decode_enable_radix_cache")
    if joined.role is Role.DECODE and decode_cache is not None and decode_cache.value is False:
        return derived(stated.evictable, 0, pool.unit, (decode_cache,), "there is no prefix cache")
    return missing(stated.evictable, pool.unit, f"only the metrics page states it, as {stated.evictable}")


def _reserved(joined: Joined, pool: Pool, size: Figure, used: Figure) -> Figure:
    """What the test at the door keeps back from newcomers."""
    if isinstance(pool.rule, DecodeReserve):
        return _decode_reserve(joined, pool, pool.rule, size, used)
    if isinstance(pool.rule, (FitsNow, PrefillPass)):
        return _nothing_kept(pool)
    reason = "room kept for the output of running requests, which depends on the max_tokens of each"
    return missing("reserved", pool.unit, reason)


def _nothing_kept(pool: Pool) -> Figure:
    return default("reserved", 0, pool.unit, "its test at the door keeps nothing back")


def _decode_reserve(joined: Joined, pool: Pool, rule: DecodeReserve, size: Figure, used: Figure) -> Figure:
    """R tokens for each request that runs or is in transfer, as far as the pool has them (disaggregation/decode.py)."""
    counted = [f for n in ("num_running_reqs", "num_decode_transfer_queue_reqs") if (f := joined.usage.get(n))]
    if not counted or counted[0].name != "num_running_reqs":
        return missing("reserved", pool.unit, "how many requests run is not known")
    tokens = rule.reserved * sum(f.count for f in counted)
    if size.known and used.known:
        tokens = min(tokens, max(0, size.count - used.count))
    reserve = next(f for f in pool.inputs if f.name == "num_reserved_decode_tokens")
    return derived("reserved", tokens, pool.unit, (reserve, *counted), "for each request that runs or is in transfer")
