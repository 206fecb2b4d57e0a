"""A pool as a tank: how much is in use, kept back, evictable and free. What is not known is hatched, never empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...capacity.pool import Pool
from ...engines.server import Level, Server
from ...figure import Figure, derived, missing
from ..words import ratio, value_of
from .markup import Html, joined, tag, void
from .numbers import Numbers

_WIDTH, _HEIGHT, _SCALE = 76, 168, 42  # of the vessel, and of the marks beside it
_TOP = 8
_APART = 0.07  # of the tank: labels nearer than this would lie on each other


class Layer(NamedTuple):
    """One part of a tank, from the bottom up."""

    look: str  # used, reserved, evictable, free, unknown
    label: str
    figure: Figure
    share: float | None  # of the tank; None: not known, so it has no height of its own
    why: str = ""  # why no more is known of it
    most: float | None = None  # of the tank, where its size is a range


def level_in(server: Server, pool: Pool) -> Level:
    """How full the pool is; all of it unknown where nothing states its use."""
    found = next((level for level in server.levels if level.pool == pool.name), None)
    if found is not None:
        return found
    unknown = missing("use", pool.unit, f"nothing in the evidence states the use of it{server.unread_words}")
    return Level(pool.name, _whole(pool), unknown, unknown, unknown, unknown)


def _whole(pool: Pool) -> Figure:
    """All partitions together."""
    if not pool.size.known or pool.partitions == 1:
        return pool.size
    if pool.size.low is not None:
        return missing(pool.size.name, pool.unit, f"{pool.partitions} partitions that differ: {value_of(pool.size)}")
    note = f"in {pool.partitions} partitions"
    return derived(pool.size.name, pool.size.number * pool.partitions, pool.unit, (pool.size,), note)


def layers_of(level: Level) -> list[Layer]:
    """The parts in the order in which they lie in the tank. A rest that no source tells apart is one unknown part."""
    if not (level.size.known and level.used.known and level.size.number):
        return _without_counts(level)
    if level.size.least != level.size.most:
        return _of_some_size(level)
    parts = (("used", "in use", level.used), ("reserved", "kept back", level.reserved))
    named = (*parts, ("evictable", "evictable", level.evictable), ("free", "free", level.free))
    whole = float(level.size.number)
    found = [Layer(look, label, f, float(f.number) / whole if f.known else None) for look, label, f in named]
    return [*found, _rest(level, found)] if not level.free.known else found


def _of_some_size(level: Level) -> list[Layer]:
    """A tank whose size is a range: filled for certain, then perhaps filled (hatched), then free for certain."""
    kept = (("reserved", "kept back", level.reserved), ("evictable", "evictable", level.evictable))
    used, least, most = float(level.used.number), float(level.size.least), float(level.size.most)
    held = used + sum(f.number for _, _, f in kept if f.known)
    low, end = min(1.0, used / most), min(1.0, held / least) if level.free.known else 1.0
    why = f"the pool has {value_of(level.size)} {level.size.unit}"
    doubt = derived("in_doubt", end - low, "of the pool", (level.used, level.size), why)
    certain = 1 - end if level.free.known else None
    return [
        Layer("used", "in use", level.used, low, most=min(1.0, used / least)),
        Layer("unknown", "taken or free", doubt, end - low, why),
        *(Layer(look, label, f, None) for look, label, f in kept),
        Layer("free", "free", level.free, certain, most=max(0.0, 1 - held / most)),
    ]


def _without_counts(level: Level) -> list[Layer]:
    """A share without a size or a count; a count without a size; or nothing."""
    share, told = level.in_use, [Layer("used", "in use", level.used, None)] if level.used.known else []
    if not share.known:
        unknown = level.size if told else level.used
        return [*told, Layer("unknown", "how full", share, None, unknown.note or "the pool is empty")]
    filled = min(1.0, float(share.number))
    apart = "free, evictable or kept back: no source tells these apart"
    return [Layer("used", "in use", share, filled), Layer("unknown", "the rest", level.free, 1 - filled, apart)]


def _rest(level: Level, layers: list[Layer]) -> Layer:
    """What is left over by the parts that are known."""
    known = tuple(layer.figure for layer in layers if layer.figure.known)
    left = max(0, level.size.number - sum(figure.number for figure in known))
    unknown = " or ".join(layer.label for layer in reversed(layers) if not layer.figure.known)
    figure = derived("rest", left, level.size.unit, (level.size, *known), "no source tells these apart")
    return Layer("unknown", unknown, figure, float(left) / float(level.size.number), figure.note)


def tank(level: Level, pool: Pool, numbers: Numbers) -> Html:
    layers = layers_of(level)
    unit = f"{pool.unit}" + (f", {pool.partitions} partitions" if pool.partitions > 1 else "")
    caption = tag("figcaption", tag("b", level.pool), tag("span", numbers.show(level.size), f" {unit}", class_="size"))
    rows = (_row(layer, numbers) for layer in layers)
    return tag("figure", caption, _picture(level, layers), tag("dl", *rows), class_="tank")


def _row(layer: Layer, numbers: Numbers) -> Html:
    hatched = layer.share is not None or layer.look == "unknown"
    swatch = tag("i", class_=f"swatch {layer.look}" if hatched else "swatch none")
    share = _percent(layer) if layer.figure.unit != "of the pool" else ""
    words = ratio(layer.figure) if layer.figure.unit == "of the pool" and layer.figure.known else ""
    value = tag("dd", numbers.show(layer.figure, words), tag("span", share, class_="share"))
    why = tag("dd", layer.why, class_="why") if layer.why else Html("")
    return tag("div", tag("dt", swatch, layer.label), value, why)


def _percent(layer: Layer) -> str:
    """`25%`, or `6 to 25%` where the size of the tank is a range; of the other parts of such a tank nothing."""
    if layer.share is None:
        return ""
    if layer.most is None or f"{layer.most:.0%}" == f"{layer.share:.0%}":
        return f"{layer.share:.0%}"
    return f"{100 * layer.share:.0f} to {layer.most:.0%}"


def _picture(level: Level, layers: list[Layer]) -> Html:
    told = ", ".join(f"{layer.label} {_percent(layer)}" for layer in layers if layer.share is not None)
    parts = joined(*_liquids(layers))
    body = void("rect", x=_SCALE, y=_TOP, width=_WIDTH, height=_HEIGHT, rx=14, class_="vessel")
    return tag(
        "svg", tag("title", f"{level.pool}: {told or 'how full it is, is not known'}"), body, parts, *_marks(layers),
        void("rect", x=_SCALE, y=_TOP, width=_WIDTH, height=_HEIGHT, rx=14, class_="wall"),
        viewBox=f"0 0 {_SCALE + _WIDTH + 2} {_HEIGHT + 2 * _TOP}", role="img", class_="picture",
    )  # fmt: skip


def _liquids(layers: list[Layer]) -> Iterator[Html]:
    """Rectangles that the vessel cuts to its shape. A tank of which nothing is known is hatched from top to bottom."""
    if all(layer.share is None for layer in layers):
        yield _liquid("unknown", 0.0, 1.0)
        return
    filled = 0.0
    for layer in layers:
        share = min(layer.share or 0.0, 1 - filled)
        if share > 0 and layer.look != "free":
            yield _liquid(layer.look, filled, share)
        filled += share


def _liquid(look: str, below: float, share: float) -> Html:
    height = share * _HEIGHT
    y = _TOP + _HEIGHT - (below * _HEIGHT + height)
    return void(
        "rect", x=_SCALE, y=y, width=_WIDTH, height=height, class_=f"liquid {look}", clip_path="url(#vessel)",
        fill=f"url(#hatch-{look})" if look in ("reserved", "unknown") else None,
    )  # fmt: skip


def _marks(layers: list[Layer]) -> Iterator[Html]:
    """A scale of quarters at the left, and how full it is at the level of what is in use; both ends of a range."""
    first = layers[0]
    ends: tuple[float, ...] = (
        () if first.look != "used" or first.share is None else (first.share, first.most or first.share)
    )
    surfaces = [share for n, share in enumerate(ends) if n == 0 or share - ends[0] > _APART]
    for quarter in range(5):
        y = _TOP + _HEIGHT * (1 - quarter / 4)
        yield void("line", x1=_SCALE - 5, x2=_SCALE - 1, y1=y, y2=y, class_="tick")
        if all(abs(share - quarter / 4) > _APART for share in surfaces):
            label = f"{quarter * 25}" if quarter % 2 == 0 else ""
            yield tag("text", label, x=_SCALE - 8, y=y + 3.5, class_="mark")
    for share in surfaces:
        y = _TOP + _HEIGHT * (1 - min(1.0, share))
        yield void("line", x1=_SCALE - 7, x2=_SCALE, y1=y, y2=y, class_="surface")
        yield tag("text", f"{share:.0%}", x=_SCALE - 8, y=y + 3.5, class_="mark full")


def patterns() -> Html:
    """The hatchings, and the shape that all vessels have, once for the page."""
    unknown = tag("pattern", void("path", d="M-2,10 L10,-2 M-2,6 L6,-2 M2,10 L10,2", class_="hatch"),
                  id="hatch-unknown", width=8, height=8, patternUnits="userSpaceOnUse")  # fmt: skip
    reserved = tag("pattern", void("rect", width=5, height=5, class_="ground"),
                   void("path", d="M-1,6 L6,-1", class_="hatch kept"),
                   id="hatch-reserved", width=5, height=5, patternUnits="userSpaceOnUse")  # fmt: skip
    vessel = tag("clipPath", void("rect", x=_SCALE, y=_TOP, width=_WIDTH, height=_HEIGHT, rx=14), id="vessel")
    return tag("svg", tag("defs", unknown, reserved, vessel), width=0, height=0, class_="patterns", aria_hidden="true")
