"""Everything a report shows, in one value, so that the terminal and the JSON cannot say different things."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from ..capacity.request import Shape
from ..deployment import Answer, Deployment, describe, standard_answers
from ..engines.on_host import is_of_no_server
from ..engines.read import Unclaimed, failures, read
from ..evidence import Evidence, Failure
from ..findings.base import Finding
from ..findings.catalogue import findings


class Report(NamedTuple):
    deployment: Deployment
    answers: tuple[Answer, ...]
    findings: tuple[Finding, ...]
    failed: tuple[tuple[Evidence, Failure], ...]
    unclaimed: tuple[Unclaimed, ...]
    echoes: tuple[str, ...]  # how sizes that were typed were read
    read_at: datetime
    asked: tuple[str, ...] = ()  # labels of the rows that were asked for


def report_on(
    items: Sequence[Evidence], at: Sequence[int] = (), requests: Sequence[Shape] = (), echoes: Sequence[str] = ()
) -> Report:
    """Evidence in, everything that can be said of it out."""
    servers, unclaimed = read(items)
    others = tuple(item for item in items if is_of_no_server(item))
    deployment = Deployment(tuple(servers), tuple(item for item in items if item.failed), others)
    answers = standard_answers(deployment, at, requests) if deployment.workers else []
    return Report(
        deployment,
        tuple(answers),
        tuple(findings(deployment)),
        tuple(failures(items, servers)),
        tuple(unclaimed),
        tuple(echoes),
        min((item.read_at for item in items), default=datetime.now().astimezone()),
        (*(f"{length:,}" for length in at), *map(describe, requests)),
    )
