"""Parallel requests against the length of a prompt, and which pool binds from where to where."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, partial
from math import isqrt
from typing import NamedTuple

from ..capacity.chain import ChainLimits
from ..capacity.limits import Ceiling, Limits
from ..capacity.request import Shape
from ..deployment import Deployment, answer, reach_of
from ..engines.server import Role, Server

_SHORTEST = 256  # tokens at which a curve begins, where the longest request leaves that much room
_FINEST = 1.012  # prompts are told apart down to this ratio; where another pool takes over, to the token


class Point(NamedTuple):
    """Requests of prompts of this length, no output."""

    prompt: int
    admits: int
    low: int  # of admits, where the rule moves
    high: int
    safe: int
    binds: str


class Stretch(NamedTuple):
    """The prompts, first to last, for which one pool binds."""

    first: int
    last: int
    binds: str


class Curve(NamedTuple):
    """From a short prompt to the longest that is served. `perhaps`: a ceiling that some builds have below it."""

    title: str
    points: tuple[Point, ...]
    stretches: tuple[Stretch, ...]
    ends_at: str  # the ceiling that bounds the longest prompt
    perhaps: Ceiling | None = None
    at_most: bool = False  # upper bounds: a pool that could bind is not known
    unknown: str = ""  # why there is no curve

    @property
    def first(self) -> int:
        return self.points[0].prompt

    @property
    def last(self) -> int:
        return self.points[-1].prompt

    @property
    def most(self) -> int:
        """The most requests of any length: the height of the curve."""
        return max(point.high for point in self.points)

    @property
    def is_flat(self) -> bool:
        """One number holds at all lengths, for what is admitted and for what is safe."""
        return len({count for p in self.points for count in (p.admits, p.low, p.high, p.safe)}) < 2

    def at(self, prompt: int) -> Point:
        """The nearest point that is not longer: nothing that can be told apart changes between two points."""
        return self.points[max(0, bisect_right(self.points, prompt, key=lambda point: point.prompt) - 1)]


Ask = Callable[[int], "Limits | ChainLimits"]


def curves_of(deployment: Deployment, finest: float = _FINEST) -> list[Curve]:
    """One curve of each chain; else one of each server."""
    return [curve for part in deployment.parts for curve in _curves_of(part, finest)]


def _curves_of(deployment: Deployment, finest: float) -> list[Curve]:
    asked = cache(lambda prompt: answer(deployment, Shape(prompt)))

    def of_chain(prompt: int) -> ChainLimits:
        found = asked(prompt).chain
        assert found is not None
        return found

    def of_server(name: str, prompt: int) -> Limits:
        return asked(prompt).by_server[name]

    if deployment.is_chain:
        return [_curve("prefill to decode", of_chain, deployment.of(Role.PREFILL, Role.DECODE), finest)]
    return [_curve(s.name, partial(of_server, s.name), (s,), finest) for s in deployment.workers]


def _curve(title: str, ask: Ask, servers: tuple[Server, ...], finest: float) -> Curve:
    reaches = [reach_of(server) for server in servers]
    tops = [reach.tokens.count for reach in reaches if reach.tokens.known]
    found = ask(1)
    if not found.admits.known:
        return Curve(title, (), (), "", unknown=found.admits.note)
    if not tops or not _served(ask, 1):
        reason = next((r.tokens.note for r in reaches if not r.tokens.known), "no prompt is served")
        return Curve(title, (), (), "", unknown=reason)
    longest = _last(lambda prompt: _served(ask, prompt), 1, max(tops))
    shortest = min(_SHORTEST, max(1, longest // 64))
    points = tuple(_sampled(ask, shortest, longest, finest))
    ends = next((r.ceiling.what for r in reaches if r.ceiling and r.tokens.count == longest), "")
    return Curve(
        title,
        points,
        tuple(_stretches(points)),
        ends or ask(longest + 1).binds,
        ask(longest).perhaps_refused,
        found.at_most,
    )


def _served(ask: Ask, prompt: int) -> bool:
    found = ask(prompt)
    return found.refused is None and found.admits.known and found.admits.number > 0


def _last(holds: Callable[[int], bool], first: int, end: int) -> int:
    """The last number from `first` to `end` for which it holds, where it holds for `first` and never again once not."""
    if holds(end):
        return end
    while end - first > 1:
        middle = (first + end) // 2
        first, end = (middle, end) if holds(middle) else (first, middle)
    return first


def _point(ask: Ask, prompt: int) -> Point:
    found = ask(prompt)
    admits = found.admits
    return Point(prompt, admits.count, int(admits.least), int(admits.most), found.safe.count, found.binds)


def _sampled(ask: Ask, first: int, last: int, finest: float) -> Iterator[Point]:
    """Every point at which something changes, as far as `finest` tells prompts apart."""
    start, end = _point(ask, first), _point(ask, last)
    yield start
    if last > first:
        yield from _between(ask, start, end, finest)
        yield end


def _between(ask: Ask, a: Point, b: Point, finest: float) -> Iterator[Point]:
    """The points between two: none where nothing changes, or where they are too close to be told apart."""
    if b.prompt - a.prompt < 2 or a[1:] == b[1:]:
        return
    if b.prompt > a.prompt * finest:
        middle = _point(ask, min(max(isqrt(a.prompt * b.prompt), a.prompt + 1), b.prompt - 1))
        yield from _between(ask, a, middle, finest)
        yield middle
        yield from _between(ask, middle, b, finest)
    elif a.binds != b.binds:
        change = _last(lambda prompt: ask(prompt).binds == a.binds, a.prompt, b.prompt)
        if change > a.prompt:
            yield _point(ask, change)
        if change + 1 < b.prompt:
            after = _point(ask, change + 1)
            yield after
            yield from _between(ask, after, b, finest)


def _stretches(points: tuple[Point, ...]) -> Iterator[Stretch]:
    first = points[0]
    for point, following in zip(points, (*points[1:], None), strict=True):
        if following is None or following.binds != point.binds:
            yield Stretch(first.prompt, point.prompt, point.binds)
            first = following or point
