"""What an ullage.toml says a server is to run with, in the names of its engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..evidence import INTENDED, Argv, Evidence
from .on_host import Asked
from .programs import command_of, of_flags
from .server import Server


def with_intended(server: Server, items: Sequence[Evidence], asked_of: Asked) -> Server:
    """As it was where none was stated for its target."""
    targets = {item.origin.target for item in server.evidence}
    item = next((i for i in items if i.topic == INTENDED and i.origin.target in targets), None)
    if item is None:
        return server
    stated = _whole(item, server.engine)
    return replace(server, intended=asked_of(stated), evidence=(*server.evidence, stated))


def _whole(item: Evidence, engine: str) -> Evidence:
    """Flags alone are those of the engine that answers."""
    if not isinstance(item.content, Argv) or command_of(item.content.words).program:
        return item
    words = item.content.words
    is_flags = bool(words) and words[0].startswith("-")
    return item._replace(content=item.content._replace(words=of_flags(engine, words))) if is_flags else item
