"""The figures of one start: per rank, then over ranks (of pools the least, as in the engine; of use the most)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ...evidence import Evidence
from ...figure import Figure, Kind, Source, derived
from ...units import GIB
from ..events import Event
from ..facts import quantity
from .drafts import drafts_begin, is_drafts
from .late import is_late
from .lines import Step
from .log_readings import data_rank, figure_of, source_of
from .ranks import ranks_counted
from .starts import Start

_START_STEPS = (
    Step.NOTE,
    Step.LOAD_BEGIN,
    Step.LOAD_END,
    Step.KV,
    Step.POOL_END,
    Step.SUMMARY,
    Step.TROUBLE,
    Step.UNIT,
)
_TROUBLES = ("exception", "failed_room", "failed_why", "failed_side", "pd_warmup", "nccl_rank")
_KV_LINE = ("kv_line_tokens", "kv_k_gib", "kv_v_gib", "kv_total_gib")
_SIZED = frozenset(["full_tokens", "calculated_tokens"])
_PAGES = 512  # tokens: rounding to whole pages takes no more
_ADDED = ("graph_gib", "draft_weights_gib", "draft_kv_", "draft_swa_kv_")  # several drafts, or graphs of several steps
_FIRST_COUNTS = ("graph_bs", "avail_at_capture_gib")  # capturing goes from the largest batch down
_MOST = ("weights_gib", "draft_weights_gib", "distributed_gib", "load_s", "graph_s")


def start_figures(start: Start, evidence: Evidence, drafts: int | None = None) -> dict[str, Figure]:
    """Every quantity that the start-up lines state, once. Draft models' figures are named draft_*; graphs carry their
    phase. `drafts`: where drafts begin, if more lines than those of this start tell it.
    """
    readings: dict[str, list[tuple[Event, int | float | str]]] = defaultdict(list)
    drafts = drafts_begin(start.events) if drafts is None else drafts
    for events in _by_rank(start.of(*_START_STEPS)).values():
        for name, event, value in _named(events, start.window_sizes, drafts):
            if isinstance(value, str) or quantity(name, value) is not None:
                readings[name].append((event, value))
    figures = {name: _over_ranks(name, found, evidence) for name, found in readings.items() if name not in _TROUBLES}
    figures.update(_ranks_seen(start, evidence))
    if ready := next(start.of(Step.READY), None):
        figures["ready"] = figure_of("ready", True, evidence, ready)
    if not start.pools_told_apart:
        figures = {name: figure for name, figure in figures.items() if name not in _KV_LINE}
    figures.update(_host_cache(start, evidence))
    if _is_half(figures):
        del figures["calculated_tokens"]
    found = _with_running(_with_pool(_with_graph_total(figures)))
    return found | _sized_by_memory(start, evidence, found.get("max_total_num_tokens"))


def _is_half(figures: Mapping[str, Figure]) -> bool:
    """Is the last number of DeepSeek-V4's sizing line cut? The budget and what a token is charged give it, too."""
    names = ("calculated_tokens", "bytes_per_full_token", "pool_budget_gib")
    if any(name not in figures for name in names):
        return False
    tokens, charge, budget = (figures[name].number for name in names)
    return tokens < budget * GIB / charge / 2


def _host_cache(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Host memory of the cache's host tier: each rank that writes here allocates its own, pool by pool."""
    lines = [event for event in start.of(Step.NOTE) if "hicache_host_gb" in event.values]
    each = tuple(figure_of("hicache_host_gb", event.values["hicache_host_gb"], evidence, event) for event in lines)
    if len(each) < 2:
        return {}
    note = f"{len(each)} allocations of {len({event.rank for event in lines})} ranks"
    total = round(sum(figure.number for figure in each), 2)
    return {"hicache_host_gb": derived("hicache_host_gb", total, "GB", each, note)}


def _sized_by_memory(start: Start, evidence: Evidence, pool: Figure | None) -> dict[str, Figure]:
    """What memory would hold, where the pool is clearly smaller: --max-total-tokens capped it. DeepSeek-V4's sizing
    lines state the first before the second (pool_configurator.py, 003fca80).
    """
    most: dict[str, tuple[int, Event]] = {}
    for event in start.of(Step.NOTE):
        for name in _SIZED & event.values.keys():
            tokens = int(event.values[name])
            if event.rank not in most or tokens > most[event.rank][0]:
                most[event.rank] = tokens, event
    if not most or pool is None or any(is_late(event.values) for event in start.of(Step.NOTE)):
        return {}
    tokens, line = min(most.values(), key=lambda pair: pair[0])
    if tokens <= pool.number + _PAGES:
        return {}
    return {"sized_tokens": figure_of("sized_tokens", tokens, evidence, line)}


def rank_figures(start: Start, evidence: Evidence, name: str) -> dict[str, Figure]:
    """One quantity as each data-parallel rank states it."""
    per_rank: dict[str, Figure] = {}
    for event in start.of(*_START_STEPS):
        if "kv_line_tokens" in event.values and not start.pools_told_apart:
            continue
        if event.values.get("kv_line_tokens") in start.window_sizes:
            continue
        if name in event.values and (rank := data_rank(event.rank)):
            per_rank.setdefault(rank, figure_of(name, event.values[name], evidence, event))
    return per_rank


def _by_rank(events: Iterable[Event]) -> Mapping[str, list[Event]]:
    ranks: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        ranks[event.rank].append(event)
    return ranks


def _ranks_seen(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Which ranks write into this log ("DP 0-3, TP 0-15"), and so how many data-parallel ranks there are, if all of
    them do.
    """
    seen: dict[str, set[int]] = defaultdict(set)
    for event in start.events:
        for kind, number in re.findall(r"([A-Z_]+)(\d+)", event.rank):
            seen[kind].add(int(number))
        if "nccl_rank" in event.values:
            seen["NCCL rank"].add(int(event.values["nccl_rank"]))
    if not seen:
        return {}
    source = source_of(evidence, start.events[0])
    told = ", ".join(f"{kind} {_spans(numbers)}" for kind, numbers in seen.items())
    found = {"ranks_seen": Figure("ranks_seen", told, "", Kind.READ, Source(source.evidence, "rank tags"))}
    return found | ranks_counted(seen.get("DP", ()), Source(source.evidence, "rank tags"), "that write into this log")


def _spans(numbers: set[int]) -> str:
    """{0, 1, 2, 8} -> "0-2 8"."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return " ".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)


def _named(
    events: Sequence[Event], windows: frozenset[int | float | str], drafts: int | None
) -> Iterable[tuple[str, Event, int | float | str]]:
    """The values of one rank in order: a second model's renamed draft_*, a window pool's KV swa_*, graphs' by phase."""
    for place, event in enumerate(events):
        prefix = "draft_" if is_drafts(event, events[:place], drafts) else ""
        prefix += "swa_" if event.values.get("kv_line_tokens") in windows else ""
        phase = str(event.values.get("graph_phase", "")).strip().replace(" ", "_")
        for name, value in event.values.items():
            if name == "graph_phase":
                continue
            if phase and name != "graph_sizes":
                yield f"{name}_{phase}", event, value
            elif name == "graph_sizes":
                yield "graph_max_bs", event, max((int(n) for n in str(value).split(",") if n.strip()), default=0)
            else:
                yield f"{prefix}{name}", event, value


def _over_ranks(name: str, found: list[tuple[Event, int | float | str]], evidence: Evidence) -> Figure:
    """Ranks of one group hold the same pool by the least free memory (MIN-reduced), so the least is what counts."""
    numbers = [(event, value) for event, value in found if not isinstance(value, str)]
    if not numbers:
        return figure_of(name, found[-1][1], evidence, found[-1][0])
    if name in _FIRST_COUNTS:
        numbers.reverse()
    if name.startswith(_ADDED) and len({event.rank for event, _ in numbers}) < len(numbers):
        return _summed(name, numbers, evidence)
    last = {event.rank: (event, value) for event, value in numbers}  # a line that is printed again replaces the first
    pick = max if name.startswith(_MOST) or name.startswith("graph_") else min
    event, value = pick(last.values(), key=lambda pair: pair[1])
    figure = figure_of(name, value, evidence, event)
    low, high = min(v for _, v in last.values()), max(v for _, v in last.values())
    if low == high:
        return figure
    return Figure(
        name,
        value,
        figure.unit,
        Kind.READ,
        figure.source,
        note=f"{len(last)} ranks, {low} to {high}",
        low=low,
        high=high,
        observed_at=figure.observed_at,
    )


def _summed(name: str, numbers: list[tuple[Event, int | float]], evidence: Evidence) -> Figure:
    """What a rank did several times, of the rank where it took most. A line that is there twice counts once."""
    ranks: dict[str, dict[str, Figure]] = defaultdict(dict)
    for event, value in numbers:
        ranks[event.rank][event.line.text] = figure_of(name, value, evidence, event)
    parts = max((tuple(found.values()) for found in ranks.values()), key=lambda found: sum(f.number for f in found))
    total = round(sum(figure.number for figure in parts), 2)
    return derived(name, total, parts[0].unit, parts, f"sum over {len(parts)} lines of a rank")


def _with_graph_total(figures: dict[str, Figure]) -> dict[str, Figure]:
    phases = tuple(f for name, f in figures.items() if name.startswith("graph_gib"))
    if phases:
        figures["graph_total_gib"] = derived(
            "graph_total_gib", round(sum(f.number for f in phases), 2), "GiB", phases, "sum over the captures"
        )
    return figures


def _with_pool(figures: dict[str, Figure]) -> dict[str, Figure]:
    """The pool in tokens from the most telling line: the summary, else the sizing lines (the KV line of a window model
    counts its window).
    """
    windowed = "swa_max_total_num_tokens" in figures
    for name in (
        "max_total_num_tokens",
        "post_capture_tokens",
        "full_tokens",
        "calculated_tokens",
        *(() if windowed else ("kv_line_tokens",)),
    ):
        if name in figures:
            figures.setdefault(
                "max_total_num_tokens",
                figures[name].renamed("max_total_num_tokens", f"from the line that states {name}"),
            )
    for total, sides in (
        ("kv_total_gib", ("kv_k_gib", "kv_v_gib")),
        ("post_capture_kv_gib", ("post_capture_k_gib", "post_capture_v_gib")),
    ):
        if total not in figures and all(side in figures for side in sides):
            parts = tuple(figures[side] for side in sides)
            figures[total] = derived(total, round(sum(p.number for p in parts), 2), "GiB", parts, "K + V")
    return figures


def _with_running(figures: dict[str, Figure]) -> dict[str, Figure]:
    """Running requests where the summary is not in the log: what they were lowered to."""
    for name in ("reduced_max_running", "mamba_capped_max_running"):
        if name in figures:
            figures.setdefault("max_running_requests", figures[name].renamed("max_running_requests"))
    return figures
