"""Every figure that a server can have can be explained, and so can what the findings name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass

import pytest

from tests.report.pages import REPORTS
from ullage.evidence import Evidence
from ullage.figure import Figure
from ullage.findings.base import CATALOGUE
from ullage.findings.explanations import explanation
from ullage.findings.glossary import GLOSSARY, SUBJECTS
from ullage.report.model import report_on

from .figure_names import literals, literals_of, of_lines, tables
from .scenario import Scenario
from .test_rules import EVERY, SCENARIOS


def unexplained(names: Iterable[str]) -> list[str]:
    """Write what these are into a glossary: what it is, its unit, who states it where, and what it decides."""
    return [name for name in sorted(set(names)) if not explanation(name)]


@pytest.mark.parametrize("names", [tables, of_lines, literals])
def test_every_name_that_a_figure_can_have_is_explained(names: Callable[[], Iterable[str]]) -> None:
    found = set(names())
    assert len(found) > 150
    assert unexplained(found) == []


def test_what_stays_inside_a_reader_is_no_figure() -> None:
    inside = {"failed_room", "graph_sizes", "config", "arguments", "spawned_port", "commit", "expired_request"}
    assert of_lines() & inside == set()


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    return derived('new', 1, '', ())",
        "def f(figures):\n    return figures['old'].renamed('new')",
        "def f(size):\n    return in_bytes(size, 'new')",
        "def f():\n    return readings([('new', 1, Source(place))])",
        "def f():\n    for name in ('new',):\n        yield Figure(name, 1, '', READ)",
        "_TABLE = ((1, 'new'),)\ndef f():\n    return [missing(name, '', 'why') for _, name in _TABLE]",
        "def helper(figures, name):\n    return read(name, 1)\ndef f():\n    return helper({}, 'new')",
        "def f():\n    return outer('new')\ndef inner(n):\n    return default(n)\ndef outer(m):\n    return inner(m)",
    ],
)
def test_a_name_is_found_however_its_figure_is_made(source: str) -> None:
    assert set(literals_of(source)) == {"new"}


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_every_figure_of_a_page_is_explained(name: str) -> None:
    report = REPORTS[name]()
    names = {figure.name for figure in figures_in((report.deployment, report.answers))}
    assert names
    assert unexplained(names) == []


@pytest.mark.parametrize(("rule", "scenario"), EVERY)
def test_every_figure_where_a_finding_speaks_is_explained(rule: str, scenario: Scenario) -> None:
    report = report_on(scenario.fires)
    shown = [f.name for finding in report.findings if finding.id == rule for f in finding.evidence]
    assert shown
    assert unexplained([*shown, *(f.name for f in figures_in((report.deployment, report.answers)))]) == []


def figures_in(thing: object) -> Iterator[Figure]:
    """All figures that something holds, with those that they were made of; of a mapping by their keys too."""
    if isinstance(thing, Figure):
        yield from thing.walk()
    elif isinstance(thing, Mapping):
        yield from (part.renamed(name) for name, part in thing.items() if isinstance(part, Figure))
        yield from figures_in([*thing.values()])
    elif isinstance(thing, tuple | list) and not isinstance(thing, Evidence):
        yield from (figure for part in thing for figure in figures_in(part))
    elif is_dataclass(thing):
        yield from (figure for field in fields(thing) for figure in figures_in(getattr(thing, field.name)))


def test_a_figure_is_told_once() -> None:
    told = Counter(name.lower() for subject in SUBJECTS for name in subject)
    assert [name for name, times in told.items() if times > 1] == []


def test_no_figure_is_called_like_a_finding() -> None:
    assert not GLOSSARY.keys() & CATALOGUE.keys()
    assert SCENARIOS.keys() == CATALOGUE.keys()


@pytest.mark.parametrize("name", sorted(GLOSSARY))
def test_an_explanation_is_sentences(name: str) -> None:
    text = GLOSSARY[name]
    assert text.endswith(".")
    assert "  " not in text
    assert "{" not in text
    assert not text.partition(": ")[2].startswith("the same")
    assert not text.startswith("The same")
