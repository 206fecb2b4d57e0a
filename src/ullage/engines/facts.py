"""Facts: what one piece of evidence says of one server, before the pieces are joined; and what counts as a quantity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..evidence import Evidence
from ..figure import Figure, Kind, Source
from .quantities import unit_of
from .server import EarlierStart, Moment, Role


@dataclass(frozen=True, slots=True)
class Facts:
    """`args`: what was asked for (arguments). `effective`: what is in effect. `usage`: what is in use now, and per
    rank.
    """

    evidence: Evidence
    topic: str
    args: Mapping[str, Figure] = field(default_factory=dict)
    effective: Mapping[str, Figure] = field(default_factory=dict)
    usage: Mapping[str, Figure] = field(default_factory=dict)
    rank_usage: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    role: Role = Role.UNKNOWN
    history: tuple[Moment, ...] = ()
    earlier: tuple[EarlierStart, ...] = ()
    notes: tuple[str, ...] = ()
    no_pool: str = ""  # why it does not state the pool, where it could

    def word(self, *names: str) -> str | None:
        """The first of these that is known, as text."""
        for name in names:
            figure = self.effective.get(name) or self.args.get(name)
            if figure is not None and figure.known:
                return str(figure.value)
        return None


# Of these no server that runs has 0, or a fraction.
_LIMITS = frozenset(
    """max_total_num_tokens swa_max_total_num_tokens max_running_requests max_req_input_len context_len page_size
    num_pages max_model_len num_gpu_blocks block_size kv_cache_size_tokens max_num_seqs
    max_num_batched_tokens""".split()
)


def plain(value: object) -> bool:
    """A word, a flag, or a number that is one (NaN, infinities and absurd magnitudes are no quantity)."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return math.isfinite(value) and abs(value) < 1e15
    return isinstance(value, (str, bool))


def number(value: object) -> int | float | None:
    """A quantity, or None for anything that is not one (words, NaN, negative counts)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not plain(value) or value < 0:
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def refused(pairs: Iterable[tuple[str, object, Source]]) -> tuple[str, ...]:
    """What the evidence states and no server can have, in words; `readings` leaves it out."""
    return tuple(
        f"{source} states {value:g}, which is no quantity: not used"
        for _, value, source in pairs
        if isinstance(value, (int, float)) and not isinstance(value, bool) and number(value) is None
    )


def words(pairs: Iterable[tuple[str, object, Source]]) -> dict[str, Figure]:
    return {
        name: Figure(name, value, "", Kind.READ, source)
        for name, value, source in pairs
        if isinstance(value, str) and value
    }


def readings(pairs: Iterable[tuple[str, object, Source]], at: str | None = None) -> dict[str, Figure]:
    """(name, value, source) triples as figures; what is not a quantity is left out. The first of a name counts."""
    figures: dict[str, Figure] = {}
    for name, value, source in pairs:
        found = quantity(name, value)
        if found is not None:
            figures.setdefault(name, Figure(name, found, unit_of(name), Kind.READ, source, observed_at=at))
    return figures


def quantity(name: str, value: object) -> int | float | None:
    """A number that this quantity can have: no pool and no limit of a server that runs is 0, or a fraction."""
    found = number(value)
    if name in _LIMITS and not (isinstance(found, int) and found >= 1):
        return None
    return found
