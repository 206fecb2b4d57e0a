"""Findings about an ullage.toml: what it says a server is to run with, against what the server runs with."""

from __future__ import annotations

from collections.abc import Iterator

from ..deployment import Deployment
from ..engines.intended import NOT_READ
from ..engines.server import Server
from ..figure import Figure, Kind
from .base import Hit, Severity, rule
from .compared import NO_MATTER, plain, setting_of, told, unequal

_STATED = frozenset([Kind.READ, Kind.CONFIGURED, Kind.DERIVED])


@rule("spec-differs", Severity.WARNING, "What runs is not what the ullage.toml says")
def spec_differs(deployment: Deployment) -> Iterator[Hit]:
    """The `flags` of a target in an `ullage.toml` say what the server is to run with. It was started with something
    else: with an older configuration, by hand, or another server answers there by now.

    Only what `flags` names is compared, and only flags that bear on capacity.
    """
    for server in deployment.servers:
        pairs = [(name, stated, asked) for name, stated in _compared(server) if (asked := _runs_with(server, name))]
        differing = [(name, stated, asked) for name, stated, asked in pairs if unequal(stated, asked)]
        if differing:
            yield Hit(
                server.name,
                "; ".join(told(server, name, stated, "it runs with", asked) for name, stated, asked in differing),
                tuple(figure for _, *both in differing for figure in both if figure.known),
                "restart it with these flags, or write what it runs with into the ullage.toml",
            )


@rule("spec-not-compared", Severity.INFO, "What the ullage.toml says could not be compared with what runs")
def spec_not_compared(deployment: Deployment) -> Iterator[Hit]:
    """Nothing that was read of the server states what it was started with, or what is in effect, for some of the
    `flags` in the `ullage.toml`, or they are flags that are not compared, misspelt ones among them. That no difference
    is shown for these proves nothing.

    The start-up log states them all; SGLang's server info does too.
    """
    for server in deployment.servers:
        unread = server.intended.get(NOT_READ)
        if unread:
            yield Hit(
                server.name,
                f"not compared, for Ullage does not read them, or their values are none: {unread.value}",
                (unread,),
                "look at how they are written",
            )
        unknown = [(name, stated) for name, stated in _compared(server) if _runs_with(server, name) is None]
        if unknown:
            names = ", ".join(f"{name} ({plain(stated)})" for name, stated in unknown)
            yield Hit(
                server.name,
                f"not compared, for nothing that was read states what it runs with: {names}",
                tuple(stated for _, stated in unknown),
                "add its whole start-up log as a target",
            )


def _compared(server: Server) -> list[tuple[str, Figure]]:
    return [(name, figure) for name, figure in server.intended.items() if name not in (*NO_MATTER, NOT_READ)]


def _runs_with(server: Server, name: str) -> Figure | None:
    """What it was started with, else what is in effect; None where neither was read."""
    setting = setting_of(server, name)
    known = server.figures.get(name)
    stated = (setting.requested if setting else None, known, setting.effective if setting else None)
    return next((figure for figure in stated if figure and figure.known and figure.kind in _STATED), None)
