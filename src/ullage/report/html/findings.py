"""The findings: what is wrong, how sure that is, what to do, and the figures it stands on."""

from __future__ import annotations

from collections.abc import Sequence

from ...findings.base import CATALOGUE, Finding
from ..rows import grouped
from ..words import with_unit
from .markup import Html, joined, tag
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
    figures = [figure for finding in group for figure in finding.evidence]
    evidence = (tag("li", f"{f.name} ", numbers.show(f, with_unit(f))) for f in dict.fromkeys(figures))
    return tag(
        "li",
        tag("h3", severity, CATALOGUE[first.id].title),
        tag("p", f"{where}; {first.confidence.value} confidence; ", tag("code", first.id), class_="where-found"),
        tag("p", first.says),
        tag("p", first.advice, class_="advice"),
        tag("ul", *evidence, class_="evidence"),
        _page(first.id),
    )


def _page(id: str) -> Html:
    """What `ullage explain` says of it."""
    paragraphs = (tag("p", " ".join(part.split()).replace("`", "")) for part in CATALOGUE[id].page.split("\n\n"))
    return tag("details", tag("summary", "What it means"), joined(*paragraphs))
