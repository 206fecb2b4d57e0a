"""The run of a start: which slots are taken, what the last requests cost, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...evidence import Evidence
from ...figure import Figure, Kind
from ..events import Event, figure_of, source_of
from .lines import Step
from .starts import Start

_LAST = """released_tokens prompt_tokens prompt_tok_s eval_tokens eval_tok_s draft_acceptance checkpoint_mib
    cached_prompts cached_prompts_mib refused_tokens memory_peak_gib restart_counter killed_by result""".split()
# A word that only such a line has -> how often it was logged
_COUNTED = {
    "context_exceeded": "context_exceeded_in_log",
    "failed_task": "failed_requests_in_log",
    "kv_full": "kv_full_in_log",
    "too_long": "refused_too_long_in_log",
    "purged": "purged_slots_in_log",
    "cache_evicted": "evicted_prompts_in_log",
}
_RECENT = 16  # tasks that are named


def usage_figures(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """The last value of each quantity, and how often each trouble was logged."""
    last = {name: event for event in start.events for name in _LAST if name in event.values}
    usage = {name: figure_of(name, event.values[name], evidence, event) for name, event in last.items()}
    for word, name in _COUNTED.items():
        events = [e for e in start.events if word in e.values]
        if events:
            usage[name] = Figure(name, len(events), "lines", Kind.READ, source_of(evidence, events[-1]))
    return {**usage, **_running(start, evidence), **_tasks(start, evidence)}


def slot_figures(start: Start, evidence: Evidence) -> dict[str, dict[str, Figure]]:
    """Per slot: its last task and the tokens it held when that was released."""
    slots: dict[str, dict[str, Figure]] = {}
    for event in start.of(Step.RUN):
        if "slot" in event.values:
            found = slots.setdefault(f"slot {event.values['slot']}", {})
            found |= {n: figure_of(n, event.values[n], evidence, event) for n in _PER_SLOT if n in event.values}
    return slots


_PER_SLOT = ("task", "released_tokens")


def _running(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Slots to which a task was given that is not released yet. (That all are idle is logged too.)"""
    taken: set[object] = set()
    last: Event | None = None
    for event in _turns(start):
        last = event
        if "idle" in event.values:
            taken.clear()
        elif "launched" in event.values:
            taken.add(event.values["slot"])
        else:
            taken.discard(event.values["slot"])
    if last is None:
        return {}
    figure = figure_of("requests_processing", len(taken), evidence, last)
    return {"requests_processing": replace(figure, note="slots that were given a task and have not released it")}


def _turns(start: Start) -> Iterator[Event]:
    return (e for e in start.events if e.values.keys() & {"launched", "released_tokens", "idle"})


def _tasks(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Which slots and tasks the lines are about: the latest, in their order."""
    found = {}
    for key, name in (("slot", "slots_seen"), ("task", "tasks_in_log")):
        events = [e for e in start.of(Step.RUN) if e.values.get(key) not in (None, -1)]
        seen = list(dict.fromkeys(str(e.values[key]) for e in events))[-_RECENT:]
        if seen:
            found[name] = figure_of(name, " ".join(seen), evidence, events[-1])
    return found
