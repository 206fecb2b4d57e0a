"""What is in use now: slots at work, requests that wait, cells that requests hold and that idle slots keep."""

from __future__ import annotations

from collections.abc import Iterator

from ...figure import Figure, default, missing
from ..join import Joined
from ..levels import level_of
from ..server import Level, Queue, Rank
from .context import Context
from .pools import total_cells

_NOT_STATED = "neither /slots nor /metrics (--metrics) is part of the evidence"
_NO_CELLS = "no evidence states what the slots hold: /slots would"


def running_of(joined: Joined) -> Figure:
    return joined.usage.get("requests_processing") or missing("requests_processing", "requests", _NOT_STATED)


def queues_of(joined: Joined) -> tuple[Queue, ...]:
    waiting = joined.usage.get("requests_deferred")
    return (Queue("deferred", waiting),) if waiting else ()


def levels_of(joined: Joined, context: Context) -> tuple[Level, ...]:
    return (*_cells(joined, context), *_slots(joined, context))


def _cells(joined: Joined, context: Context) -> Iterator[Level]:
    """Idle slots' prompts are purged (one pool) or overwritten (one each) when somebody needs the cells."""
    used = joined.usage.get("processing_cells")
    if used is None or not context.cells.known:
        return
    kept = joined.usage.get("idle_cells") or missing("evictable", "tokens", _NO_CELLS)
    none = default("reserved", 0, "tokens", "llama.cpp keeps nothing back")
    yield level_of("KV pool", total_cells(context), used, kept, none)


def _slots(joined: Joined, context: Context) -> Iterator[Level]:
    working = joined.usage.get("requests_processing")
    if working is None or not context.slots.known:
        return
    none = default("evictable", 0, "requests", "a slot holds no cache that another needs")
    yield level_of("slots", context.slots, working, none, none.renamed("reserved"))


def ranks_of(joined: Joined) -> tuple[Rank, ...]:
    """Each slot's own figures: what /slots states before what the log shows."""
    slots: dict[str, dict[str, Figure]] = {}
    for part in sorted(joined.parts, key=lambda part: part.topic != "slots"):
        for name, found in part.rank_usage.items():
            slots[name] = {**found, **slots.get(name, {})}
    return tuple(Rank(name, slots[name]) for name in sorted(slots, key=lambda name: (len(name), name)))
