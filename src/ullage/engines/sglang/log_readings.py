"""A value of a log line as a figure, with the line it stands in."""

from __future__ import annotations

from dataclasses import replace

from ...evidence import Evidence
from ...figure import Figure, Source
from .. import events
from ..events import Event, Value
from .lines import Step


def source_of(evidence: Evidence, event: Event) -> Source:
    """The arguments are too long to be quoted."""
    return events.source_of(evidence, event, "server_args" if event.step is Step.ARGS else "")


def figure_of(name: str, value: Value, evidence: Evidence, event: Event) -> Figure:
    """The name of a graph's figure ends with its phase ("graph_gib_target_decode"), and has its unit before that."""
    quote = "server_args" if event.step is Step.ARGS else ""
    figure = events.figure_of(name, value, evidence, event, quote)
    if figure.unit or isinstance(value, str):
        return figure
    unit = "GiB" if "_gib_" in name else "s" if name.startswith("graph_s_") else ""
    return replace(figure, unit=unit)


def data_rank(rank: str) -> str:
    """ "DP1 TP6 EP6" -> "DP1"; a rank without a data-parallel part shares its pool with the others: ""."""
    return next((part for part in rank.split() if part.startswith("DP")), "")
