"""The tree behind every number: value, kind, where it was read, and what it was computed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..figure import Figure, Kind, Source
from .model import Report
from .words import with_unit


def source_lines(report: Report) -> Iterator[str]:
    """Lines of text, indented by depth. The words of a log line are quoted where they come first."""
    trees = Trees()
    for answer in report.answers:
        if answer.chain:
            found = (answer.chain.admits, answer.chain.safe, answer.chain.in_prefill)
            yield from trees.under(f"{answer.label}, prefill to decode", answer.chain.why, found)
            continue
        for name, limits in answer.by_server.items():
            yield from trees.under(f"{answer.label} on {name}", limits.why, (limits.admits, limits.safe))
    for server in report.deployment.servers:
        settings = [f for s in server.settings for f in (s.requested, s.effective)]
        now = (*server.usage.values(), server.running, *(queue.waiting for queue in server.queues))
        figures = {f.name: f for f in (*now, *server.figures.values(), *settings) if f.known}
        yield from trees.under(server.name, "", figures.values())
        for level in server.levels:
            yield from trees.under(f"{level.pool} of {server.name}", "", (level.room, level.evictable, level.free))


class Trees:
    """Prints figures with their inputs below them, and remembers which sources were quoted."""

    def __init__(self) -> None:
        self._quoted: set[Source] = set()

    def under(self, title: str, why: str, figures: Iterable[Figure]) -> Iterator[str]:
        yield title
        if why:
            yield f"  {why}"
        for figure in figures:
            yield from self._tree(figure, 1)

    def _tree(self, figure: Figure, depth: int) -> Iterator[str]:
        yield f"{'  ' * depth}{figure.name} = {with_unit(figure)}  {self._ground(figure)}"
        for part in figure.inputs:
            yield from self._tree(part, depth + 1)

    def _ground(self, figure: Figure) -> str:
        if figure.kind is Kind.MISSING:
            return f"({figure.note})"
        where = f", {self._place(figure.source)}" if figure.source else ""
        when = f", at {figure.observed_at}" if figure.observed_at else ""
        return f"({figure.kind.value}{where}{when}{'; ' + figure.note if figure.note else ''})"

    def _place(self, source: Source) -> str:
        if source in self._quoted:
            return f"{source.evidence} {source.place}".strip()
        self._quoted.add(source)
        return str(source)
