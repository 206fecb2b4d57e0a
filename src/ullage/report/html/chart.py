"""The curve as a drawing: requests against prompt, both logarithmic, and behind it which pool binds where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import NamedTuple

from ..curve import Curve, Stretch
from .markup import Html, data, tag, void

_COLOURS = 6  # looks of bands in the style sheet
_USUAL = ("KV pool", "request slots", "window pool", "state slots")  # these look the same on every page
_STEPS = 400  # of the slider
_LETTER = 6.4  # units that a letter of a label is wide
_APART = 4  # units: a change that lies nearer to the left edge is not marked


class Mark(NamedTuple):
    """A row of the table, on the curve."""

    prompt: int
    requests: int
    label: str


class Frame(NamedTuple):
    """Where the plot lies in a drawing of this size, and its two scales."""

    width: int
    height: int
    curve: Curve
    left: int = 46
    right: int = 14
    top: int = 48
    bottom: int = 40

    @property
    def end(self) -> float:
        """The prompt at the right edge: a little beyond the longest, to show the wall there."""
        return float(self.curve.last * (self.curve.last / self.curve.first) ** 0.05)

    def x(self, prompt: float) -> float:
        span = self.width - self.left - self.right
        return self.left + span * log(prompt / self.curve.first) / log(self.end / self.curve.first)

    def y(self, requests: float) -> float:
        foot, head = 0.7, self.curve.most * 1.35
        span = self.height - self.top - self.bottom
        return self.height - self.bottom - span * log(max(requests, foot) / foot) / log(head / foot)

    @property
    def floor(self) -> float:
        return float(self.height - self.bottom)


def chart(curve: Curve, marks: Sequence[Mark], looks: dict[str, int]) -> Html:
    """The drawing for a page and for a phone, what binds where in words, and a slider that reads the curve."""
    wide, narrow = Frame(760, 380, curve), Frame(344, 300, curve, left=40, right=8)
    drawings = (tag("div", _drawing(f, marks, looks), class_=size) for f, size in ((wide, "wide"), (narrow, "narrow")))
    return tag("figure", *drawings, _reader(curve, (wide, narrow)), _legend(curve, looks), class_="chart")


def looks_of(curves: Sequence[Curve]) -> dict[str, int]:
    """A look for each pool that binds somewhere; the same pool looks the same in every role."""
    names = [pool_in(s.binds) for curve in curves for s in curve.stretches]
    return {name: i % _COLOURS for i, name in enumerate(dict.fromkeys((*_USUAL, *names)))}


def pool_in(binds: str) -> str:
    return binds.rpartition(": ")[2]


def _drawing(frame: Frame, marks: Sequence[Mark], looks: dict[str, int]) -> Html:
    curve = frame.curve
    label = "; ".join(f"{_lengths(s)} tokens: {s.binds} binds" for s in curve.stretches)
    parts = (*_bands(frame, looks), *_walls(frame), *_axes(frame), *_lines(frame), *_marks(frame, marks), _cross(frame))
    title = tag("title", f"Parallel requests against prompt tokens. {label}")
    box = f"0 0 {frame.width} {frame.height}"
    return tag("svg", title, *parts, viewBox=box, role="img")


def _bands(frame: Frame, looks: dict[str, int]) -> Iterator[Html]:
    """What is below the curve, in the colour of the pool that binds there."""
    points = frame.curve.points
    for stretch in frame.curve.stretches:
        inside = [(p.prompt, p.admits) for p in points if stretch.first <= p.prompt <= stretch.last]
        area = [(stretch.first, 0), *inside, (stretch.last, 0)]
        x, end = frame.x(stretch.first), frame.x(stretch.last)
        yield void("path", d=_path(frame, area) + "Z", class_=f"band b{looks[pool_in(stretch.binds)]}")
        if len(stretch.binds) * _LETTER < end - x - 8:
            yield tag("text", stretch.binds, x=(x + end) / 2, y=frame.top - 20, class_="who")
        if x - frame.left > _APART:
            yield void("line", x1=x, x2=x, y1=frame.top, y2=frame.floor, class_="change")
            if x < frame.width - 100:
                yield tag("text", f"from {stretch.first:,}", x=x + 5, y=frame.floor - 7, class_="at start")


def _axes(frame: Frame) -> Iterator[Html]:
    for requests in _powers(1, frame.curve.most, 6):
        y = frame.y(requests)
        yield void("line", x1=frame.left, x2=frame.width - frame.right, y1=y, y2=y, class_="grid")
        yield tag("text", f"{requests:,}", x=frame.left - 6, y=y + 4, class_="y")
    room = (frame.width - frame.left) // 78
    for prompt in _powers(frame.curve.first, frame.curve.last, room):
        x = frame.x(prompt)
        yield void("line", x1=x, x2=x, y1=frame.floor, y2=frame.floor + 5, class_="tick")
        yield tag("text", f"{prompt:,}", x=x, y=frame.floor + 18, class_="x")
    yield void("line", x1=frame.left, x2=frame.width - frame.right, y1=frame.floor, y2=frame.floor, class_="axis")
    middle = (frame.left + frame.width) / 2
    yield tag("text", "prompt tokens of each request", x=middle, y=frame.height - 4, class_="name")
    yield tag("text", "requests in parallel", x=4, y=11, class_="name start")


def _powers(first: int, last: int, room: int) -> list[int]:
    """Powers of two from first to last, so many as there is room for."""
    powers = [2**n for n in range(60) if first <= 2**n <= last]
    step = -(-len(powers) // max(1, room))
    return powers[::step]


def _walls(frame: Frame) -> Iterator[Html]:
    """Where the longest prompt is, and where it is in some builds."""
    curve, height = frame.curve, frame.floor - frame.top
    if curve.perhaps and curve.first < (limit := curve.perhaps.tokens.count) < curve.last:
        x = frame.x(limit)
        title = tag("title", f"perhaps {curve.perhaps.beyond} above {limit:,} tokens: {curve.perhaps.what}")
        width = frame.x(curve.last) - x
        yield tag("g", title, void("rect", x=x, y=frame.top, width=width, height=height, fill="url(#hatch-unknown)"),
                  void("line", x1=x, x2=x, y1=frame.top, y2=frame.floor, class_="perhaps"), class_="doubt")  # fmt: skip
        yield tag("text", f"perhaps {limit:,}", x=x - 5, y=frame.floor - 23, class_="limit end")
    x = frame.x(curve.last)
    width = frame.width - frame.right - x
    yield void("rect", x=x, y=frame.top, width=width, height=height, class_="beyond")
    yield tag("text", f"{curve.last:,}", x=frame.width - frame.right, y=frame.top - 4, class_="at end")


def _lines(frame: Frame) -> Iterator[Html]:
    points = frame.curve.points
    if any(point.low != point.high for point in points):
        upper = [(p.prompt, p.high) for p in points]
        lower = [(p.prompt, p.low) for p in reversed(points)]
        yield void("path", d=_path(frame, [*upper, *lower]) + "Z", class_="range")
    if any(point.safe != point.admits for point in points):
        yield void("path", d=_path(frame, [(p.prompt, p.safe) for p in points]), class_="safe")
    yield void("path", d=_path(frame, [(p.prompt, p.admits) for p in points]), class_="admits")


def _path(frame: Frame, points: Sequence[tuple[int, int]]) -> str:
    return "M" + "L".join(f"{frame.x(prompt):.1f},{frame.y(requests):.1f}" for prompt, requests in points)


def _marks(frame: Frame, marks: Sequence[Mark]) -> Iterator[Html]:
    """The table's rows, with how many requests each is, where the labels have room."""
    taken: list[float] = []
    for mark in sorted(marks, key=lambda m: m.prompt):
        if not frame.curve.first <= mark.prompt <= frame.curve.last:
            continue
        x, y = frame.x(mark.prompt), frame.y(mark.requests)
        title = tag("title", f"{mark.label} tokens: {mark.requests:,} requests")
        yield tag("g", title, void("circle", cx=x, cy=y, r=4.5), class_="row")
        if all(abs(x - other) > 34 for other in taken):
            taken.append(x)
            yield tag("text", f"{mark.requests:,}", x=min(x + 8, frame.width - 18), y=y - 8, class_="count")


def _cross(frame: Frame) -> Html:
    """What the slider moves."""
    line = void("line", x1=0, x2=0, y1=frame.top, y2=frame.floor)
    return tag("g", line, void("circle", cx=0, cy=0, r=5), class_="cross", visibility="hidden", aria_hidden="true")


def _reader(curve: Curve, frames: tuple[Frame, ...]) -> Html:
    """A slider over the prompts of the curve. It works only with a script, so it is hidden until there is one."""
    names = list(dict.fromkeys(point.binds for point in curve.points))
    rows = [[p.prompt, p.admits, p.low, p.high, p.safe, names.index(p.binds)] for p in curve.points]
    scales = [[round(f.x(curve.first), 1), round(f.x(curve.last), 1), f.floor, f.y(1), f.y(curve.most)] for f in frames]
    held = tag(
        "script",
        data({"points": rows, "binds": names, "scales": scales, "atMost": curve.at_most}),
        type="application/json",
    )
    slider = void("input", type="range", min=0, max=_STEPS, value=_STEPS // 2, step=1)
    return tag("div", tag("label", "Read the curve at ", slider), tag("output"), held, class_="reader", hidden=True)


def _legend(curve: Curve, looks: dict[str, int]) -> Html:
    stretches = (
        tag(
            "li",
            tag("i", class_=f"swatch b{looks[pool_in(s.binds)]}"),
            f"{_lengths(s)}: bound by ",
            tag("b", s.binds),
        )
        for s in curve.stretches
    )
    most = " at most, for a pool that could bind is not known" if curve.at_most else ""
    lines = [tag("li", tag("i", class_="line admits"), f"admits{most}")]
    if any(point.safe != point.admits for point in curve.points):
        lines.append(tag("li", tag("i", class_="line safe"), "safe: all can finish at full length"))
    else:
        lines = [tag("li", tag("i", class_="line admits"), f"admits{most}, and as many are safe")]
    end = tag("li", tag("i", class_="swatch beyond"), f"longer than {curve.last:,}: {curve.ends_at}")
    return tag("ul", *lines, *stretches, end, *_doubt(curve), class_="legend")


def _lengths(stretch: Stretch) -> str:
    """`256 to 7,168`, or the only one."""
    return f"{stretch.first:,}" + (f" to {stretch.last:,}" if stretch.last > stretch.first else "")


def _doubt(curve: Curve) -> Iterator[Html]:
    if curve.perhaps and curve.perhaps.tokens.count < curve.last:
        words = f"perhaps {curve.perhaps.beyond} above {curve.perhaps.tokens.count:,}: {curve.perhaps.what}"
        yield tag("li", tag("i", class_="swatch unknown"), words)


def no_curve(curve: Curve) -> Html:
    why = curve.unknown or f"one number holds at all lengths, bound by {curve.points[0].binds}"
    return tag("p", tag("span", "No curve: ", class_="n missing"), why, class_="unknown")
