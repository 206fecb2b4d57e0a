"""What a finding is, and the catalogue of all rules. A rule's docstring is its documentation page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from ..deployment import Deployment
from ..figure import Figure, Kind


class Severity(str, Enum):
    ERROR = "error"  # requests that the operator expects to be served are not
    WARNING = "warning"  # works now, and will surprise under load
    INFO = "info"  # good to know

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Confidence(str, Enum):
    HIGH = "high"  # every figure it stands on was read, asked for, or computed from such
    MEDIUM = "medium"  # one of them is a default or an inference
    LOW = "low"  # it holds only if something that is not known is so


_ASSUMED = (Kind.DEFAULT, Kind.INFERRED, Kind.PREDICTED)


class Hit(NamedTuple):
    """What a rule found in one place."""

    where: str
    says: str
    evidence: tuple[Figure, ...]
    advice: str
    severity: Severity | None = None  # where it differs from the rule's
    doubtful: bool = False  # it holds only if something that is not known is so

    @property
    def confidence(self) -> Confidence:
        """By the weakest of the figures it stands on."""
        if self.doubtful:
            return Confidence.LOW
        assumed = any(figure.kind in _ASSUMED for top in self.evidence for figure in top.walk())
        return Confidence.MEDIUM if assumed else Confidence.HIGH


class Finding(NamedTuple):
    """A hit with the rule it comes from."""

    id: str
    subject: str
    severity: Severity
    confidence: Confidence
    where: str
    says: str
    evidence: tuple[Figure, ...]
    advice: str


Check = Callable[[Deployment], Iterator[Hit]]


class Rule(NamedTuple):
    id: str
    subject: str
    severity: Severity
    title: str
    check: Check

    @property
    def page(self) -> str:
        import inspect

        return inspect.cleandoc(self.check.__doc__ or "")


CATALOGUE: dict[str, Rule] = {}


def rule(id: str, severity: Severity, title: str) -> Callable[[Check], Check]:
    """Enters a check into the catalogue; its subject is the module it stands in."""

    def enter(check: Check) -> Check:
        if id in CATALOGUE:
            raise ValueError(f"two rules are called {id}")
        CATALOGUE[id] = Rule(id, check.__module__.rsplit(".", 1)[-1], severity, title, check)
        return check

    return enter


def in_words(count: Figure) -> str:
    """`8`, or `1 to 4` where it is a range."""
    return f"{count.count:,}" if count.least == count.most else f"{count.least:,.0f} to {count.most:,.0f}"
