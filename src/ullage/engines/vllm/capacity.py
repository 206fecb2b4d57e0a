"""Figures of a vLLM server's capacity: blocks, what a request takes of them, and what the printed tokens really are."""

from __future__ import annotations

from collections.abc import Mapping

from ...figure import Figure, derived, inferred, missing
from ..join import Joined
from .layout import Decision
from .pools import block_of, context_parallel, engines_of, full_length_tokens, kv_blocks, pool_blocks, stated_of

GIB = 2**30


def capacity_figures(joined: Joined, decision: Decision) -> dict[str, Figure]:
    """Blocks of one engine, bytes of a block, blocks that a request takes beyond its tokens, and of a full one."""
    total, usable = pool_blocks(joined, decision), kv_blocks(joined, decision)
    figures = {"num_gpu_blocks": total, "kv_blocks": usable} if total.known else {}
    layout, block = decision.layout, block_of(joined)
    if total.known and layout is not None and len(layout.asked.groups) == 1:
        note = "blocks x tokens of a block, the null block included: what an engine with one group prints"
        tokens = total.count * block.count * context_parallel(joined)
        figures["pool_tokens"] = derived("pool_tokens", tokens, "tokens", (total, block), note)
    figures.update(_of_request(joined, decision, usable))
    figures.update(_printed(joined, decision))
    available = joined.effective.get("available_kv_gib")
    if available is not None and total.known:
        size = round(available.number * GIB / total.number)
        note = "available KV memory / blocks; it is printed with two decimals"
        figures["bytes_per_block"] = derived("bytes_per_block", size, "bytes", (available, total), note)
    return figures


def _of_request(joined: Joined, decision: Decision, usable: Figure) -> dict[str, Figure]:
    layout, length = decision.layout, joined.effective.get("max_model_len")
    if not usable.known:
        return {}
    make = derived if decision.proven else inferred
    figures = {}
    if decision.request_blocks and length is not None:
        note = f"of {length.count:,} tokens: {decision.why}"
        figures["blocks_per_full_request"] = make(
            "blocks_per_full_request", decision.request_blocks, "blocks", (usable, length), note
        )
    if layout is not None:
        figures["fixed_blocks_per_request"] = make(
            "fixed_blocks_per_request", layout.fixed, "blocks", (usable,), f"held whatever its length: {layout.kind}"
        )
        slope = float(layout.slope)
        figures["blocks_per_token"] = make("blocks_per_token", slope, "blocks", (usable,), "beyond what is fixed")
    return figures


def total_context(joined: Joined, decision: Decision) -> Figure:
    """Tokens that full-length requests hold together, over all engines; of one group of layers all its blocks hold."""
    engines, size, length = engines_of(joined), kv_blocks(joined, decision), joined.effective.get("max_model_len")
    layout = decision.layout
    if layout is not None and size.known and layout.is_plain:
        slope = layout.asked.groups[0].per_token
        tokens = int(size.count / slope) * engines
        return derived("total_context_tokens", tokens, "tokens", (size,), _over(engines, "blocks x tokens of a block"))
    if size.known and decision.request_blocks and length is not None:
        tokens = size.count * length.count // decision.request_blocks * engines
        note = "in full-length requests; shorter ones hold fewer tokens together, for each takes its fixed blocks"
        return derived("total_context_tokens", tokens, "tokens", (size, length), _over(engines, note))
    stated = full_length_tokens(joined)
    if stated is not None:
        note = "in full-length requests, as the engine states; what shorter ones hold is not known"
        return derived("total_context_tokens", stated.count * engines, "tokens", (stated,), _over(engines, note))
    return missing("total_context_tokens", "tokens", size.note or "the pool is not known")


def _over(engines: int, note: str) -> str:
    return note if engines == 1 else f"{note}, over {engines} engines"


def _printed(joined: Joined, decision: Decision) -> dict[str, Figure]:
    """What "KV cache size" is, where it is not the capacity."""
    printed, stated = joined.effective.get("kv_cache_size_tokens"), stated_of(joined)
    if printed is None:
        return {}
    one = decision.layout is not None and len(decision.layout.asked.groups) == 1
    if one and (stated.is_divided or decision.blocks == printed.count // (stated.block * stated.parallel)):
        return {}  # all that the blocks hold
    if stated.is_divided:
        meaning, note = "pool / groups", "builds before 0.20.2 divide the pool by the groups of layers"
    elif stated.length and (decision.layout is None or not decision.layout.is_plain):
        meaning, note = "concurrency x max_model_len", f"it is what requests of {stated.length:,} tokens would hold"
    else:
        return {}
    return {"kv_cache_size_meaning": derived("kv_cache_size_meaning", meaning, "", (printed,), note)}


def cost_note(figures: Mapping[str, Figure]) -> str:
    """What a request costs, where it is more than its tokens: a fixed part and a slope, in blocks and in bytes."""
    fixed, slope, size = (figures.get(n) for n in ("fixed_blocks_per_request", "blocks_per_token", "bytes_per_block"))
    if fixed is None or slope is None or not fixed.number:
        return ""
    growth = f"one more for every {1 / slope.number:,.0f} tokens" if slope.number else "no more for its tokens"
    blocks = "1 block" if fixed.count == 1 else f"up to {fixed.count:,} blocks"
    told = f"a request takes {blocks} whatever its length, and {growth}"
    if size is None:
        return told
    each = slope.number * size.number / 1024
    return f"{told}: {fixed.number * size.number / GIB:,.2f} GiB, and {each:,.2f} KiB a token"
