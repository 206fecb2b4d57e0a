"""What a rule is tested with: evidence on which it speaks, and evidence that differs little, on which it does not."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.evidence import Evidence
from ullage.findings.base import Severity

Items = tuple[Evidence, ...]


@dataclass(frozen=True)
class Scenario:
    """`says`: words and figures in the sentence. `advice`: a flag or an action in the advice."""

    fires: Items
    silent: Items
    says: tuple[str, ...]
    advice: str
    severity: Severity


Scenarios = dict[str, tuple[Scenario, ...]]
