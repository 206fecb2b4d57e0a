"""What llama.cpp's -c would buy of the memory that is free: its cache is allocated by the flags, and nothing profiles.

Bytes of a cell on a device = its KV buffer / cells, and the device with least room for them decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ...capacity.ledger import Ledger
from ...capacity.ledger_sums import less, times
from ...capacity.ledger_tap import OnTap, Setting, Way
from ...figure import Figure, Kind, derived
from ...units import GIB, floor_to
from ..server import Server
from .ledger import HOST
from .sizing import ELEMENT_BYTES, PAD

LEVER = "-c"
_CACHES = ("KV cache", "context")
_GROWS = "the compute buffer grows with it too, without flash attention by much: leave a margin"
_WORTH = GIB // 50


def on_tap(server: Server, ledgers: list[Ledger], margin: int) -> OnTap:
    cells, slots = server.figure("n_ctx"), server.figure("n_slots")
    devices = [led for led in ledgers if led.device != HOST and led.free]
    ways = tuple(_ways(server, ledgers))
    if not cells.known or not devices:
        why = "no device states what is free" if cells.known else f"the context is not known: {cells.note}"
        return OnTap(LEVER, cells if cells.known else None, ways=ways, unknown=why)
    rooms = [room for led in devices if (room := _room(led, cells, margin)) is not None]
    tightest = min(devices, key=lambda led: led.free[0].size.number).free[0].size
    if not rooms:
        return OnTap(LEVER, cells, cells, tightest, ways=ways, unknown="no device states the buffer of its KV cache")
    best = min(rooms, key=lambda room: room.value)
    says = (_GROWS, *_parallel(cells, slots, best))
    trained = server.figure("n_ctx_train")
    if trained.known and slots.known and 0 < slots.count * trained.count < best.value:
        longest = f"a slot takes at most the {trained.count:,} tokens that the model was trained for"
        says = (*says, f"{longest}: a -c above {slots.count * trained.count} with {slots.count} slots buys nothing")
    return OnTap(LEVER, cells, cells, tightest, best=best, settings=(best,), ways=ways, says=says)


def _room(led: Ledger, cells: Figure, margin: int) -> Setting | None:
    """The cells that this device holds with the margin left."""
    cache = next((part for name in _CACHES if (part := led.part(name)) is not None), None)
    if cache is None or not cache.size.number:
        return None
    each = derived("bytes_per_cell", cache.size.number / cells.number, "bytes", (cache.size, cells), "buffer / cells")
    free = led.free[0].size
    ends = [_cells(cells.count, size - margin, each.number) for size in (free.number, free.least, free.most)]
    note = "cells now + (free - margin) / bytes of a cell, in whole blocks of 256"
    found = Figure("n_ctx", ends[0], "tokens", Kind.PREDICTED, inputs=(cells, free, each), note=note)
    more = times("taken", each, ends[0] - cells.count, "cells more x bytes of a cell", (cells,))
    left = replace(less("left", free, [more], "free - what these cells take"), kind=Kind.PREDICTED)
    return Setting(ends[0], found.between(ends[1], ends[2]), left)


def _cells(now: int, room: int | float, each: int | float) -> int:
    return max(PAD, floor_to(now + math.floor(room / each), PAD))


def _parallel(cells: Figure, slots: Figure, best: Setting) -> Iterator[str]:
    if slots.known and slots.count and cells.count >= slots.count:
        each = cells.count // slots.count
        count = best.pool.count // each
        if count in (0, slots.count):
            return
        yield f"or -np {count} in place of {slots.count}, with {each:,} tokens for each slot and -c {count * each}"


def _ways(server: Server, ledgers: list[Ledger]) -> Iterator[Way]:
    caches = [led.part("KV cache") for led in ledgers if led.device != HOST]
    sizes = tuple(part.size for part in caches if part is not None)
    kind = server.figure("cache_type_k")
    if sizes and str(kind.value) in ("f16", "bf16", "f32"):
        saved = 1 - ELEMENT_BYTES["q8_0"] / ELEMENT_BYTES[str(kind.value)]
        note = f"KV cache x (1 - bytes of q8_0 / bytes of {kind.value})"
        gives = sum(round(size.number * saved) for size in sizes)
        figure = Figure("KV cache", gives, "bytes", Kind.PREDICTED, inputs=(*sizes, kind), note=note)
        yield Way("-ctk q8_0 -ctv q8_0 (with flash attention)", figure, "a little accuracy; all devices together")
    compute = [part.size for led in ledgers if led.device != HOST and (part := led.part("compute buffer"))]
    batch = server.figure("n_ubatch")
    if compute and batch.known and sum(size.count for size in compute) > _WORTH:
        half = sum(size.count for size in compute) // 2
        note = "half of the compute buffers, which grow with it"
        figure = Figure("compute", half, "bytes", Kind.PREDICTED, inputs=(*compute, batch), note=note)
        yield Way(f"-ub {batch.count // 2} in place of {batch.count}", figure, "prompts are computed more slowly")
