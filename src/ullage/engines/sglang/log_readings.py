"""A value of a log line as a figure, with the line it stands in."""

from __future__ import annotations

from ...evidence import Evidence, Log
from ...figure import Figure, Kind, Source
from .lines import Event, Step
from .quantities import unit_of


def source_of(evidence: Evidence, event: Event) -> Source:
    log = evidence.content
    unit = "line" if isinstance(log, Log) and log.numbered else "byte"
    stream = f"{evidence.place} [{evidence.origin.stream}]" if evidence.origin.stream else evidence.place
    return Source(
        stream, f"{unit} {event.line.number}", event.line.text[:160] if event.step is not Step.ARGS else "server_args"
    )


def figure_of(name: str, value: int | float | str, evidence: Evidence, event: Event) -> Figure:
    return Figure(name, value, unit_of(name), Kind.READ, source_of(evidence, event), observed_at=event.time or None)


def data_rank(rank: str) -> str:
    """ "DP1 TP6 EP6" -> "DP1"; a rank without a data-parallel part shares its pool with the others: ""."""
    return next((part for part in rank.split() if part.startswith("DP")), "")
