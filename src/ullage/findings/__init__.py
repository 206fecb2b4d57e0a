"""Findings, as a linter has them: a condition on the deployment, its evidence, one concrete action, a page of its own."""
