"""Findings, as a linter has them: a condition, its evidence, one concrete action, a page of its own."""
