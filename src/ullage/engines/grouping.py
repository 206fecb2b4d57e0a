"""Which pieces of evidence speak of one server: those of one URL always, others by what they say, none by guessing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .facts import Facts
from .server import Role
from .trust import Trust

Score = tuple[int, int]
_NONE = (-1, 0)


def group(facts: Sequence[Facts], trust: Trust) -> list[list[Facts]]:
    """Facts of one server together: those of one owner; others by what they say. What fits several servers equally well
    stays by itself, and says so.
    """
    owned: dict[str, list[Facts]] = {}
    for fact in facts:
        if fact.evidence.origin.owner:
            owned.setdefault(fact.evidence.origin.owner, []).append(fact)
    groups = list(owned.values())
    for topic in trust.effective:
        waiting = sorted((f for f in facts if f.topic == topic and not f.evidence.origin.owner), key=_node)
        while found := next(_sure(groups, waiting, trust), None):
            held, fact = found
            held.append(fact)
            waiting = [other for other in waiting if other is not fact]
        for fact in waiting:
            _alone(groups, fact)
    return [_doubted(held, groups, trust) for held in groups]


def _sure(groups: list[list[Facts]], waiting: list[Facts], trust: Trust) -> Iterator[tuple[list[Facts], Facts]]:
    """Pairs in which neither the fact fits another server as well, nor another fact of its kind fits the server."""
    for fact in waiting:
        best = _best(groups, fact, trust)
        if len(best) == 1 and not _is_rivalled(best[0], fact, waiting, trust):
            yield best[0], fact


def _best(groups: list[list[Facts]], fact: Facts, trust: Trust) -> list[list[Facts]]:
    top = max((_agreement(held, fact, trust) for held in groups), default=_NONE)
    return [held for held in groups if _agreement(held, fact, trust) == top] if top > _NONE else []


def _is_rivalled(held: list[Facts], fact: Facts, waiting: list[Facts], trust: Trust) -> bool:
    score = _agreement(held, fact, trust)
    return any(
        _agreement(held, other, trust) >= score and not _are_one(fact, other) for other in waiting if other is not fact
    )


def _alone(groups: list[list[Facts]], fact: Facts) -> None:
    """A server of its own, or the log of one that is there already: of another node of it, or the same in a copy."""
    same = next((held for held in groups if any(_are_one(h, fact) for h in held)), None)
    if same is not None:
        same.append(fact)
    else:
        groups.append([fact])


def _doubted(held: list[Facts], groups: list[list[Facts]], trust: Trust) -> list[Facts]:
    """A piece that stayed by itself although it fits other servers says so."""
    fits = len(held) == 1 and any(_best([other], held[0], trust) for other in groups if other is not held)
    if not fits or held[0].topic in ("server_info", "log"):
        return held
    return [replace(held[0], notes=(*held[0].notes, "nothing tells which of the servers this is evidence of"))]


def _are_one(one: Facts, other: Facts) -> bool:
    """Two logs of one server: of two nodes that meet at one address, or of the same lines."""
    if one.topic != "log" or other.topic != "log" or _owners_differ(one, other):
        return False
    meet = [fact.word("dist_init_addr") for fact in (one, other)]
    if meet[0] is not None and meet[0] == meet[1] and one.role is other.role:
        return _node(one) != _node(other)
    return _said(one) == _said(other) and any(at for _, _, at in _said(one))


def _owners_differ(one: Facts, other: Facts) -> bool:
    """Replicas that are started at once print the same."""
    owners = {one.evidence.origin.owner, other.evidence.origin.owner} - {""}
    return len(owners) > 1


def _said(fact: Facts) -> list[tuple[str, object, str | None]]:
    return [(name, figure.value, figure.observed_at) for name, figure in (*fact.args.items(), *fact.effective.items())]


def _node(fact: Facts) -> int:
    """The number of the machine, of a server on several of them."""
    word = fact.word("node_rank") or "0"
    return int(word) if word.isdigit() else 0


def _agreement(held: list[Facts], fact: Facts, trust: Trust) -> Score:
    """How many identifying statements agree; below 0 where one contradicts, or the kind of evidence is there already.
    Where that decides nothing, files of one folder belong together.
    """
    if any(h.evidence.origin == fact.evidence.origin and h.topic != "log" for h in held):
        return 99, 0
    if any(h.topic == fact.topic for h in held) or _is_other_url(held, fact):
        return _NONE
    scores = [_same(held, fact, name) for name in trust.identity]
    scores.append(_same_role({h.role for h in held}, fact.role))
    if -1 in scores:
        return _NONE
    folders = {_folder(h) for h in held}
    return 1 + sum(scores) + 4 * max(_same(held, fact, trust.pool), 0), int(_folder(fact) in folders)


def _is_other_url(held: list[Facts], fact: Facts) -> bool:
    targets = {h.evidence.origin.target for h in held} | {fact.evidence.origin.target}
    return sum(t.startswith(("http://", "https://")) for t in targets) > 1


def _folder(fact: Facts) -> str:
    return fact.evidence.origin.target.rpartition("/")[0]


def _same(held: list[Facts], fact: Facts, name: str) -> int:
    mine, theirs = fact.word(name), [h.word(name) for h in held]
    known = {_base(t) for t in theirs if t is not None}
    if mine is None or not known:
        return 0
    return 1 if _base(mine) in known else -1


def _base(word: str) -> str:
    return word.rstrip("/").rsplit("/", 1)[-1].lower()


def _same_role(held: set[Role], role: Role) -> int:
    known = held - {Role.UNKNOWN}
    if role is Role.UNKNOWN or not known:
        return 0
    return 1 if role in known else -1
