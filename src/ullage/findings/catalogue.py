"""All findings of a deployment, worst first."""

from __future__ import annotations

from ..deployment import Deployment
from . import access, host, limits, load, pools, router, slots, starts  # noqa: F401 - importing enters their rules
from .base import CATALOGUE, Finding

_SUBJECTS = (
    "load",
    "host",
    "slots",
    "pools",
    "limits",
    "router",
    "starts",
    "access",
)  # what hurts first, within one severity


def findings(deployment: Deployment) -> list[Finding]:
    found = [
        Finding(
            rule.id,
            rule.subject,
            hit.severity or rule.severity,
            hit.confidence,
            hit.where,
            hit.says,
            hit.evidence,
            hit.advice,
        )
        for rule in CATALOGUE.values()
        for hit in rule.check(deployment)
    ]
    return sorted(found, key=lambda f: (f.severity.rank, _SUBJECTS.index(f.subject)))
