"""What a file says of a server beside what the server was started with."""

from __future__ import annotations

from collections.abc import Mapping

from ..engines.intended import OF_NO_MATTER
from ..engines.server import Server, Setting
from ..figure import Figure, missing

NO_MATTER = OF_NO_MATTER


def unequal(one: Figure, other: Figure) -> bool:
    """1 is 1.0; "True" is true."""
    values = (one.value, other.value)
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return values[0] != values[1]
    return str(one.value).lower() != str(other.value).lower()


def told(server: Server, name: str, stated: Figure, runs: str, asked: Figure) -> str:
    """`mem_fraction_static is 0.85 in FILE, it runs with 0.83`, and what is in effect where that is a third value."""
    setting = setting_of(server, name)
    effective = setting.effective if setting and setting.effective.known else None
    also = f", {plain(effective)} in effect" if effective and unequal(effective, asked) else ""
    return f"{name} is {plain(stated)} in {_where(stated)}, {runs} {plain(asked)}{also}"


def setting_of(server: Server, name: str) -> Setting | None:
    """The setting of an argument, where the engine has one."""
    names = (name, f"requested_{name}")  # of one that was not set
    return next((setting for setting in server.settings if setting.requested.name in names), None)


def plain(figure: Figure) -> str:
    value = figure.value
    if value is None:
        return "not set"
    return f"{value:,}" if type(value) is int else str(value)


def of(figures: Mapping[str, Figure], name: str) -> Figure:
    return figures.get(name) or missing(name, "", "not set")


def _where(figure: Figure) -> str:
    return figure.source.evidence if figure.source else "its files"
