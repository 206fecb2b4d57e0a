"""The findings: what is wrong, how sure that is, what to do, and the figures it stands on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...figure import Figure
from ...findings.base import CATALOGUE, Finding
from ..rows import grouped
from ..words import with_unit
from .markup import Html, joined, prose, tag
from .numbers import Numbers


def findings_section(findings: Sequence[Finding], numbers: Numbers) -> Html:
    groups = grouped(findings)
    heading = tag("h2", f"Findings ({len(groups)})" if groups else "Findings: none")
    if not groups:
        return tag("section", heading, id="findings")
    return tag(
        "section", heading, tag("ul", *(_finding(group, numbers) for group in groups), class_="findings"), id="findings"
    )


def _finding(group: Sequence[Finding], numbers: Numbers) -> Html:
    first = group[0]
    severity = tag("span", first.severity.value, class_=f"severity {first.severity.value}")
    where = ", ".join(finding.where for finding in group)
    evidence = (
        tag("li", f"{f.name} ", numbers.show(f, with_unit(f)), tag("small", f" {of}") if of else "")
        for f, of in _whose(group)
    )
    return tag(
        "li",
        tag("h3", severity, CATALOGUE[first.id].title),
        tag("p", f"{where}; {first.confidence.value} confidence; ", tag("code", first.id), class_="where-found"),
        tag("p", prose(first.says)),
        tag("p", prose(first.advice), class_="advice"),
        tag("ul", *evidence, class_="evidence"),
        _page(first.id),
    )


def _whose(group: Sequence[Finding]) -> list[tuple[Figure, str]]:
    """Each figure once, with the server it is of, or where it was read, where there are several of that name."""
    found: dict[Figure, list[str]] = {}
    for finding in group:
        for figure in finding.evidence:
            found.setdefault(figure, []).append(finding.where)
    names = Counter(figure.name for figure in found)
    if len(group) > 1:
        return [(figure, f"of {', '.join(dict.fromkeys(places))}") for figure, places in found.items()]
    return [(f, f"in {f.source.evidence}" if names[f.name] > 1 and f.source else "") for f in found]


def _page(id: str) -> Html:
    """What `ullage explain` says of it."""
    paragraphs = (tag("p", prose(" ".join(part.split()).replace("`", ""))) for part in CATALOGUE[id].page.split("\n\n"))
    return tag("details", tag("summary", "What it means"), joined(*paragraphs))
