"""A log is a history of starts: which lines belong to which, and whether two servers write into the same log.

Only the last start of each server counts; earlier ones are history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...evidence import Log
from ..events import Event
from ..server import Role
from ..unit_starts import by_starts
from .batches import batch_event
from .lines import Step, is_tagged, start_event
from .server_args import parse_server_args

_BEFORE_WEIGHTS = "avail_before_weights_gib"
_UNTAGGED = frozenset(["port", "deprecated_endpoint", "graph_bs", "nccl_rank"])


@dataclass
class Start:
    """One start of one server, with the lines of its run."""

    args: Mapping[str, object] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    overlaps: bool = False  # another server was starting into the same log, so its lines may be the other's

    @property
    def began(self) -> str:
        return next((e.time for e in self.events if e.time), "")

    @property
    def ready(self) -> bool:
        return self.has(Step.READY)

    @property
    def role(self) -> Role:
        """The role by its arguments, else by the fields that only one role logs."""
        if self.stated_role is not Role.UNKNOWN:
            return self.stated_role
        failed = next((e.values["failed_side"] for e in self.events if "failed_side" in e.values), None)
        return (
            Role(str(failed).lower()) if failed else _role_of_fields({name for e in self.events for name in e.values})
        )

    @property
    def stated_role(self) -> Role:
        """The role by its arguments alone."""
        if "disaggregation_mode" not in self.args:
            return Role.UNKNOWN
        mode = self.args["disaggregation_mode"]
        return Role(mode) if mode in ("prefill", "decode") else Role.UNIFIED

    @property
    def role_ground(self) -> str:
        """Why the role is what it is, where it is inferred."""
        return (
            ""
            if self.args or self.role is Role.UNKNOWN
            else "the role is inferred from the lines that only this role logs"
        )

    @property
    def key(self) -> tuple[object, ...]:
        """What tells one server from another in the same log. Empty where the arguments are not in the log."""
        return (
            tuple(str(self.args.get(name)) for name in ("disaggregation_mode", "port", "node_rank"))
            if self.args
            else ()
        )

    @property
    def window_sizes(self) -> frozenset[int | float | str]:
        """Tokens of the window pool as the sizing lines state them, where they tell it from the full pool."""
        full = self._stated("full_tokens") | self._stated("max_total_num_tokens")
        return self._stated("swa_max_total_num_tokens") - full

    @property
    def pools_told_apart(self) -> bool:
        """False where a rank prints KV lines of two sizes, and no line says which of them is the window's."""
        sizes: dict[str, set[object]] = {}
        for event in self.of(Step.KV):
            sizes.setdefault(event.rank, set()).add(event.values.get("kv_line_tokens"))
        return bool(self.window_sizes) or all(len(found - {None}) < 2 for found in sizes.values())

    def _stated(self, name: str) -> frozenset[int | float | str]:
        return frozenset(event.values[name] for event in self.events if name in event.values)

    @property
    def unit(self) -> str:
        """Of systemd, as its line about the start has it."""
        return next((str(e.values["unit"]) for e in self.of(Step.UNIT) if "unit" in e.values), "")

    def has(self, step: Step, rank: str | None = None) -> bool:
        return any(e.step is step and rank in (None, e.rank) for e in self.events)

    def of(self, *steps: Step) -> Iterator[Event]:
        return (e for e in self.events if e.step in steps)


def _role_of_fields(names: set[str]) -> Role:
    if names & {"num_decode_prealloc_queue_reqs", "num_decode_transfer_queue_reqs", "pending_prealloc_token_usage"}:
        return Role.DECODE
    if names & {"num_prefill_bootstrap_queue_reqs", "num_prefill_inflight_queue_reqs"}:
        return Role.PREFILL
    if "pd_warmup" in names and "graph_sizes" in names:
        return (
            Role.DECODE
        )  # of the two roles, only decode captures batch graphs; "end of prefill ... warmup" is logged by both
    return Role.UNKNOWN


def starts_of(log: Log) -> list[Start]:
    """All starts in the order in which they began. Empty: nothing in the log is SGLang's."""
    starts: list[Start] = []
    for event, by_systemd in by_starts(_events(log), Step.UNIT, (Step.ARGS, Step.LOAD_BEGIN)):
        if event.step is Step.ARGS:
            starts.append(_opened(starts, parse_server_args(event.line.text), event))
        elif not starts or (by_systemd and not starts[-1].overlaps) or _begins_anew(starts[-1], event):
            starts.append(Start(events=[event]))
        elif owner := _owner(starts, event):
            owner.events.append(event)
    return starts if any(_is_sglangs(event) for start in starts for event in start.events) else []


def _is_sglangs(event: Event) -> bool:
    """Not a line of systemd about a unit that is another's."""
    return event.step is not Step.UNIT or "sglang" in event.line.text.lower()


def servers_of(starts: list[Start]) -> list[list[Start]]:
    """Starts of one server together, the current one last. Starts without arguments go to the server of their unit,
    else to the one that started before them.
    """
    servers: dict[tuple[object, ...], list[Start]] = {}
    last: tuple[object, ...] = ()
    units: dict[str, tuple[object, ...]] = {}
    for start in starts:
        last = start.key or units.get(start.unit, last)
        servers.setdefault(last, []).append(start)
        units |= {start.unit: last} if start.unit else {}
    return list(servers.values())


def _events(log: Log) -> list[Event]:
    """What the engine says itself. Where it puts its tag before its lines, one without is no line of it: the text of
    a request can look like one.
    """
    events = [event for line in log.lines if (event := batch_event(line) or start_event(line))]
    tagged = any(_has_a_tag(event) and is_tagged(event.line) for event in events)
    return [event for event in events if not (tagged and _has_a_tag(event)) or is_tagged(event.line)]


def _has_a_tag(event: Event) -> bool:
    """Not the lines of the web server, of progress bars, of libraries and of systemd."""
    return event.step not in (Step.READY, Step.TROUBLE, Step.UNIT) and not _UNTAGGED & event.values.keys()


def _opened(starts: list[Start], args: Mapping[str, object], event: Event) -> Start:
    """A new start by its arguments; a line of systemd just before belongs to it. It overlaps one that is not up yet, if
    that is another server.
    """
    opened = Start(args, [event])
    before = starts[-1] if starts else None
    if before and not before.args and all(e.step is Step.UNIT for e in before.events):
        starts.pop()
        opened.events[:0] = before.events
    elif before and before.args and before.key != opened.key and not _is_over(before):
        before.overlaps = opened.overlaps = True
    return opened


def _is_over(start: Start) -> bool:
    """Is it up, or has it failed? Its start-up lines have ended then."""
    return any(start.has(step) for step in (Step.READY, Step.SUMMARY, Step.TROUBLE))


def _begins_anew(current: Start, event: Event) -> bool:
    """Does this line belong to a start after the current one, whose arguments are not in the log?"""
    if current.overlaps:  # two servers write here: a line that comes twice is the other's, until both are up
        return event.step is Step.LOAD_BEGIN and sum(1 for _ in current.of(Step.READY)) > 1
    if event.step is Step.LOAD_BEGIN:
        return current.ready or current.has(Step.SUMMARY) or _memory_is_back(current, event)
    if event.step in (Step.KV, Step.POOL_END):
        return current.ready and current.has(event.step, event.rank)
    return event.step is Step.SUMMARY and current.has(Step.SUMMARY, event.rank)


def _memory_is_back(current: Start, event: Event) -> bool:
    """A draft model is loaded into what the target's weights left free. What they took is free again only after the
    end of the process.
    """
    before, after = (_first_stated(current, event.rank, name) for name in (_BEFORE_WEIGHTS, "avail_after_weights_gib"))
    free = event.values.get(_BEFORE_WEIGHTS)
    if before is None or after is None or not isinstance(free, (int, float)):
        return False
    return free > (before + after) / 2


def _first_stated(start: Start, rank: str, name: str) -> float | None:
    return next((float(e.values[name]) for e in start.events if e.rank == rank and name in e.values), None)


def _owner(starts: list[Start], event: Event) -> Start | None:
    """The start a line belongs to: the latest, but a line that only one role prints goes to the latest start of that
    role. None where two servers write, and nothing tells whose the use is.
    """
    role = _role_of_fields(set(event.values)) if event.step is Step.BATCH else Role.UNKNOWN
    of_role = [start for start in starts if start.stated_role is role]
    if role is not Role.UNKNOWN and of_role:
        return of_role[-1]
    if starts[-1].overlaps and event.step in (Step.BATCH, Step.RETRACT):
        return None
    return starts[-1]
