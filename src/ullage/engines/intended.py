"""What an ullage.toml says a server is to run with, in the names of its engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ..evidence import INTENDED, Argv, Evidence
from ..figure import Kind, Source, read
from .on_host import Asked
from .programs import command_of, launched, of_flags
from .server import Server

_FLAG = re.compile(r"--?[A-Za-z]")
NOT_READ = "flags_not_read"
OF_NO_MATTER = frozenset(["api_key", "admin_api_key", "log_level", "host"])  # to what a server holds


def with_intended(server: Server, items: Sequence[Evidence], asked_of: Asked) -> Server:
    """As it was where none was stated for its target."""
    targets = {item.origin.target for item in server.evidence}
    item = next((i for i in items if i.topic == INTENDED and i.origin.target in targets), None)
    if item is None:
        return server
    stated = _whole(item, server.engine)
    intended = {name: figure for name, figure in asked_of(stated).items() if figure.kind is Kind.CONFIGURED}
    unread = _unread(stated, asked_of)
    if unread:
        intended[NOT_READ] = read(NOT_READ, ", ".join(unread), "", Source(item.place))
    return replace(server, intended=intended, evidence=(*server.evidence, stated))


def _unread(item: Evidence, asked_of: Asked) -> list[str]:
    """Flags of which the engine's reader makes nothing: it does not know them, or their value is none."""
    words = launched(item.content.words)[1] if isinstance(item.content, Argv) else ()
    head = command_of(words).head
    places = [n for n, word in enumerate(words) if n >= head and _FLAG.match(word)]
    found = []
    for begin, end in pairwise([*places, len(words)]):
        bare = words[: places[0]]
        told = [asked_of(item._replace(content=Argv(some))) for some in (bare, (*bare, *words[begin:end]))]
        if told[0] == told[1]:
            found.append(words[begin].partition("=")[0])
    return [name for name in dict.fromkeys(found) if name.lstrip("-").replace("-", "_") not in OF_NO_MATTER]


def _whole(item: Evidence, engine: str) -> Evidence:
    """Flags alone are those of the engine that answers."""
    if not isinstance(item.content, Argv) or command_of(item.content.words).program:
        return item
    words = item.content.words
    is_flags = bool(words) and words[0].startswith("-")
    return item._replace(content=item.content._replace(words=of_flags(engine, words))) if is_flags else item
