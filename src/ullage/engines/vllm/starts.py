"""A vLLM log is a history of starts: which records belong to which. Only the last start of a server counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ...evidence import Log
from ..events import Event
from ..unit_starts import by_starts
from .arguments import printed
from .lines import Step, events_of

_AROUND = (Step.UNIT, Step.STOPPED)  # by themselves these are no start
_BEGINS = (Step.VERSION, Step.ARGS, Step.CONFIG)
_UNDER_WAY = (Step.CONFIG, Step.LOADED, Step.MEMORY, Step.KV, Step.READY, Step.STATS, Step.TROUBLE, Step.STOPPED)


@dataclass
class Start:
    """One start of one server, with the records of its run."""

    events: list[Event] = field(default_factory=list)
    overlaps: bool = False  # another server was starting into the same log, so its records may be the other's

    @property
    def began(self) -> str:
        return next((e.time for e in self.events if e.time), "")

    @property
    def ready(self) -> bool:
        return self.has(Step.READY) or self.has(Step.STATS)

    @property
    def is_offline_and_up(self) -> bool:
        """An engine in a script prints no version of an API server, and nothing more once it has been initialized."""
        return not self.has(Step.VERSION) and any("init_s" in e.values for e in self.events)

    @cached_property
    def args(self) -> Mapping[str, object]:
        """What was asked for, as far as it is printed."""
        event = next(self.of(Step.ARGS), None)
        return printed(str(event.values["arguments"])) if event else {}

    @cached_property
    def config(self) -> Mapping[str, object]:
        """What the engine resolved, as far as its config line states it."""
        event = next(self.of(Step.CONFIG), None)
        return printed(str(event.values["config"])) if event else {}

    @property
    def key(self) -> tuple[object, ...]:
        """What tells one server from another in the same log. Empty where the arguments are not in the log."""
        return tuple(str(self.args.get(name)) for name in ("port", "model", "kv_role")) if self.args else ()

    @property
    def unit(self) -> str:
        """Of systemd, as its line about the start has it."""
        return next((str(e.values["unit"]) for e in self.of(Step.UNIT) if "unit" in e.values), "")

    def has(self, step: Step, rank: str | None = None) -> bool:
        return any(e.step is step and rank in (None, e.rank) for e in self.events)

    def of(self, *steps: Step) -> Iterator[Event]:
        return (e for e in self.events if e.step in steps)


def starts_of(log: Log) -> list[Start]:
    """All starts in the order in which they began. Empty: nothing in the log is vLLM's."""
    starts: list[Start] = []
    events = [event for line in log.lines for event in events_of(line)]
    for event, by_systemd in by_starts(events, Step.UNIT, _BEGINS):
        if not starts or by_systemd or _begins_anew(starts[-1], event):
            starts.append(Start())
        starts[-1].events.append(event)
        if event.step is Step.ARGS:
            _mark_overlap(starts)
    told = [start for start in starts if any(e.step not in _AROUND for e in start.events)]
    return told if not told or starts[-1] is told[-1] else [*told, starts[-1]]  # a start that printed nothing yet


def servers_of(starts: list[Start]) -> list[list[Start]]:
    """Starts of one server together, the current one last. One without arguments is of the server of its unit, else of
    the one that started before it; the first of all, of the one that starts after it.
    """
    servers: dict[tuple[object, ...], list[Start]] = {}
    last = next((start.key for start in starts if start.key), ())
    units: dict[str, tuple[object, ...]] = {}
    for start in starts:
        last = start.key or units.get(start.unit, last)
        servers.setdefault(last, []).append(start)
        units |= {start.unit: last} if start.unit else {}
    return list(servers.values())


def _begins_anew(current: Start, event: Event) -> bool:
    if event.step in (Step.VERSION, Step.ARGS):
        return any(current.has(step) for step in (*_UNDER_WAY, *((Step.ARGS,) if event.step is Step.ARGS else ())))
    if event.step is Step.CONFIG:
        return current.ready or (current.has(Step.CONFIG, event.rank) and current.has(Step.KV))
    if event.step in (Step.LOADED, Step.MEMORY, Step.KV):
        return current.ready and current.has(Step.KV)
    return False


def _mark_overlap(starts: list[Start]) -> None:
    """Another server starts while the one before is not up yet: their records are mixed."""
    if len(starts) < 2:
        return
    before, opened = starts[-2:]
    over = any(before.has(step) for step in (Step.READY, Step.STATS, Step.TROUBLE, Step.STOPPED))
    if before.args and not over and not before.is_offline_and_up and before.key != opened.key:
        before.overlaps = opened.overlaps = True
