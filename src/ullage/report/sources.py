"""The tree behind every number: value, kind, where it was read, and what it was computed from."""

from __future__ import annotations

from collections.abc import Iterator

from ..figure import Figure, Kind
from .model import Report
from .words import with_unit


def source_lines(report: Report) -> Iterator[str]:
    """Lines of text, indented by depth."""
    for answer in report.answers:
        if answer.chain:
            yield from _titled(
                f"{answer.label}, prefill to decode", (answer.chain.admits, answer.chain.safe, answer.chain.in_prefill)
            )
        else:
            for name, found in answer.by_server.items():
                yield from _titled(f"{answer.label} on {name}", (found.admits, found.safe))
    for server in report.deployment.servers:
        settings = tuple(f for s in server.settings for f in (s.requested, s.effective))
        figures = {f.name: f for f in (*server.usage.values(), *server.figures.values(), *settings) if f.known}
        yield from _titled(server.name, tuple(figures.values()))


def _titled(title: str, figures: tuple[Figure, ...]) -> Iterator[str]:
    yield title
    for figure in figures:
        yield from tree(figure, 1)


def tree(figure: Figure, depth: int = 0) -> Iterator[str]:
    """One figure and, below it, its inputs."""
    yield f"{'  ' * depth}{figure.name} = {with_unit(figure)}  {_ground(figure)}"
    for part in figure.inputs:
        yield from tree(part, depth + 1)


def _ground(figure: Figure) -> str:
    if figure.kind is Kind.MISSING:
        return f"({figure.note})"
    where = f"{figure.kind.value}" + (f", {figure.source}" if figure.source else "")
    when = f", at {figure.observed_at}" if figure.observed_at else ""
    return f"({where}{when}{'; ' + figure.note if figure.note else ''})"
