"""Pieces of evidence joined into one server: which to trust, and where they disagree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..evidence import Argv, Evidence
from ..figure import Figure, Kind
from .facts import Facts
from .server import Disagreement, EarlierStart, Moment, Rank, Role
from .trust import Trust

_OUTRANKS = "what the server says of itself when asked outranks its log, which may be of another start"
_ROUNDED = 0.006
_PRINTED_ROUNDED = ("GiB", "full-length requests")  # with two decimals


@dataclass
class Joined:
    """One server's facts together."""

    parts: list[Facts] = field(default_factory=list)
    args: dict[str, Figure] = field(default_factory=dict)
    own_args: dict[str, Figure] | None = None  # of its very process' command line, where that was read
    effective: dict[str, Figure] = field(default_factory=dict)
    usage: dict[str, Figure] = field(default_factory=dict)
    role: Role = Role.UNKNOWN
    history: tuple[Moment, ...] = ()
    earlier: tuple[EarlierStart, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def name(self) -> str:
        """The URL; else the stream or file of its first evidence, with the port."""
        origins = [part.evidence.origin for part in self.parts]
        live = next((o.target for o in origins if o.target.startswith("http")), None)
        if live:
            return live
        unit = re.match(r"\S+\.service", str(self.effective["unit"].value)) if "unit" in self.effective else None
        name = unit[0] if unit else origins[0].stream or origins[0].target.rsplit("/", 1)[-1]
        port = self.known("port")
        return f"{name} (port {port.value})" if port and "port" not in name else name

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Each item once."""
        return tuple({id(part.evidence): part.evidence for part in self.parts}.values())

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """Each rank once, its figures by the order of trust that the parts stand in."""
        ranks: dict[str, dict[str, Figure]] = {}
        for part in self.parts:
            for rank, found in part.rank_usage.items():
                ranks[rank] = {**found, **ranks.get(rank, {})}
        return tuple(Rank(name, ranks[name]) for name in sorted(ranks, key=lambda name: (len(name), name)))

    @property
    def asked(self) -> dict[str, Figure]:
        """What was asked for, under names that tell it from what is in effect."""
        return {f"requested_{name}": figure for name, figure in self.asked_for.items()}

    @property
    def asked_for(self) -> dict[str, Figure]:
        """What was asked for: by the process' own command line alone, where that was read, for a server's word of its
        arguments holds what it made of them too.
        """
        return self.args if self.own_args is None else self.own_args

    def known(self, name: str) -> Figure | None:
        """What is in effect, else what was asked for."""
        return self.effective.get(name) or self.args.get(name)

    def on(self, name: str) -> bool:
        figure = self.known(name)
        return figure is not None and figure.value is True

    def whole(self, name: str) -> int | None:
        """The value of a known whole number, or None."""
        figure = self.known(name)
        return figure.value if figure is not None and type(figure.value) is int else None


def join(parts: list[Facts], trust: Trust) -> Joined:
    joined = Joined(parts)
    joined.role = next((p.role for p in parts if p.role is not Role.UNKNOWN), Role.UNKNOWN)
    joined.args = first_of(ordered(parts, trust.asked), "args")
    joined.own_args = next((dict(p.args) for p in parts if _is_own_command(p)), None)
    joined.effective = first_of(ordered(parts, trust.effective), "effective")
    for name, topics in trust.of_quantity.items():
        told = first_of(ordered(parts, topics), "effective")
        joined.effective.update({name: told[name]} if name in told else {})
    for part in ordered(parts, trust.resolved_by):
        for name in trust.resolved & part.args.keys():
            held = joined.effective.get(name)
            if held is None or held.kind is Kind.INFERRED:
                joined.effective[name] = _in_effect(part.args[name])
    joined.usage = first_of(ordered(parts, trust.usage), "usage")
    joined.history = tuple(moment for p in parts for moment in p.history)
    joined.earlier = tuple(start for p in parts for start in p.earlier)
    joined.disagreements = tuple(_disagreements(parts, trust))
    return joined


def _is_own_command(part: Facts) -> bool:
    """Its process' command line, all of it: a `--config` file that stands there still was not read."""
    content = part.evidence.content
    if part.topic != "flags" or not part.evidence.origin.owner or not isinstance(content, Argv):
        return False
    return not any(word.partition("=")[0] == "--config" for word in content.words)


def _in_effect(figure: Figure) -> Figure:
    return replace(figure, kind=Kind.READ, note="as the server resolved its arguments")


def ordered(parts: Iterable[Facts], topics: Sequence[str]) -> list[Facts]:
    """The parts of these topics, in their order."""
    return sorted((p for p in parts if p.topic in topics), key=lambda p: topics.index(p.topic))


def first_of(parts: Sequence[Facts], of: str) -> dict[str, Figure]:
    """Every quantity under `of` (args, effective, usage) as the first part that states it does."""
    found: dict[str, Figure] = {}
    for part in parts:
        for name, figure in getattr(part, of).items():
            found.setdefault(name, figure)
    return found


def _disagreements(parts: Sequence[Facts], trust: Trust) -> Iterable[Disagreement]:
    told = _one_of_a_kind(ordered(parts, trust.effective))
    for name in dict.fromkeys(name for p in told for name in p.effective):
        order = _one_of_a_kind(ordered(parts, trust.of_quantity.get(name, trust.effective)))
        stated = [p.effective[name] for p in order if name in p.effective]
        figures = [figure for figure in stated if figure.kind is not Kind.INFERRED]
        if name not in trust.loose and _differ(figures):
            yield Disagreement(name, tuple(figures), trust.why.get(name, _OUTRANKS))
    asked = ordered(parts, trust.asked_by)
    for name in dict.fromkeys(name for p in asked for name in p.args):
        figures = [p.args[name] for p in asked if name in p.args]
        if name not in ("api_key", "admin_api_key", "host") and _differ(figures):
            yield Disagreement(
                name, tuple(figures), "the running server's own arguments outrank a command line that was given to us"
            )


def _one_of_a_kind(parts: Iterable[Facts]) -> list[Facts]:
    """The logs of several nodes tell of different GPUs: that is no disagreement."""
    return list({p.topic: p for p in reversed(list(parts))}.values())[::-1]


def _differ(figures: Sequence[Figure]) -> bool:
    first = next(iter(figures), None)
    return first is not None and any(not _equal(first, other) for other in figures[1:])


def _equal(a: Figure, b: Figure) -> bool:
    if isinstance(a.value, (int, float)) and isinstance(b.value, (int, float)):
        parts = max(1, len(a.inputs), len(b.inputs))  # each of them was rounded
        return abs(a.value - b.value) <= (_ROUNDED * parts if a.unit in _PRINTED_ROUNDED else 1e-9)
    return str(a.value).lower() == str(b.value).lower()
