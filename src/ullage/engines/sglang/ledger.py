"""Where a GPU's memory went under SGLang, from its start-up lines, server info or metrics.

The log states what is free after each step (in its own order: weights, pools, graphs, summary), so each step's take is
measured; what the engine states of a step stands below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...capacity.ledger import Ledger, Part, ledger, with_rest
from ...capacity.ledger_sums import added, in_bytes, less
from ...evidence import Log
from ...figure import Figure, Kind, derived, missing
from ..ledger_claims import gpus_of
from ..server import Server
from .cut_lines import without_halves
from .drafts import drafts_begin
from .late import is_late
from .ledger_pools import late_parts, place_of, pool_parts, request_table, states_no_pool
from .log_start import start_figures
from .starts import Start, starts_of

_WEIGHTS = ("", "draft_")
_NO_WHOLE = "neither the log's line 'Load weight begin' nor 'Load weight end' is part of the evidence"
_IDLE = "without GPU evidence: name a captured nvidia-smi -q -x as one more target, or run ullage on the host"
_NO_LEFT = "the line that ends the start is not part of the evidence, so it is in what is unaccounted for"
_BEFORE = "free after the weights + the weights"
_AT_START = "as the start left it: what a run takes since (activations, the allocator's cache) comes out of it"
_TOLD_APART = ("avail_after_weights_gib", "avail_after_pool_gib", "avail_before_weights_gib")
_BAR = "avail_at_capture_gib"
_POOLS = re.compile(r"kv_\w*gib|mamba_\w*_gib")
_BEFORE_POOL = "after_weights|after_pool|profiled_avail"  # what is free before a pool is made
_SET_UP = "measured between the pools and the end of the start, less what else was made: attention workspaces, warm-up"
_JOINT = "the log's line 'Load weight end' is missing, so they are not told apart by what was free"
_SINCE = "measured between the pools and the last line, less the graphs: the start goes on after it"
_LEFT = "free at the end of the start"
_LATE = "free after the weights - free at the end of the start - graphs: sized after the capture"

Figures = Mapping[str, Figure]


def ledgers(server: Server) -> list[Ledger]:
    """One for each rank that the log tells apart, else one that stands for every GPU of the server."""
    return [_ledger(server, rank, figures) for rank, figures in by_rank(server).items()]


def by_rank(server: Server) -> Mapping[str, Figures]:
    """The figures of the start as each rank that logs its memory states them."""
    known = {n: f for n, f in server.figures.items() if f.known}
    anchor = next((known[n] for n in (*_TOLD_APART, "max_total_num_tokens") if n in known), None)
    for item in server.evidence:
        content = item.content
        if not (isinstance(content, Log) and anchor and anchor.source):
            continue
        for start in starts_of(without_halves(content)):
            ranks = _ranks_apart(start)
            if not ranks or not any(_is_line(anchor, e.line.number, e.line.text) for e in start.events):
                continue
            shared = {n: f for n, f in known.items() if not _is_memory(n) and not _is_sum(n, f)}
            drafts = drafts_begin(start.events)
            own = {r: start_figures(_part(start, r, ranks[0]), item, drafts) for r in ranks}
            return {r: {**shared, **_memory(found)} for r, found in own.items()}
    return {"": known}


def _ranks_apart(start: Start) -> list[str]:
    """The ranks that state what was free, in their order, where several do."""
    for name in _TOLD_APART:
        ranks = {event.rank for event in start.events if name in event.values}
        if len(ranks) > 1:
            return sorted(ranks, key=_numbers)
    return []


def _part(start: Start, rank: str, first: str) -> Start:
    """A rank's own lines and those without a tag. (Of these the progress bar of a capture is the first rank's.)"""
    own = [e for e in start.events if e.rank == rank or (not e.rank and (rank == first or _BAR not in e.values))]
    return replace(start, events=own)


def _numbers(rank: str) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", rank)], rank


def _is_line(figure: Figure, number: int, text: str) -> bool:
    source = figure.source
    return source is not None and source.place.endswith(f" {number}") and text.startswith(source.quote[:40])


def _is_memory(name: str) -> bool:
    return "avail" in name or name.endswith("weights_gib") or "graph_gib" in name or name == "distributed_gib"


def _is_sum(name: str, figure: Figure) -> bool:
    """Is it the sum over another rank's captures? What a page states of the graphs is of all ranks."""
    return name == "graph_total_gib" and figure.kind is Kind.DERIVED


def _memory(figures: Figures) -> Figures:
    """What is the rank's own: its readings, and its pools where it states them (a pipeline's stages differ)."""
    return {name: figure for name, figure in figures.items() if _is_memory(name) or _POOLS.search(name)}


def _ledger(server: Server, rank: str, figures: Figures) -> Ledger:
    whole, left = _whole(figures), _left(figures)
    graphs, weights = [*_graphs(figures)], [*_weights(figures, whole)]
    late = _late_pools(server, figures, graphs, left)
    joint = None if weights else _weights_and_pools(server, figures, whole)
    pools = [late] if late else [joint] if joint else [*_pools(server, figures)]
    set_up = None if late else _set_up(figures, [*weights, *pools, *graphs], left)
    parts = [*weights, *pools, set_up, *graphs, left]
    device = rank or _each(server)
    found = ledger(device, whole, parts)
    return replace(
        found,
        server=server.name,
        usable=whole if whole.known else None,
        of_whole="free before the weights were loaded",
        unknown=tuple(_unknown(left, figures)),
    )


def _unknown(left: Part | None, figures: Figures) -> Iterator[Figure]:
    if states_no_pool(figures):
        yield missing("KV pool", "bytes", "the engine states 0 GB, as builds do for DeepSeek-V4's pools (issue 37852)")
    yield missing("total", "bytes", _IDLE)
    yield missing("idle now", "bytes", _IDLE)
    if left is None:
        yield missing("free at the end of the start", "bytes", _NO_LEFT)


def _each(server: Server) -> str:
    count = gpus_of(server)
    return f"each of {count} GPUs" if count > 1 else "the GPU"


def _whole(figures: Figures) -> Figure:
    """What was free before the weights were loaded. (`M`; the profiling line calls it total_gpu_memory.)"""
    for name in ("avail_before_weights_gib", "profiled_total_gib"):
        if name in figures:
            return in_bytes(figures[name], "free_before_weights")
    parts = [figures[n] for n in ("avail_after_weights_gib", "weights_gib") if n in figures]
    if len(parts) == 2:
        return added("free_before_weights", [in_bytes(p) for p in parts], _BEFORE)
    return missing("free_before_weights", "bytes", _NO_WHOLE)


def _weights(figures: Figures, whole: Figure) -> Iterator[Part]:
    """As the log states them, else by what was free before and after."""
    for prefix in _WEIGHTS:
        stated, name = figures.get(f"{prefix}weights_gib"), f"{prefix.replace('_', ' ')}weights"
        before, after = (figures.get(f"{prefix}avail_{when}_weights_gib") for when in ("before", "after"))
        if stated is not None:
            yield Part(name, in_bytes(stated, name))
        elif before is not None and after is not None:
            yield Part(name, less(name, in_bytes(before), [in_bytes(after)], "free before - free after"))
        elif not prefix and whole.known and "profiled_available_gib" in figures:
            left = in_bytes(figures["profiled_available_gib"])
            yield Part(name, less(name, whole, [left], "free before - free after"))


def _weights_and_pools(server: Server, figures: Figures, whole: Figure) -> Part | None:
    """Both as one step, where the line between them is missing: the weights are what the stated pools leave of it."""
    after = figures.get("avail_after_pool_gib")
    if after is None or not whole.known:
        return None
    size = less("weights_and_pools", whole, [in_bytes(after)], "free before the weights - free after the pools")
    inner = tuple(pool_parts(server, figures, draft=False, both=True))
    return with_rest(Part("weights and pools", size, inner, why=_JOINT), "weights, and what else was made")


def readings(figures: Figures) -> list[tuple[str, Figure]]:
    """What the log says is free, in the order of its lines."""
    found = [(n, f) for n, f in figures.items() if re.match(r"(?:draft_|profiled_)?avail", n) and f.known and f.source]
    return sorted(found, key=lambda pair: place_of(pair[1]))


def _pools(server: Server, figures: Figures) -> Iterator[Part]:
    """Each step that made pools, with what it consists of; where it was not measured, what is stated of it."""
    order, both = readings(figures), not _has_draft_pool(readings(figures))
    measured = set()
    for place, (name, after) in enumerate(order):
        before = next((f for n, f in reversed(order[:place]) if re.search(_BEFORE_POOL, n)), None)
        if not name.endswith("avail_after_pool_gib") or before is None:
            continue
        draft = name.startswith("draft_")
        title = "draft pools" if draft else "pools"
        size = less(title, in_bytes(before), [in_bytes(after)], "free before - free after they were made")
        if size.most < 0:  # lines of several processes that nothing tells apart
            continue
        inner = tuple(pool_parts(server, figures, draft=draft, both=both))
        yield with_rest(Part(title, size, inner), "rest of the pools")
        measured.add(draft)
    if False not in measured:
        yield from pool_parts(server, figures, draft=False, both=both)


def _has_draft_pool(order: list[tuple[str, Figure]]) -> bool:
    return any(name == "draft_avail_after_pool_gib" for name, _ in order)


def _graphs(figures: Figures) -> Iterator[Part]:
    """By phase, as the capture measured them; a total where only that is stated."""
    phases = {n: f for n, f in figures.items() if re.fullmatch(r"(?:draft_)?graph_gib\w*", n)}
    for name, figure in phases.items():
        phase = name.replace("graph_gib", "").strip("_").replace("_", " ")
        title = f"graphs, {phase}" if phase else "graphs"
        yield Part(title, in_bytes(figure, title), why="CUDA graphs and their private pools")
    total = figures.get("graph_total_gib")
    if not phases and total is not None:
        yield Part("graphs", in_bytes(total, "graphs"))


def _left(figures: Figures) -> Part | None:
    """What was free when the start had ended; where its last lines are missing, what was free at the last that tells
    it, if the pools stand before it.
    """
    order = readings(figures)
    ended = order[-1][1] if order and "after_graph" in order[-1][0] else None
    figure = figures.get("available_gpu_mem_gib") or ended or _startup_available(figures)
    if figure is not None:
        return Part(_LEFT, in_bytes(figure, "free_after_start"), free=True, why=_AT_START)
    if order and (
        re.search("after_pool|before_graph|at_capture", order[-1][0]) or "max_total_num_tokens" not in figures
    ):
        return Part("free at the last line", in_bytes(order[-1][1], "free_at_last"), free=True, why=_AT_START)
    return None


def _startup_available(figures: Figures) -> Figure | None:
    """`startup_available` of server info, where it can only have been read at the end: less than the server took."""
    stated = figures.get("startup_available_gib")
    taken = [figures[n] for n in ("weights_gib", "kv_total_gib", "graph_total_gib") if n in figures]
    return stated if stated is not None and stated.number < sum(f.number for f in taken) else None


def _set_up(figures: Figures, parts: Sequence[Part], left: Part | None) -> Part | None:
    """What went between the first pool and the end of the start, and is no other part. Nothing where that is rounding,
    or less: then a line between them is missing.

    (Older builds load a draft model when the target's graphs are captured, and make its pool then.)
    """
    pools = [f for n, f in readings(figures) if n.endswith("avail_after_pool_gib")]
    if not pools or left is None:
        return None
    drafts = figures.get("draft_avail_after_weights_gib")
    later = {"draft pools", *(["draft weights"] if drafts and place_of(drafts) > place_of(pools[0]) else [])}
    known = [part.size for part in parts if part.name in later or part.name.startswith("graphs")]
    size = less("set_up", in_bytes(pools[0]), [left.size, *known], _SET_UP)
    ended = left.name == _LEFT
    name, why = ("set up before serving", _SET_UP) if ended else ("taken since the pools were made", _SINCE)
    return Part(name, size, why=why) if size.least > 0 else None


def _late_pools(server: Server, figures: Figures, graphs: list[Part], left: Part | None) -> Part | None:
    """Pools that were sized after the graphs were captured: the lines before it state a size that is not theirs."""
    after = [f for name, f in readings(figures) if name.endswith("avail_after_weights_gib")]
    if not is_late(figures) or left is None or not after:
        return None
    size = less("pools", in_bytes(after[-1]), [left.size, *(g.size for g in graphs)], _LATE)
    return with_rest(Part("pools", size, tuple(late_parts(server, figures)), why=_LATE), "rest of the pools")


def context_costs(server: Server) -> tuple[Figure, ...]:
    """What grows with --context-length and not with use, by the formulas of the engine: bytes on each GPU."""
    table = request_table(server)
    return tuple(f for f in (table, _index_logits(server)) if f is not None)


def _index_logits(server: Server) -> Figure | None:
    """DeepSeek-V4's index logits of a prompt that fills the context: [chunk, context / 4] fp32 = chunk x context bytes.

    (Issue 35201, v0.5.17; made row by row since PR 39095.) They are taken while such a prompt is computed, outside the
    fraction.
    """
    chunk, context = server.figure("chunked_prefill_size"), server.figure("context_len")
    if not ("bytes_per_full_token" in server.figures and chunk.known and context.known):
        return None
    if server.role.value == "decode":
        return None
    note = "chunk x context bytes while a prompt of the whole context is computed; builds with PR 39095 take less"
    return derived("index_logits", chunk.count * context.count, "bytes", (chunk, context), note)
