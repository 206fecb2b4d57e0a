"""Every rule of the catalogue, through the public path: a case where it speaks, and one where it is rightly silent."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.evidence import argv, log, start, ungrounded
from ullage.figure import Figure, Kind, Source, derived
from ullage.findings.base import CATALOGUE, Confidence, Finding, Hit
from ullage.report.model import report_on

from .scenario import Items, Scenario, Scenarios

SCENARIOS: Scenarios = {}
for subject in sorted({rule.subject for rule in CATALOGUE.values()}):
    SCENARIOS |= import_module(f".{subject}", __package__).SCENARIOS
EVERY = [pytest.param(i, s, id=f"{i}-{n}") for i, several in SCENARIOS.items() for n, s in enumerate(several, 1)]


def found(items: Items, rule: str) -> list[Finding]:
    report = report_on(items)
    assert report.deployment.servers
    assert not report.unclaimed
    return [finding for finding in report.findings if finding.id == rule]


@pytest.mark.parametrize("rule", sorted(CATALOGUE))
def test_every_rule_has_a_case_where_it_speaks_and_one_where_it_is_silent(rule: str) -> None:
    assert SCENARIOS.get(rule), f"write a scenario for {rule} in tests/findings/{CATALOGUE[rule].subject}.py"
    assert all(scenario.fires and scenario.silent for scenario in SCENARIOS[rule])


def test_every_scenario_is_of_a_rule() -> None:
    assert SCENARIOS.keys() <= CATALOGUE.keys()


@pytest.mark.parametrize(("rule", "scenario"), EVERY)
def test_it_speaks(rule: str, scenario: Scenario) -> None:
    told = "\n".join(finding.says for finding in found(scenario.fires, rule))
    assert [words for words in scenario.says if words not in told] == [], told


@pytest.mark.parametrize(("rule", "scenario"), EVERY)
def test_it_advises(rule: str, scenario: Scenario) -> None:
    findings = found(scenario.fires, rule)
    assert any(scenario.advice in finding.advice for finding in findings), [f.advice for f in findings]
    assert {finding.severity for finding in findings} == {scenario.severity}
    assert all(finding.where and finding.subject == CATALOGUE[rule].subject for finding in findings)


@pytest.mark.parametrize(("rule", "scenario"), EVERY)
def test_its_evidence_says_where_it_comes_from(rule: str, scenario: Scenario) -> None:
    for finding in found(scenario.fires, rule):
        assert any(figure.known for figure in finding.evidence)
        assert ungrounded(finding.evidence) == []


@pytest.mark.parametrize(("rule", "scenario"), EVERY)
def test_it_keeps_silent(rule: str, scenario: Scenario) -> None:
    assert [finding.says for finding in found(scenario.silent, rule)] == []


@pytest.mark.parametrize(
    ("kind", "doubtful", "confidence"),
    [
        (Kind.READ, False, Confidence.HIGH),
        (Kind.CONFIGURED, False, Confidence.HIGH),
        (Kind.DEFAULT, False, Confidence.MEDIUM),
        (Kind.INFERRED, False, Confidence.MEDIUM),
        (Kind.READ, True, Confidence.LOW),
    ],
)
def test_a_finding_is_as_sure_as_the_weakest_figure_below_it(
    kind: Kind, doubtful: bool, confidence: Confidence
) -> None:
    figure = derived("sum", 3, "", (Figure("part", 3, "", kind, Source("x", "line 1")),), "a sum")
    assert Hit("x", "", (figure,), "", doubtful=doubtful).confidence is confidence


def test_a_sound_deployment_has_no_findings() -> None:
    bounded = '{"max_new_tokens": 2048}'
    common = {"context": 131_072, "running": 4096, "page_size": 64, "enable_metrics": True}
    prefill = start(1_000_000, **common, disaggregation_mode="prefill")
    decode = start(1_000_000, **common, disaggregation_mode="decode", port=30001, preferred_sampling_params=bounded)
    router = "sglang-router --pd-disaggregation --max-concurrent-requests 0 --disable-retries"
    items = (log("prefill.log", *prefill), log("decode.log", *decode), argv(router))
    assert [(finding.id, finding.says) for finding in report_on(items).findings] == []
