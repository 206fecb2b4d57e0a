"""A llama.cpp log is a history of starts: which lines belong to which, and to which child of a router.

Only the last start of each process counts; earlier ones are history.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...evidence import Log
from ..events import Event
from ..unit_starts import by_starts
from .lines import Step, events_of

_SERVED = (Step.SLOTS, Step.READY, Step.RUN, Step.TROUBLE, Step.ROUTER)
_LOADED = (Step.CONTEXT, Step.KV, Step.SLOTS, Step.READY, Step.RUN, Step.TROUBLE)


@dataclass
class Start:
    """One start of one process, with the lines of its run."""

    child: str = ""  # the port, of a router's child
    events: list[Event] = field(default_factory=list)

    @property
    def began(self) -> str:
        return next((e.time for e in self.events if e.time), "")

    @property
    def ready(self) -> bool:
        """It came up and none of its lines says that it went down again. A run shows it too."""
        return any(e.step in (Step.READY, Step.RUN) for e in self.events) or self.says("router")

    @property
    def refusal(self) -> Event | None:
        """The most telling line of a start that failed: the first that names what could not be done."""
        failed = [e for e in self.of(Step.TROUBLE) if "refusal" in e.values or "memory_refusal" in e.values]
        return None if self.ready else next(iter(failed), None)

    @property
    def ends_loading(self) -> bool:
        """The library tells of the model, and of no context; nothing comes after."""
        return not self.ready and any(e.step is Step.BUFFER for e in self.events)

    @property
    def is_router(self) -> bool:
        told = any(e.step is Step.ROUTER and "spawned" not in e.values for e in self.events)
        return told or any(" router" in str(e.values.get("unit", "")).lower() for e in self.events)

    def of(self, *steps: Step) -> Iterator[Event]:
        return (e for e in self.events if e.step in steps)

    def says(self, name: str) -> bool:
        return any(name in e.values for e in self.events)


def processes_of(log: Log) -> list[list[Start]]:
    """The starts of each process in order: the one that writes the log, then the children that a router passes on."""
    processes: dict[str, list[Start]] = {}
    for event, by_systemd in by_starts(list(events_of(log)), Step.UNIT, (Step.BEGIN, Step.LOAD)):
        starts = processes.setdefault(event.rank, [])
        if not starts or by_systemd or _begins_anew(starts[-1], event):
            starts.append(Start(event.rank))
        starts[-1].events.append(event)
    return [starts for _, starts in sorted(processes.items()) if _is_told(starts)]


def _is_told(starts: list[Start]) -> bool:
    """Not a line of systemd about a unit that is another's."""
    return any(e.step is not Step.UNIT for start in starts for e in start.events) or any(
        "llama" in e.line.text.lower() for start in starts for e in start.events
    )


def _begins_anew(current: Start, event: Event) -> bool:
    """A process prints its build and threads once, before it loads; a model is loaded again after a sleep only."""
    if event.values.keys() == {"n_threads"}:  # the tools beside the server print it when all is loaded
        return any(e.step in _SERVED for e in current.events)
    if event.step is Step.BEGIN:
        return any(e.step in (*_LOADED, Step.ROUTER, Step.LOAD) for e in current.events)
    if event.step is Step.LOAD and "model_path" in event.values:
        return any(e.step in _LOADED for e in current.events) and not _slept(current)
    return False


def _slept(start: Start) -> bool:
    return any("woken" in e.values for e in start.events)
