"""Every number is a button: its source on hover, and the tree behind it in a panel of its own on click or Enter."""

from __future__ import annotations

from ...figure import Figure, Kind
from ...findings.explanations import explanation
from ...findings.labels import KINDS
from ..words import unit_of, value_of
from .markup import Html, joined, tag

_HOVER = 300  # letters of a source that are shown on hover


class Numbers:
    """The figures of a page, each with one panel however often it is shown."""

    def __init__(self) -> None:
        self._ids: dict[Figure, str] = {}

    def show(self, figure: Figure, words: str = "", *, unit: bool = False) -> Html:
        """The figure as a button; `words` instead of its bare value."""
        panel = self._ids.setdefault(figure, f"f{len(self._ids)}")
        shown = words or value_of(figure)
        button = tag(
            "button",
            shown,
            type="button",
            class_=f"n {figure.kind.value}",
            popovertarget=panel,
            title=_hover(figure),
        )
        return joined(button, f" {unit_of(figure)}") if unit and figure.known and figure.unit else button

    def panels(self) -> Html:
        return joined(*(_panel(figure, id) for figure, id in self._ids.items()))


def legend() -> Html:
    """The kinds as they look."""
    samples = (
        joined(tag("dt", tag("span", _sample(kind), class_=f"n {kind.value}")), tag("dd", f"{kind.value}: {meaning}"))
        for kind, meaning in KINDS.items()
    )
    return tag("dl", *samples, class_="kinds")


def _sample(kind: Kind) -> str:
    return "not known" if kind is Kind.MISSING else "1,024"


def _hover(figure: Figure) -> str:
    if figure.kind is Kind.MISSING:
        return f"not known: {figure.note}"[:_HOVER]
    where = f" in {figure.source}" if figure.source else f": {figure.note}" if figure.note else ""
    return f"{figure.name}, {figure.kind.value}{where}"[:_HOVER]


def _panel(figure: Figure, id: str) -> Html:
    close = tag(
        "button", "Close", type="button", class_="close", popovertarget=id, popovertargetaction="hide", autofocus=True
    )
    text = explanation(figure.name)
    meaning = tag("p", text, class_="meaning") if text else Html("")
    head = tag("header", tag("h3", figure.name, id=f"{id}h"), close)
    return tag(
        "div", head, meaning, tag("ul", _tree(figure)), id=id, class_="source", popover="auto", role="dialog",
        aria_labelledby=f"{id}h",
    )  # fmt: skip


def _tree(figure: Figure) -> Html:
    """The value with its kind, where it was read, its note, and below it all that it was computed from."""
    value = tag("b", value_of(figure), class_=f"v {figure.kind.value}")
    unit = f" {unit_of(figure)}" if figure.known and figure.unit else ""
    lines = [tag("p", tag("span", figure.name, class_="name"), " ", value, unit, " ", _kind(figure))]
    if figure.source:
        where = f"{figure.source.evidence} {figure.source.place}".strip()
        lines.append(tag("p", tag("code", where), class_="where"))
        if figure.source.quote:
            lines.append(tag("p", tag("q", tag("code", figure.source.quote)), class_="where"))
    if figure.note:
        lines.append(tag("p", figure.note, class_="note"))
    if figure.observed_at:
        lines.append(tag("p", f"observed at {figure.observed_at}", class_="note"))
    if figure.inputs:
        lines.append(tag("ul", *map(_tree, figure.inputs)))
    return tag("li", *lines)


def _kind(figure: Figure) -> Html:
    return tag("span", figure.kind.value, class_="kind", title=KINDS[figure.kind])
