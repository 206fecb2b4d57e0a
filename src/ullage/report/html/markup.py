"""Markup from Python: text is escaped unless it is markup already."""

from __future__ import annotations

import json
import re
from html import escape

# What no HTML document may hold, and what would turn the direction of the words around it.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_FLAG = re.compile(r"((?<![^\s(])--?[A-Za-z][\w-]{0,24}(?![\w-]))")


class Html(str):
    """A piece of markup."""

    __slots__ = ()


Attribute = str | int | float | bool | None


def text(words: str) -> Html:
    """Words as markup; a letter that may not stand there becomes the sign for such."""
    return words if isinstance(words, Html) else Html(escape(_CONTROL.sub("\ufffd", words)))


def tag(name: str, *children: str, **attributes: Attribute) -> Html:
    """`tag("td", "a < b", class_="n")`. An attribute that is None or False is left out, True stands alone."""
    given = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Html(f"<{name}{given}>{joined(*children)}</{name}>")


def void(name: str, **attributes: Attribute) -> Html:
    """An element that has no content: `<br>`, `<rect/>`."""
    given = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Html(f"<{name}{given}/>")


def joined(*children: str) -> Html:
    return Html("".join(map(text, children)))


def prose(words: str) -> Html:
    """A sentence whose flags (`-kvu`) do not break after their hyphens."""
    parts = _FLAG.split(words)
    return joined(*(tag("span", part, class_="flag") if _FLAG.fullmatch(part) else part for part in parts))


def data(value: object) -> Html:
    """JSON inside a script element: no `<` in it can end the element."""
    return Html(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026"))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{text(f"{value:.5g}" if isinstance(value, float) else str(value))}"'
