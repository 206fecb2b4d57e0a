"""Every figure that a finding shows as its evidence can be explained, and so can what the findings name."""

from __future__ import annotations

import pytest

from ullage.findings.base import CATALOGUE
from ullage.findings.glossary import GLOSSARY
from ullage.report.model import report_on

from .scenario import Scenario
from .test_rules import EVERY, SCENARIOS

_BEFORE = ("first_", "gauge_", "sglang:", "vllm:")  # the same quantity at the first line read, or on the metrics page


def explained(name: str) -> bool:
    bare = next((name.removeprefix(p) for p in _BEFORE if name.startswith(p)), name)
    return bare in GLOSSARY or name.startswith("healthy ")


@pytest.mark.parametrize(("rule", "scenario"), EVERY)
def test_the_evidence_of_a_finding_can_be_explained(rule: str, scenario: Scenario) -> None:
    findings = [finding for finding in report_on(scenario.fires).findings if finding.id == rule]
    assert [f.name for finding in findings for f in finding.evidence if not explained(f.name)] == []


def test_no_figure_is_called_like_a_finding() -> None:
    assert not GLOSSARY.keys() & CATALOGUE.keys()
    assert SCENARIOS.keys() == CATALOGUE.keys()


@pytest.mark.parametrize("name", sorted(GLOSSARY))
def test_an_explanation_is_sentences(name: str) -> None:
    text = GLOSSARY[name]
    assert text.endswith(".")
    assert "  " not in text
