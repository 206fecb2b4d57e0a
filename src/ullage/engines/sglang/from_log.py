"""The figures of one start: per rank, then over ranks (pools and free memory by the least, as the engine does; use by
the most).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...evidence import Evidence, Log
from ...figure import Figure, Kind, Source, derived
from ..server import EarlierStart
from .facts import Facts, argument_figures
from .lines import Event, Step
from .quantities import unit_of
from .ranks import is_count, ranks_counted
from .starts import Start, servers_of, starts_of

_START_STEPS = (
    Step.NOTE,
    Step.LOAD_BEGIN,
    Step.LOAD_END,
    Step.KV,
    Step.POOL_END,
    Step.SUMMARY,
    Step.TROUBLE,
    Step.UNIT_STARTED,
)
_TROUBLES = ("exception", "failed_room", "failed_why", "failed_side", "pd_warmup", "nccl_rank")
_FIRST_COUNTS = ("graph_bs", "avail_at_capture_gib")  # capturing goes from the largest batch down
_MOST = ("weights_gib", "draft_weights_gib", "distributed_gib", "load_s", "graph_s")


def source_of(evidence: Evidence, event: Event) -> Source:
    log = evidence.content
    unit = "line" if isinstance(log, Log) and log.numbered else "byte"
    stream = f"{evidence.place} [{evidence.origin.stream}]" if evidence.origin.stream else evidence.place
    return Source(
        stream, f"{unit} {event.line.number}", event.line.text[:160] if event.step is not Step.ARGS else "server_args"
    )


def start_figures(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Every quantity that the start-up lines state, once. Draft models' figures are named draft_*; graphs carry their
    phase.
    """
    readings: dict[str, list[tuple[Event, int | float | str]]] = defaultdict(list)
    of_draft = _after_draft_load(start.events)
    for events in _by_rank(start.of(*_START_STEPS)).values():
        for name, event, value in _named(events, of_draft, start.window_sizes):
            readings[name].append((event, value))
    figures = {name: _over_ranks(name, found, evidence) for name, found in readings.items() if name not in _TROUBLES}
    figures.update(_ranks_seen(start, evidence))
    if ready := next(start.of(Step.READY), None):
        figures["ready"] = _figure("ready", True, evidence, ready)
    return _with_running(_with_pool(_with_graph_total(figures)))


def rank_figures(start: Start, evidence: Evidence, name: str) -> dict[str, Figure]:
    """One quantity as each data-parallel rank states it."""
    per_rank: dict[str, Figure] = {}
    for event in start.of(*_START_STEPS):
        if event.values.get("kv_line_tokens") in start.window_sizes:
            continue
        if name in event.values and (rank := data_rank(event.rank)):
            per_rank.setdefault(rank, _figure(name, event.values[name], evidence, event))
    return per_rank


def usage_figures(start: Start, evidence: Evidence) -> tuple[dict[str, Figure], dict[str, dict[str, Figure]]]:
    """(use now over all data-parallel ranks, and per rank): the last value each rank logged."""
    latest: dict[str, dict[str, tuple[Event, int | float | str]]] = defaultdict(dict)
    for event in start.of(Step.BATCH):
        rank = data_rank(event.rank)
        for name, value in event.values.items():
            latest[name][rank] = (event, value)
    latest.pop("phase", None)
    usage = {name: _summed(name, list(ranks.values()), evidence) for name, ranks in latest.items()}
    per_rank: dict[str, dict[str, Figure]] = defaultdict(dict)
    for name, ranks in latest.items():
        for rank, (event, value) in ranks.items():
            per_rank[rank][name] = _figure(name, value, evidence, event)
    usage.update(_queues_before(start, evidence))
    usage.update(_retractions(start, evidence))
    usage.update(_troubles(start, evidence))
    return usage, {rank: found for rank, found in per_rank.items() if rank}


def _queues_before(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """How many ran, and waited in each queue, in the first lines that were read: beside the last, it shows growth."""
    first: dict[str, dict[str, tuple[Event, int | float | str]]] = defaultdict(dict)
    for event in start.of(Step.BATCH):
        for name, value in event.values.items():
            if name.endswith("_queue_reqs") or name == "num_running_reqs":
                first[name].setdefault(data_rank(event.rank), (event, value))
    return {
        f"first_{name}": _summed(name, list(ranks.values()), evidence).renamed(f"first_{name}")
        for name, ranks in first.items()
    }


def data_rank(rank: str) -> str:
    """ "DP1 TP6 EP6" -> "DP1"; a rank without a data-parallel part shares its pool with the others: ""."""
    return next((part for part in rank.split() if part.startswith("DP")), "")


def _by_rank(events: Iterable[Event]) -> Mapping[str, list[Event]]:
    ranks: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        ranks[event.rank].append(event)
    return ranks


def _after_draft_load(events: Sequence[Event]) -> frozenset[int]:
    """Line numbers of memory lines after a draft model was loaded into a server that has its pool: they speak of the
    draft.
    """
    pooled = False
    drafting = False
    found = set()
    for event in events:
        pooled |= event.step is Step.KV
        drafting |= pooled and event.step is Step.LOAD_BEGIN
        if drafting and event.step in (Step.LOAD_BEGIN, Step.LOAD_END, Step.KV, Step.POOL_END):
            found.add(event.line.number)
    return frozenset(found)


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
    events: Sequence[Event], of_draft: frozenset[int], windows: frozenset[int | float | str]
) -> Iterable[tuple[str, Event, int | float | str]]:
    """The values of one rank in order: a second model's renamed draft_*, a window pool's KV swa_*, graphs' by phase."""
    loads, pools_closed = 0, 0
    for event in events:
        loads += event.step is Step.LOAD_END
        draft = event.line.number in of_draft or _is_second(event.step, loads, pools_closed)
        pools_closed += event.step is Step.POOL_END
        prefix = ("draft_" if draft else "") + ("swa_" if event.values.get("kv_line_tokens") in windows else "")
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


def _is_second(step: Step, loads: int, pools_closed: int) -> bool:
    if step is Step.LOAD_END:
        return loads > 1
    return step in (Step.KV, Step.POOL_END) and pools_closed > 0


def _over_ranks(name: str, found: list[tuple[Event, int | float | str]], evidence: Evidence) -> Figure:
    """Ranks of one group hold the same pool by the least free memory (MIN-reduced), so the least is what counts."""
    numbers = [(event, value) for event, value in found if not isinstance(value, str)]
    if not numbers:
        return _figure(name, found[-1][1], evidence, found[-1][0])
    if name in _FIRST_COUNTS:
        numbers.reverse()
    last = {event.rank: (event, value) for event, value in numbers}  # a line that is printed again replaces the first
    pick = max if name.startswith(_MOST) or name.startswith("graph_") else min
    event, value = pick(last.values(), key=lambda pair: pair[1])
    figure = _figure(name, value, evidence, event)
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


def _summed(name: str, found: list[tuple[Event, int | float | str]], evidence: Evidence) -> Figure:
    figures = tuple(_figure(name, value, evidence, event) for event, value in found)
    if len(figures) == 1:
        return figures[0]
    numbers = [f.number for f in figures]
    if is_count(name):
        return derived(name, sum(numbers), unit_of(name), figures, f"sum over {len(figures)} data-parallel ranks")
    return derived(name, max(numbers), unit_of(name), figures, f"the fullest of {len(figures)} data-parallel ranks")


def _retractions(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Retractions in the lines that were read. One event is logged by every tensor-parallel rank: counted once."""
    events = _distinct(start.of(Step.RETRACT))
    if not events:
        return {}
    source = source_of(evidence, events[-1])
    total = sum(int(e.values.get("retracted_reqs", 0)) for e in events)
    note = f"{len(events)} events in the lines read"
    counts = (("retractions_in_log", total, "requests"), ("retraction_events_in_log", len(events), "events"))
    found = {name: Figure(name, count, unit, Kind.READ, source, note=note) for name, count, unit in counts}
    ratio = next((e for e in reversed(events) if "new_token_ratio" in e.values), None)
    if ratio:
        found["new_token_ratio"] = _figure("new_token_ratio", ratio.values["new_token_ratio"], evidence, ratio)
    return found


def _distinct(events: Iterable[Event]) -> list[Event]:
    """Each event once. A line that is cut says less than the same one of another rank."""
    found: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda e: -len(e.values)):
        same = found[event.time, data_rank(event.rank)]
        if not any(event.values.items() <= other.values.items() for other in same):
            same.append(event)
    return sorted((event for same in found.values() for event in same), key=lambda e: e.line.number)


def _troubles(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Transfers that failed (one request is logged by every rank: its room is counted once) and exceptions of the
    scheduler.
    """
    found = {}
    failed = {e.values["failed_room"]: e for e in start.of(Step.TROUBLE) if "failed_room" in e.values}
    if failed:
        last = list(failed.values())[-1]
        why = str(last.values.get("failed_why", ""))
        found["failed_transfers_in_log"] = Figure(
            "failed_transfers_in_log", len(failed), "requests", Kind.READ, source_of(evidence, last), note=why
        )
    crashes = [e for e in start.of(Step.TROUBLE) if "exception" in e.values]
    if crashes:
        found["scheduler_exceptions"] = Figure(
            "scheduler_exceptions",
            len(crashes),
            "lines",
            Kind.READ,
            source_of(evidence, crashes[-1]),
            observed_at=crashes[-1].time or None,
        )
    return found


def _figure(name: str, value: int | float | str, evidence: Evidence, event: Event) -> Figure:
    return Figure(name, value, unit_of(name), Kind.READ, source_of(evidence, event), observed_at=event.time or None)


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
        *(() if windowed else ("kv_line_tokens",)),
    ):
        if name in figures:
            figures.setdefault(
                "max_total_num_tokens",
                figures[name].renamed("max_total_num_tokens", f"from the line that states {name}"),
            )
    if "kv_total_gib" not in figures and {"kv_k_gib", "kv_v_gib"} <= figures.keys():
        parts = (figures["kv_k_gib"], figures["kv_v_gib"])
        figures["kv_total_gib"] = derived("kv_total_gib", round(sum(p.number for p in parts), 2), "GiB", parts, "K + V")
    return figures


def _with_running(figures: dict[str, Figure]) -> dict[str, Figure]:
    """Running requests where the summary is not in the log: what they were lowered to."""
    for name in ("reduced_max_running", "mamba_capped_max_running"):
        if name in figures:
            figures.setdefault("max_running_requests", figures[name].renamed("max_running_requests"))
    return figures


def from_log(evidence: Evidence, log: Log) -> list[Facts]:
    """The servers that write into a log, each by its last start; earlier starts are its history."""
    return [_facts(evidence, log, starts) for starts in servers_of(starts_of(log))]


def _facts(evidence: Evidence, log: Log, starts: list[Start]) -> Facts:
    current = starts[-1]
    usage, ranks = usage_figures(current, evidence)
    return Facts(
        evidence,
        "log",
        args=_args(current, evidence),
        effective={} if current.overlaps else start_figures(current, evidence),
        usage=usage,
        rank_usage=_with_rank_pools(ranks, current, evidence),
        role=current.role,
        earlier=tuple(_earlier(start, evidence) for start in starts[:-1] if _counts(start)),
        notes=_notes(current, log),
    )


def _args(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """What was asked for: the arguments, or what a line that lowers one says of it."""
    event = next(start.of(Step.ARGS), None)
    args = argument_figures(start.args, source_of(evidence, event), Kind.CONFIGURED) if event else {}
    lowered = next((e for e in start.events if "requested_max_running" in e.values), None)
    if lowered:
        asked = _figure("max_running_requests", lowered.values["requested_max_running"], evidence, lowered)
        args.setdefault("max_running_requests", replace(asked, kind=Kind.CONFIGURED))
    return args


def _with_rank_pools(
    ranks: dict[str, dict[str, Figure]], start: Start, evidence: Evidence
) -> dict[str, dict[str, Figure]]:
    for name in ("max_total_num_tokens", "kv_line_tokens"):
        for rank, figure in rank_figures(start, evidence, name).items():
            ranks.setdefault(rank, {}).setdefault("max_total_num_tokens", figure.renamed("max_total_num_tokens"))
    return ranks


def _counts(start: Start) -> bool:
    return any(event.step is not Step.UNIT_STARTED for event in start.events)


def _earlier(start: Start, evidence: Evidence) -> EarlierStart:
    return EarlierStart(
        start.began,
        {**_args(start, evidence), **start_figures(start, evidence)},
        "" if start.ready or start.has(Step.SUMMARY) else "it never came up",
    )


def _notes(start: Start, log: Log) -> tuple[str, ...]:
    notes = list(log.gaps)
    if start.overlaps:
        notes.append(
            "two servers started into this log at the same time, so their lines cannot be told apart: give each its"
            " own log"
        )
    if start.role_ground:
        notes.append(start.role_ground)
    if not any(start.has(step) for step in (Step.SUMMARY, Step.KV)):
        notes.append("the start-up lines are not in this log")
    return tuple(notes)
