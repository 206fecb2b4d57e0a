"""What bears on all figures of a server: how it was read, and whether it is one server at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..evidence import Evidence, Samples
from .replicas import answers_that_differ
from .server import Disagreement, Role, Server


def remarked(servers: Sequence[Server], items: Sequence[Evidence]) -> list[Server]:
    """`items`: all evidence, also what was asked for again."""
    differing = answers_that_differ(items)
    return [_as_it_was_read(_with_page_alone(_with_replicas(s, differing), servers)) for s in servers]


def _with_replicas(server: Server, differing: Mapping[str, tuple[Disagreement, ...]]) -> Server:
    """A router hands some questions on to its workers, each time to another: that is no finding."""
    targets = dict.fromkeys(item.origin.target for item in server.evidence)
    found = tuple(quantity for target in targets for quantity in differing.get(target, ()))
    if not found or server.role is Role.ROUTER:
        return server
    several = max(len(quantity.figures) for quantity in found)
    note = f"answers differ from call to call: at least {several} servers answer at this URL, and the figures mix them"
    return replace(server, differing=found, notes=(note, *server.notes))


def _with_page_alone(server: Server, servers: Sequence[Server]) -> Server:
    """A metrics page that was named by itself says how it is told whose it is."""
    if not _is_page_alone(server) or all(_is_page_alone(other) for other in servers):
        return server
    note = "only a metrics page was read here: --metrics SERVER=URL says which server it is of"
    return replace(server, notes=(*server.notes, note))


def _is_page_alone(server: Server) -> bool:
    live = server.name.startswith("http") and server.role is not Role.ROUTER
    return live and all(isinstance(item.content, Samples) for item in server.evidence)


def _as_it_was_read(server: Server) -> Server:
    remarks = dict.fromkeys(item.remark for item in server.evidence if item.remark)
    return replace(server, notes=(*server.notes, *remarks)) if remarks else server
