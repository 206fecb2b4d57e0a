"""The run of a start: what its last batch lines state, what was retracted, what failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...evidence import Evidence
from ...figure import Figure, Kind
from ..events import Event
from .lines import Step
from .log_readings import data_rank, figure_of, source_of
from .ranks import together
from .starts import Start

_SHARES = frozenset(["token_usage", "full_token_usage"])
_COUNTS = ("num_used_tokens", "swa_used_tokens", "mamba_used_slots")
Reading = tuple[Event, int | float | str]


def usage_figures(start: Start, evidence: Evidence) -> tuple[dict[str, Figure], dict[str, dict[str, Figure]]]:
    """(use now over all data-parallel ranks, and per rank): the last value each rank logged."""
    latest: dict[str, dict[str, Reading]] = defaultdict(dict)
    for event in start.of(Step.BATCH):
        rank = data_rank(event.rank)
        if event.values.keys() & _SHARES:  # a count of an earlier line would not fit the share of this one
            for name in _COUNTS:
                latest[name].pop(rank, None)
        for name, value in event.values.items():
            latest[name][rank] = (event, value)
    latest.pop("phase", None)
    usage = {name: _over_ranks(name, ranks, evidence) for name, ranks in latest.items() if ranks}
    per_rank: dict[str, dict[str, Figure]] = defaultdict(dict)
    for name, ranks in latest.items():
        for rank, (event, value) in ranks.items():
            per_rank[rank][name] = figure_of(name, value, evidence, event)
    usage.update(_queues_before(start, evidence))
    usage.update(_retractions(start, evidence))
    usage.update(_troubles(start, evidence))
    return usage, {rank: found for rank, found in per_rank.items() if rank}


def _queues_before(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """How many ran, and waited in each queue, in the first lines that were read: beside the last, it shows growth."""
    first: dict[str, dict[str, Reading]] = defaultdict(dict)
    for event in start.of(Step.BATCH):
        for name, value in event.values.items():
            if name.endswith("_queue_reqs") or name == "num_running_reqs":
                first[name].setdefault(data_rank(event.rank), (event, value))
    return {
        f"first_{name}": _over_ranks(name, ranks, evidence).renamed(f"first_{name}") for name, ranks in first.items()
    }


def _over_ranks(name: str, ranks: Mapping[str, Reading], evidence: Evidence) -> Figure:
    return together(name, tuple(figure_of(name, value, evidence, event) for event, value in ranks.values()))


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
    return {**found, **_gained(events, evidence), **_ratios(start, events, evidence)}


def _gained(events: list[Event], evidence: Evidence) -> dict[str, Figure]:
    """What the last retraction gave back, with the range over all."""
    stated = [event for event in events if "gained_tokens" in event.values]
    if not stated:
        return {}
    gained = [float(event.values["gained_tokens"]) for event in stated]
    last = figure_of("gained_tokens", stated[-1].values["gained_tokens"], evidence, stated[-1])
    return {"gained_tokens": replace(last, low=min(gained), high=max(gained))}


def _ratios(start: Start, events: list[Event], evidence: Evidence) -> dict[str, Figure]:
    """The ratio before and after the last retraction. It falls again from there, so it is the live one only while no
    batch came after it.
    """
    last = next((e for e in reversed(events) if "new_token_ratio" in e.values), None)
    if last is None:
        return {}
    live = not any(e.line.number > last.line.number for e in start.of(Step.BATCH))
    name = "new_token_ratio" if live else "new_token_ratio_at_retraction"
    pairs = (("ratio_from", "new_token_ratio_before_retraction"), ("new_token_ratio", name))
    return {to: figure_of(to, last.values[key], evidence, last) for key, to in pairs if key in last.values}


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
