"""Server: what is known of one running server, whichever engine it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from ..capacity.limits import Ceiling
from ..capacity.pool import Pool
from ..evidence import Evidence, Process, Unit
from ..figure import Figure, derived, missing


class Role(str, Enum):
    UNIFIED = "unified"
    PREFILL = "prefill"
    DECODE = "decode"
    ROUTER = "router"
    UNKNOWN = "role not known"


class Setting(NamedTuple):
    """What was asked for beside what is in effect: two quantities, whatever the engine calls them."""

    label: str
    requested: Figure
    effective: Figure
    why: str = ""  # why they differ, where the evidence says it

    @property
    def differs(self) -> bool:
        both = self.requested.known and self.effective.known
        return both and self.requested.value != self.effective.value


class Disagreement(NamedTuple):
    """One quantity, two sources, two values. The first is the one that was trusted; `why` says why."""

    quantity: str
    figures: tuple[Figure, ...]
    why: str


class EarlierStart(NamedTuple):
    """A start that stands in the same evidence before the current one. Its figures never outrank the current one's."""

    began: str
    figures: Mapping[str, Figure]
    why_earlier: str = ""


class Rank(NamedTuple):
    """One rank's own figures (a data-parallel rank, a tensor-parallel rank), where they were told apart."""

    name: str
    figures: Mapping[str, Figure]


class Level(NamedTuple):
    """How full a pool is, in its unit, all partitions together. Each part may be missing, with its reason; where the
    size is a range, so are the share in use and the room.
    """

    pool: str
    size: Figure
    used: Figure  # held by requests
    evictable: Figure  # kept for reuse, and given back on demand
    reserved: Figure  # kept back: nobody can be given it
    free: Figure
    share: Figure | None = None  # in use of the whole, as the engine itself states it

    @property
    def in_use(self) -> Figure:
        """The share that requests hold; of several partitions where only shares are known, the fullest's."""
        if self.size.known and self.used.known and self.size.number:
            used, size = self.used.number, self.size
            share = derived("in_use", used / size.number, "of the pool", (self.used, size), "use / pool")
            return share.between(used / size.most, used / size.least) if size.least else share
        return self.share or missing("in_use", "of the pool", self.used.note or self.size.note or "the pool is empty")

    @property
    def room(self) -> Figure:
        """What new requests can be given: free or evictable. At most that, where what is kept back is not known."""
        unknown = self.size if not self.size.known else self.used
        if not unknown.known:
            return missing("room", self.size.unit, unknown.note)
        kept = (self.reserved,) if self.reserved.known else ()
        held = self.used.number + sum(f.number for f in kept)
        note = "size - use - kept back" if kept else f"size - use, at most: {self.reserved.note}"
        left = [max(0, size - held) for size in (self.size.number, self.size.least, self.size.most)]
        return derived("room", left[0], self.size.unit, (self.size, self.used, *kept), note).between(*left[1:])


class Queue(NamedTuple):
    """Requests that wait, and for what, under the engine's own word."""

    label: str
    waiting: Figure


class Moment(NamedTuple):
    """What one engine logged of its use at a time: a log holds a course, of which the last moment is the present."""

    at: str
    rank: str
    figures: Mapping[str, Figure]


class OnHost(NamedTuple):
    """A server on this host: its processes and its unit; what its command line asks for, and what that of its unit's
    files would (None where those are not known).
    """

    process: Process
    unit: Unit | None
    asked: Mapping[str, Figure]
    configured: Mapping[str, Figure] | None
    environment: Mapping[str, str]
    read_at: datetime
    configured_in: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """`figures` holds the trusted figure of each quantity under the engine's own name; `usage` what is in use now."""

    name: str
    engine: str
    role: Role
    figures: Mapping[str, Figure]
    settings: tuple[Setting, ...] = ()
    pools: tuple[Pool, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    usage: Mapping[str, Figure] = field(default_factory=dict)
    running: Figure = field(default_factory=lambda: missing("running_requests", "requests", "not known"))
    queues: tuple[Queue, ...] = ()
    levels: tuple[Level, ...] = ()
    total_context: Figure | None = None  # where it is not the KV pool's tokens: of an engine that counts blocks
    default_output: Figure = field(default_factory=lambda: missing("default_output_tokens", "tokens", "not known"))
    ranks: tuple[Rank, ...] = ()
    history: tuple[Moment, ...] = ()
    peaks: Mapping[str, Figure] = field(default_factory=dict)  # the highest use of a window, as the notes of it say
    earlier: tuple[EarlierStart, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    differing: tuple[Disagreement, ...] = ()  # what its URL answered differently from call to call: several servers
    evidence: tuple[Evidence, ...] = ()
    workers: tuple[str, ...] = ()  # of a router: the URLs it routes to
    notes: tuple[str, ...] = ()
    host: OnHost | None = None  # where it was found on this one
    intended: Mapping[str, Figure] = field(default_factory=dict)  # what an ullage.toml says it is to run with
    unread: Mapping[str, str] = field(default_factory=dict)  # endpoint, or the reason of several -> the reason

    @property
    def unread_words(self) -> str:
        """What could not be read, to be put behind the reason of a missing figure."""
        return "".join(
            f"; {topic} was not read: {reason}" if topic != reason else f"; not read: {reason}"
            for topic, reason in self.unread.items()
        )

    def figure(self, name: str, unit: str = "") -> Figure:
        """The trusted figure, or a missing one that says that nothing states it."""
        return self.figures.get(name) or missing(name, unit, f"no evidence states it{self.unread_words}")

    def use(self, name: str, unit: str = "") -> Figure:
        return self.usage.get(name) or missing(name, unit, f"no evidence states it{self.unread_words}")

    def pool(self, name: str) -> Pool | None:
        """The pool of this name, where its size is known."""
        return next((pool for pool in self.pools if pool.name == name and pool.size.known), None)

    def says(self, name: str) -> object:
        """The plain value, or None."""
        return self.figure(name).value
