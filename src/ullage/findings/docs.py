"""The findings' documentation, from their docstrings: `python -m ullage.findings.docs > docs/findings.md`."""

from __future__ import annotations

from . import catalogue  # noqa: F401 - importing enters the rules
from .base import CATALOGUE, Rule


def page(rule: Rule) -> str:
    return f"### {rule.id}\n\n*{rule.severity.value}* · {rule.title}\n\n{rule.page}\n"


def document() -> str:
    """Every rule, by subject."""
    lines = [
        "# Findings\n",
        "Made from the rules' docstrings; `ullage explain ID` prints the same page.",
        "[operators-questions.md](operators-questions.md) says which of them answers a question that was asked.\n",
    ]
    for subject in sorted({rule.subject for rule in CATALOGUE.values()}):
        lines.append(f"## {subject}\n")
        lines += [page(rule) for rule in CATALOGUE.values() if rule.subject == subject]
    return "\n".join(lines)


if __name__ == "__main__":
    print(document(), end="")
