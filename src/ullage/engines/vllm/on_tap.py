"""What vLLM's --gpu-memory-utilization or --kv-cache-memory-bytes would buy.

    KV pool = total * utilization - (weights + non-torch + activation peak) [- estimated graphs, since 0.20]

so +0.01 adds 0.01 * total, and the start is refused where less than total * utilization is free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ...capacity.ledger import Ledger
from ...capacity.ledger_sums import in_bytes, less, times
from ...capacity.ledger_tap import NO_SETTING, Check, OnTap, Setting, Way, fractions_between, hundredths
from ...figure import Figure, Kind, derived, missing
from ...units import GIB, MIB
from ..server import Server
from ..version import release_of
from .ledger import NO_TOTAL, OUTSIDE, REFUSED, Figures, graphs_inside, pool_bytes, requested

LEVER = "--gpu-memory-utilization"
_SETS = f"it sets the pool, and {LEVER} buys nothing"
_DOUBLE = ((0, 29, 0), (0, 34, 0))  # the printed --kv-cache-memory counts the graphs twice (issue 57936)
_NO_TOKENS = "no line states the pool in tokens or blocks: the start-up log would ('GPU KV cache size')"
_NO_BYTES = "no line states the pool's memory: the start-up log of 0.10 and later would ('Available KV cache memory')"
_WORTH = GIB // 50
_SPARE = 150 * MIB  # what vLLM leaves of the share in its suggestion
_NO_LEFT = (
    "how much of what is outside the share is nobody's is not told, so no highest share is: a captured nvidia-smi -q -x"
    " as one more target tells it"
)


def on_tap(server: Server, ledgers: list[Ledger], margin: int) -> OnTap:
    figures = {n: f for n, f in server.figures.items() if f.known}
    led = ledgers[0]
    share, size = figures.get("gpu_memory_utilization"), pool_bytes(figures)
    pool = _pool(server)
    says = tuple(_says(figures, led))
    if size is None or pool is None or not size.number:
        return OnTap(LEVER, ways=tuple(_ways(figures)), says=says, unknown=_why_not(figures, led, pool))
    token = derived("bytes_per_token", round(size.number / pool.number, 2), "bytes", (size, pool), "KV cache / pool")
    token = token.between(size.least / pool.number, size.most / pool.number)
    ways = tuple(way.worth_at(token, pool.unit, _by(way, figures)) for way in _ways(figures))
    if fixed := _fixed(figures, token, pool):
        return OnTap(fixed[0], fixed[1], pool, ways=ways, says=says, unknown=fixed[2])
    if share is None or not _total(led).known:
        return OnTap(LEVER, share, pool, ways=ways, says=says, unknown=_why_not(figures, led, pool))
    found = OnTap(LEVER, share, pool, _least_left(ledgers), _each(led.whole, token, pool), ways=ways, says=says)
    found = found._replace(checks=tuple(_checks(figures, led, size)))
    return _told(found, figures, led, token, size, margin)


def _least_left(ledgers: list[Ledger]) -> Figure | None:
    """Of the GPU that has least left: all ranks hold as many blocks. None where what is idle outside the share is not
    told, which is most of it.
    """
    lefts = [led.left for led in ledgers if led.left is not None and led.part(OUTSIDE) is None]
    return min(lefts, key=lambda left: left.number, default=None)


def _told(found: OnTap, figures: Figures, led: Ledger, token: Figure, size: Figure, margin: int) -> OnTap:
    """With the settings, or why there are none; and the same pool in bytes, which nothing else on the GPU moves."""
    if found.left is None:
        return found._replace(says=(*found.says, _NO_LEFT))
    found = _with_settings(found, led, token, found.left, margin)
    if found.best is None or found.now is None or ("consumed_gib" not in figures and "free_gib" not in figures):
        return found
    more = (found.best.value - float(found.now.number)) * led.whole.number
    said = (
        f"--kv-cache-memory-bytes {int(size.number + more)} gives the pool of {found.best.value:g} in bytes, whatever"
    )
    return found._replace(says=(*found.says, f"{said} else is on the GPU when it starts"))


def _fixed(figures: Figures, token: Figure, pool: Figure) -> tuple[str, Figure, str] | None:
    """The lever, its value and the reason where the pool was asked for, so that the share decides nothing."""
    asked, blocks = figures.get("kv_cache_memory_bytes"), figures.get("num_gpu_blocks_override")
    if blocks is not None and type(blocks.value) is int:
        each = f"each block more takes {token.number * pool.number / blocks.number:,.0f} bytes"
        return "--num-gpu-blocks-override", blocks, f"{_SETS}; {each}"
    if asked is None or type(asked.value) is not int:
        return None
    gib = int(GIB / token.number)
    return (
        "--kv-cache-memory-bytes",
        asked,
        f"{_SETS}; +1 GiB buys {gib:,} {pool.unit} (predicted)",
    )


def _by(way: Way, figures: Figures) -> str:
    """Through what the memory that a way gives back reaches the pool."""
    outside = way.gives.name == "graphs" and not graphs_inside(figures)
    return "by a higher share" if outside else "at the same share"


def _pool(server: Server) -> Figure | None:
    """Tokens, where the printed ones are the pool's; else its blocks."""
    for name in ("pool_tokens", "kv_cache_size_tokens", "num_gpu_blocks"):
        figure = server.figure(name)
        if figure.known and figure.number:
            return figure
    return None


def _total(led: Ledger) -> Figure:
    """The share is one of the total, not of what was free."""
    return led.whole if led.of_whole == "total" else missing("total", "bytes", NO_TOTAL)


def _why_not(figures: Figures, led: Ledger, pool: Figure | None) -> str:
    if led.part(REFUSED) is not None and led.usable is not None and led.usable.known:
        most = hundredths(led.usable.number / led.whole.number)
        return (
            f"the start was refused: {led.usable.number / GIB:,.2f} GiB were free, and {most:g} is the most that starts"
        )
    if "kv_shortfall_gib" in figures:
        return _short(figures, led)
    if (needed := figures.get("needed_kv_gib")) is not None and "start_refused" in figures:
        held = figures["available_kv_gib"].number if "available_kv_gib" in figures else 0
        return f"the start was refused: one request takes {needed.number:,.2f} GiB of KV, and {held:,.2f} GiB are there"
    if pool is None or pool_bytes(figures) is None:
        return _no_pool(figures, pool)
    if not _total(led).known:
        return f"the GPU's total is not known: {_total(led).note}"
    return "the utilization is not known: the start-up log's arguments or --flags would tell it"


def _no_pool(figures: Figures, pool: Figure | None) -> str:
    return "; ".join([*([_NO_TOKENS] if pool is None else []), *([_NO_BYTES] if pool_bytes(figures) is None else [])])


def _short(figures: Figures, led: Ledger) -> str:
    """What was profiled does not fit in the share: pool = total x share - profiled, and it was below zero."""
    gib, share = float(figures["kv_shortfall_gib"].number), figures.get("gpu_memory_utilization")
    said = f"the model and a full step take {gib:,.2f} GiB more than the share"
    if share is None or not _total(led).known:
        return said
    least = float(share.number) + gib * GIB / led.whole.number
    return f"{said}: above {least:.3f}" + (
        " something is left for the KV cache"
        if least < 1
        else ", which no GPU has: fewer --max-num-batched-tokens, more GPUs (--tensor-parallel-size) or a smaller model"
    )


def _each(whole: Figure, token: Figure, pool: Figure) -> Figure:
    value = int(0.01 * whole.number / token.number)
    note = "0.01 x total / bytes of one"
    found = Figure("pool_per_hundredth", value, pool.unit, Kind.PREDICTED, inputs=(whole, token), note=note)
    return found.between(int(0.01 * whole.least / token.most), math.ceil(0.01 * whole.most / token.least))


def _with_settings(found: OnTap, led: Ledger, token: Figure, left: Figure, margin: int) -> OnTap:
    assert found.now is not None
    assert found.pool is not None
    now = float(found.now.number)
    best = hundredths(now + (left.number - margin) / led.whole.number)
    if led.usable is not None:
        best = min(best, hundredths(led.usable.number / led.whole.number))  # else the start is refused
    best = min(max(best, 0.01), 0.99)
    values = fractions_between(now, best)
    settings = {value: _setting(found.pool, led.whole, token, left, found.now, value) for value in values}
    if not settings[best].pool.number:
        return found._replace(unknown=NO_SETTING)
    return found._replace(best=settings[best], settings=tuple(settings.values()))


def _setting(pool: Figure, whole: Figure, token: Figure, left: Figure, now: Figure, share: float) -> Setting:
    more = share - float(now.number)
    if not more:
        return Setting(share, pool, left)
    ends = [
        pool.number + more * size / cost for size in (whole.least, whole.most) for cost in (token.least, token.most)
    ]
    value = max(0, math.floor(pool.number + more * whole.number / token.number))
    note = "the pool + (utilization - the one now) x total / bytes of one"
    held = Figure(pool.name, value, pool.unit, Kind.PREDICTED, inputs=(pool, whole, now, token), note=note)
    held = held.between(max(0, min(value, math.floor(min(ends)))), max(value, math.ceil(max(ends))))
    taken = times("taken", whole, more, "total x the difference", (now,))
    if more < 0:
        taken = taken.between(math.floor(whole.most * more), math.ceil(whole.least * more))
    return Setting(
        share,
        held,
        replace(less("left", left, [taken], "what is left now - total x the difference"), kind=Kind.PREDICTED),
    )


def _checks(figures: Figures, led: Ledger, size: Figure) -> Iterator[Check]:
    """The KV cache by the formula, beside the one that is stated (bytes)."""
    taken = [
        p.size for p in led.parts if p.name in ("weights", "weights and non-torch", "non-torch", "activation peak")
    ]
    budget, estimate = requested(figures, led.whole), figures.get("estimated_cudagraph_gib")
    if budget is None or len(taken) < 2:
        return
    outgoing = [*taken, *([in_bytes(estimate)] if graphs_inside(figures) and estimate is not None else [])]
    yield Check("the KV cache of this start", less("KV cache", budget, outgoing, "requested - the rest"), size)


def _says(figures: Figures, led: Ledger) -> Iterator[str]:
    """The engine's own suggestion, put right where it is known to be wrong."""
    release, graphs = release_of(figures.get("version")), led.part("graphs")
    if graphs is None or not ("consumed_gib" in figures if release is None else _DOUBLE[0] <= release < _DOUBLE[1]):
        return
    printed = figures.get("suggested_kv_cache_memory_bytes")
    right = printed.count + graphs.size.count if printed is not None else _fitting(figures, led, graphs.size)
    if right is not None:
        told = (
            f"prints --kv-cache-memory={printed.count}, in which" if printed is not None else "prints a size in which"
        )
        yield (
            f"this version {told} the graphs are counted twice (vllm-project/vllm issue 57936): {right} bytes"
            f" ({right / GIB:,.2f} GiB) fit the requested memory"
        )


def _fitting(figures: Figures, led: Ledger, graphs: Figure) -> int | None:
    """Requested - consumed - activation peak - graphs - 150 MiB: as the suggestion is meant, where its line is cut."""
    budget, consumed, peak = requested(figures, led.whole), figures.get("consumed_gib"), led.part("activation peak")
    if budget is None or consumed is None or peak is None:
        return None
    return budget.count - in_bytes(consumed).count - peak.size.count - graphs.count - _SPARE


def _ways(figures: Figures) -> Iterator[Way]:
    peak, graphs, batched = (figures.get(n) for n in ("peak_activation_gib", "graph_gib", "max_num_batched_tokens"))
    size = pool_bytes(figures)
    if peak is not None and batched is not None and peak.number * GIB > _WORTH:
        half = batched.count // 2
        note = "half of the activation peak, which grows with it"
        gives = Figure(
            "activation_peak", round(peak.number * GIB / 2), "bytes", Kind.PREDICTED, inputs=(peak,), note=note
        )
        yield Way(f"--max-num-batched-tokens {half} in place of {batched.count}", gives, "long prompts take more steps")
    if graphs is not None and graphs.number * GIB > _WORTH:
        note = "all that the captures took: fewer sizes give a part of it"
        gives = Figure("graphs", round(graphs.number * GIB), "bytes", Kind.PREDICTED, inputs=(graphs,), note=note)
        where = "the pool" if graphs_inside(figures) else "what is outside the share"
        price = f"larger batches run without a graph, and slower; it comes back to {where}"
        yield Way("fewer graph sizes: --max-cudagraph-capture-size lower", gives, price)
    kind = figures.get("kv_cache_dtype")
    if size is not None and size.number and (kind is None or str(kind.value) in ("auto", "bfloat16", "float16")):
        asked = kind if kind is not None else size
        gives = Figure(
            "KV cache", size.count // 2, "bytes", Kind.PREDICTED, inputs=(asked, size), note="half of the KV cache"
        )
        yield Way(
            "--kv-cache-dtype fp8",
            gives,
            "some accuracy; the same tokens in half the memory, if they are in 16 bits now",
        )
