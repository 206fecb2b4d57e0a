"""What a file says of a server beside what the server was started with."""

from __future__ import annotations

from collections.abc import Mapping

from ..engines.server import Server, Setting
from ..figure import Figure, missing

NO_MATTER = frozenset(["api_key", "admin_api_key", "log_level", "host"])


def unequal(one: Figure, other: Figure) -> bool:
    return str(one.value).lower() != str(other.value).lower()


def told(server: Server, name: str, stated: Figure, runs: str, asked: Figure) -> str:
    """`mem_fraction_static is 0.85 in FILE, it runs with 0.83`, and what is in effect where that is a third value."""
    setting = setting_of(server, name)
    effective = setting.effective if setting and setting.effective.known else None
    also = f", {plain(effective)} in effect" if effective and unequal(effective, asked) else ""
    return f"{name} is {plain(stated)} in {_where(stated)}, {runs} {plain(asked)}{also}"


def setting_of(server: Server, name: str) -> Setting | None:
    """The setting of an argument, where the engine has one."""
    return next((setting for setting in server.settings if setting.requested.name == name), None)


def plain(figure: Figure) -> str:
    value = figure.value
    if value is None:
        return "not set"
    return f"{value:,}" if type(value) is int else str(value)


def of(figures: Mapping[str, Figure], name: str) -> Figure:
    return figures.get(name) or missing(name, "", "not set")


def _where(figure: Figure) -> str:
    return figure.source.evidence if figure.source else "its files"
