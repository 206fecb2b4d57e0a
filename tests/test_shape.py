"""Holds modules and functions to a size that can be read at one go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
MODULES = {path: path.read_text("utf-8") for path in sorted((ROOT / "src" / "ullage").rglob("*.py"))}
MODULE_LINES = 400
FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 8


def functions() -> Iterator[tuple[str, int]]:
    """Every function with where it stands and its lines, from `def` to its end."""
    for path, source in MODULES.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                where = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                yield where, (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_module_is_too_long() -> None:
    lines = {str(path.relative_to(ROOT)): len(source.splitlines()) for path, source in MODULES.items()}
    assert {path: count for path, count in lines.items() if count > MODULE_LINES} == {}


def test_no_function_is_too_long() -> None:
    assert [(where, lines) for where, lines in functions() if lines > FUNCTION_LINES] == []


def test_most_functions_are_short() -> None:
    lengths = [lines for _, lines in functions()]
    assert not lengths or median(lengths) <= MEDIAN_FUNCTION_LINES
