"""Which sources of an engine to trust for what: the most trusted first. Each engine states its own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Trust(NamedTuple):
    """Topics of evidence by trust: for what is in effect, for use now, and for what was asked for.

    `identity`: the quantities that two pieces of evidence of one server must agree in. `pool`: the figure that tells
    servers apart best. `resolved`: arguments that a running server prints as they are in effect. `loose`: quantities
    that sources may tell differently without disagreeing. `of_quantity`: another order for some quantities in effect,
    and `why` it is so.
    """

    effective: tuple[str, ...]
    usage: tuple[str, ...]
    asked: tuple[str, ...]
    identity: tuple[str, ...]
    pool: str
    resolved: frozenset[str] = frozenset()
    resolved_by: tuple[str, ...] = ()
    loose: frozenset[str] = frozenset()
    of_quantity: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    why: Mapping[str, str] = MappingProxyType({})
    asked_by: tuple[str, ...] = ("flags",)  # whose arguments are compared
