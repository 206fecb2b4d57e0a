"""The pools of a llama-server, and the ceilings on one request."""

from __future__ import annotations

from ...capacity.admission import FitsNow
from ...capacity.demand import Demand
from ...capacity.limits import Ceiling
from ...capacity.pool import Pool
from ...figure import Figure, derived
from ..join import Joined
from .context import Context

WAITS = "waits in the server's deferred queue, which has no bound"
REFUSED = "refused with 400 (exceed_context_size_error)"
FAILS = (
    "when the pool is full, idle slots lose their cached prompts first, and then every processing slot fails with"
    " 'Context size has been exceeded.': nothing is preempted"
)
_CUT = "a request that reaches the end of its slot's context stops there (finish reason length)"
_SHIFTED = "a request that reaches the end of its slot's context goes on without its oldest tokens (--context-shift)"


def pools_of(joined: Joined, context: Context) -> tuple[Pool, ...]:
    """The slots are the only door. A pool of cells has none: whoever has a slot takes cells until they are gone."""
    found = [_slots(context), _cells(joined, context)]
    if _is_capped(context):
        found.append(_slot_contexts(joined, context))
    return tuple(found)


def _slots(context: Context) -> Pool:
    return Pool(
        name="slots",
        unit="requests",
        size=context.slots,
        rule=FitsNow(),
        demand=Demand(per_token=0, fixed=1),
        beyond=WAITS,
        lever="-np",
    )


def _cells(joined: Joined, context: Context) -> Pool:
    """One part for all slots, or one for each. Whole lengths are counted, though the last token takes no cell."""
    shared = context.streams == 1 and not (context.slots.known and context.slots.count == 1)
    return Pool(
        name="KV pool",
        unit="tokens",
        size=context.cells,
        rule=None,
        demand=Demand(),
        partitions=context.streams,
        overflow=FAILS if shared else _end_of_slot(joined),
        lever="-c",
        inputs=(context.unified,) if context.unified.known else (),
        doubt=context.doubt,
    )


def _is_capped(context: Context) -> bool:
    """May a slot use less than the part of the pool that it draws on?"""
    if not (context.each.known and context.cells.known and context.slots.known):
        return False
    return bool(context.doubt) or context.each.count < context.cells.count


def _slot_contexts(joined: Joined, context: Context) -> Pool:
    return Pool(
        name="slot context",
        unit="tokens",
        size=context.each,
        rule=None,
        demand=Demand(),
        partitions=context.slots.count,
        overflow=_end_of_slot(joined),
        lever="--kv-unified-per-slot",
        within="KV pool",
    )


def _end_of_slot(joined: Joined) -> str:
    return _SHIFTED if joined.on("context_shift") else _CUT


def ceilings_of(context: Context) -> tuple[Ceiling, ...]:
    """server-context.cpp refuses a prompt of n_ctx or more: it leaves no room for one token of output."""
    each = context.each
    found = Ceiling("context length", each, REFUSED)
    if not each.known:
        return (found,)
    note = "one token of the context is for the output"
    longest = derived("longest_prompt", each.count - 1, "tokens", (each,), note)
    return found, Ceiling("longest prompt of a slot", longest, REFUSED)


def total_cells(context: Context) -> Figure:
    """Cells of all parts together."""
    if not context.cells.known or context.streams == 1:
        return context.cells
    note = f"{context.streams} slots, each with its own"
    return derived("kv_cells", context.cells.count * context.streams, "tokens", (context.cells,), note)
