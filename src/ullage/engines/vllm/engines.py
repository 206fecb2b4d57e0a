"""Data-parallel engines whose pools differ: each is reckoned by itself, and the deployment sums over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...capacity.pool import Pool
from ...figure import Figure, derived
from ..join import Joined
from ..server import Rank
from .capacity import total_context
from .pools import decision_of, engines_of, kv_blocks

_OWN = ("num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency")


def engine_ranks(joined: Joined) -> tuple[Rank, ...]:
    """The engines with what each states, and the blocks of its pool where it states one of its own."""
    return tuple(Rank(rank.name, _with_blocks(joined, rank.figures)) for rank in joined.ranks)


def over_engines(pool: Pool, ranks: Sequence[Rank]) -> Pool:
    """The pool by its least engine, with the range, where they differ."""
    sizes = [figure for rank in ranks if (figure := rank.figures.get("kv_blocks"))]
    if len(sizes) < 2 or len(sizes) != pool.partitions or len({f.value for f in sizes}) == 1:
        return pool
    least, most = min(sizes, key=_count), max(sizes, key=_count)
    note = "the least of the data-parallel engines"
    size = derived("kv_blocks", least.count, "blocks", tuple(sizes), note)
    return replace(pool, size=replace(size, low=least.count, high=most.count))


def context_of_all(joined: Joined, ranks: Sequence[Rank], pool: Pool) -> Figure:
    """Tokens over all engines: the sum, where their pools differ."""
    if pool.size.low is None:
        return total_context(joined, decision_of(joined))
    each = tuple(total_context(alone, decision_of(alone)) for r in ranks for alone in [_alone(joined, r.figures)])
    if not all(figure.known for figure in each):
        return total_context(joined, decision_of(joined))
    tokens, note = sum(figure.count for figure in each), f"sum over {len(each)} engines"
    return derived("total_context_tokens", tokens, "tokens", each, note)


def _with_blocks(joined: Joined, figures: Mapping[str, Figure]) -> Mapping[str, Figure]:
    if engines_of(joined) < 2 or not any(name in figures for name in _OWN[:2]):
        return figures
    alone = _alone(joined, figures)
    blocks = kv_blocks(alone, decision_of(alone))
    return {**figures, "kv_blocks": blocks} if blocks.known else figures


def _alone(joined: Joined, figures: Mapping[str, Figure]) -> Joined:
    """One engine as if it were the server: with its own pool instead of the least one's."""
    others = {n: f for n, f in joined.effective.items() if n not in (*_OWN, "data_parallel_size")}
    own = {name: figures[name] for name in _OWN if name in figures}
    args = {name: figure for name, figure in joined.args.items() if name != "data_parallel_size"}
    return replace(joined, effective={**others, **own}, args=args)


def _count(figure: Figure) -> int:
    return figure.count
