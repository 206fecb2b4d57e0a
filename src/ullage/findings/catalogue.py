"""All findings of a deployment, worst first."""

from __future__ import annotations

from ..deployment import Deployment
from . import (  # noqa: F401 - importing enters their rules
    access,
    blocks,
    host,
    limits,
    load,
    memory,
    pools,
    queues,
    refusal,
    roles,
    router,
    running,
    slots,
    spec,
    starts,
    units,
)
from .base import CATALOGUE, Finding

# What hurts first, within one severity.
_SUBJECTS = (
    *("running", "units", "refusal", "host", "load", "queues", "slots", "roles"),
    *("pools", "blocks", "limits", "memory", "router", "starts", "spec", "access"),
)
_OF_THE_HOST = ("running", "units")  # subjects that look at all servers of a host together


def findings(deployment: Deployment) -> list[Finding]:
    """Of each part by itself: servers that have nothing to do with each other are not compared."""
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
        for part in ((deployment,) if rule.subject in _OF_THE_HOST else deployment.parts)
        for hit in rule.check(part)
    ]
    return sorted(found, key=lambda f: (f.severity.rank, _SUBJECTS.index(f.subject)))
