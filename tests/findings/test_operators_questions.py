"""docs/operators-questions.md names only findings, figures and commands that are there, or says they are not yet."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from ullage.cli.main import ullage
from ullage.findings import catalogue  # noqa: F401 - importing enters the rules
from ullage.findings.base import CATALOGUE
from ullage.findings.glossary import GLOSSARY

TEXT = (Path(__file__).parents[2] / "docs" / "operators-questions.md").read_text("utf-8")
ROWS = [line for line in TEXT.splitlines() if re.match(r"\| \d", line)]
FINDINGS = {name for row in ROWS for name in re.findall(r"findings\.md#([\w-]+)", row)}
CODE = {words for row in ROWS for words in re.findall(r"`([^`]+)`", row)}
COMMANDS = sorted(words for words in CODE if words.startswith("ullage "))


def test_its_findings_exist_and_are_linked_by_their_names() -> None:
    assert FINDINGS - CATALOGUE.keys() == set()
    assert all(name == link for name, link in re.findall(r"\[([\w-]+)\]\(findings\.md#([\w-]+)\)", TEXT))


def test_its_figures_can_be_explained() -> None:
    assert {words for words in CODE if not words.startswith("ullage ")} - GLOSSARY.keys() == set()


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_exists_or_is_said_not_to(words: str) -> None:
    promised = any(re.search(rf"[Nn]ot yet, `{re.escape(words)}`", row) for row in ROWS)
    assert (ullage.get_command(click.Context(ullage), words.split()[1]) is not None) != promised


def test_every_row_has_a_question_an_address_and_an_answer() -> None:
    assert len(ROWS) == len({row.split("|")[1] for row in ROWS})
    for row in ROWS:
        _, number, question, asked, answer, _ = (cell.strip() for cell in row.split("|"))
        assert number
        assert question
        assert "https://" in asked
        assert "findings.md#" in answer or "`" in answer or '"' in answer
