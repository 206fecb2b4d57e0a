"""docs/findings.md is made from the rules, and a rule says in its page what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.findings import docs
from ullage.findings.base import CATALOGUE, rule

PAGE = Path(__file__).parents[2] / "docs" / "findings.md"


def test_the_document_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == docs.document(), "python -m ullage.findings.docs > docs/findings.md"


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_rule_has_a_title_and_a_page(name: str) -> None:
    entry = CATALOGUE[name]
    assert entry.title
    assert len(entry.page) > 80
    assert docs.page(entry) in docs.document()


def test_a_name_is_taken_once() -> None:
    entry = next(iter(CATALOGUE.values()))
    with pytest.raises(ValueError, match="two rules"):
        rule(entry.id, entry.severity, entry.title)(entry.check)
