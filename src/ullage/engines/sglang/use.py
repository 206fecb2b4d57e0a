"""How much of the KV pool is in use and how much is left, over all data-parallel ranks."""

from __future__ import annotations

from ...figure import Figure, derived, missing
from ..join import Joined


def pool_use(joined: Joined) -> dict[str, Figure]:
    """Tokens in use, their share of the pool, and the room left. What the prefix cache would give back is room."""
    pool = joined.effective.get("max_total_num_tokens")
    ranks = int(f.number) if (f := joined.known("dp_size")) and isinstance(f.value, int) else 1
    used = joined.usage.get("num_used_tokens") or (_by_share(joined, pool, ranks) if pool else None)
    if pool is None:
        return {"room_tokens": missing("room_tokens", "tokens", "the size of the pool is not known")}
    if used is None:
        return {}
    told = max(1, len(used.inputs)) if used.note.startswith("sum over") else 1
    if told < ranks:
        reason = f"{told} of {ranks} data-parallel ranks told their use"
        return {"num_used_tokens": used, "room_tokens": missing("room_tokens", "tokens", reason)}
    total = sum(_by_rank(joined, pool)) if len(_by_rank(joined, pool)) == ranks > 1 else pool.count * ranks
    room = derived("room_tokens", max(0, total - used.count), "tokens", (pool, used), "pool less use")
    share = derived("kv_pool_usage", used.number / total if total else 0.0, "of the pool", (used, pool), "use / pool")
    return {"num_used_tokens": used, "room_tokens": room, "kv_pool_usage": share}


def _by_rank(joined: Joined, pool: Figure) -> list[int]:
    """The pools of the data-parallel ranks, where they differ."""
    if pool.low is None:
        return []
    told = {rank: found for part in reversed(joined.parts) for rank, found in part.rank_usage.items()}
    return [found[pool.name].count for found in told.values() if pool.name in found]


def _by_share(joined: Joined, pool: Figure, ranks: int) -> Figure | None:
    """Use by the logged share. `token_usage` is the fullest of several pools where there are several: no use of KV."""
    share = joined.usage.get("full_token_usage")
    if share is None and not {"swa_token_usage", "mamba_usage"} & joined.usage.keys():
        share = joined.usage.get("token_usage")
    if share is None or ranks > 1:
        return None
    note = f"pool x {share.name}, which is rounded to 1 %"
    return derived("num_used_tokens", round(pool.number * share.number), "tokens", (pool, share), note)
