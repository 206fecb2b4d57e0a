"""Holds the one-way imports: readers and core stand on the atoms, faces on all of them, and none looks back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "ullage"
SRC = Path(__file__).parents[1] / "src"

LAYERS = {
    "atoms": {"figure", "evidence", "units", "errors", "masking", "quoting"},
    "readers": {"observe", "spec"},
    "core": {"capacity", "architectures", "engines", "findings", "hardware", "deployment"},
    "faces": {"report", "cli", "prove", "deploy", "watch", "simulate", "__main__", "demo"},
    "tank": {"tank"},
}
MAY_IMPORT = {
    "atoms": {"atoms"},
    "readers": {"readers", "atoms"},
    "core": {"core", "atoms"},
    "faces": set(LAYERS),
    "tank": {"tank", "atoms"},
}
CORE_MAY_NOT = {
    "capacity": {"engines", "findings", "deployment"},
    "engines": {"findings", "deployment"},
}
IO_MODULES = {
    "socket",
    "http",
    "urllib",
    "urllib3",
    "requests",
    "subprocess",
    "asyncio",
    "os",
    "pathlib",
    "io",
    "ssl",
    "sys",
    "click",
    "prettytable",
    "threading",
    "concurrent",
    "shutil",
    "tempfile",
    "glob",
    "logging",
}
WHERE_TO_PUT_IT = (
    "list it in LAYERS in tests/test_layers.py: under atoms if everything stands on it, readers if it looks at "
    "the world, core if it reckons and does no I/O, faces if a person runs or reads it, tank if it is part of the tank"
)


def part_of(module: str) -> str | None:
    """The name right below the package, which decides the layer: `capacity` for `ullage.capacity.pools`."""
    top, _, below = module.partition(".")
    return below.split(".")[0] if top == PACKAGE and below else None


def layer_of(module: str) -> str | None:
    return next((layer for layer, parts in LAYERS.items() if part_of(module) in parts), None)


def origin(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of what follows `from`, in a module that lies in `package`."""
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [node.module])])


def imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Every import wherever it stands, as line and absolute name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{origin(node, package)}.{alias.name}") for alias in node.names)


def objection(module: str, imported: str) -> str | None:
    """Why `module` may not import `imported`, or None if it may."""
    if module == PACKAGE:
        return "the package itself imports nothing"
    layer, other = layer_of(module) or "", layer_of(imported)
    if other and other not in MAY_IMPORT[layer]:
        return f"{layer} may not import {other}"
    if layer == "core":
        return core_objection(part_of(module) or "", imported)
    return None


def core_objection(part: str, imported: str) -> str | None:
    if imported.split(".")[0] in IO_MODULES:
        return "core does no I/O"
    if part_of(imported) in CORE_MAY_NOT.get(part, ()):
        return f"inside core, {part} may not import {part_of(imported)}"
    return None


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    if module != PACKAGE and not layer_of(module):
        return [f"{module} belongs to no layer: {WHERE_TO_PUT_IT}"]
    package = module if is_package else module.rpartition(".")[0]
    found = ((line, name, objection(module, name)) for line, name in imports(source, package))
    return [f"{module}:{line} imports {name}: {why}" for line, name, why in found if why]


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_module_keeps_to_its_layer() -> None:
    paths = sorted((SRC / PACKAGE).rglob("*.py"))
    assert paths
    found = [
        line
        for path in paths
        for line in violations(module_name(path), path.read_text("utf-8"), is_package=path.name == "__init__.py")
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source", "why"),
    [
        ("ullage.figure", "from ullage.capacity import pools", "atoms may not import core"),
        ("ullage.units", "import ullage.observe.http", "atoms may not import readers"),
        ("ullage.observe.http", "from ullage import engines", "readers may not import core"),
        ("ullage.spec", "from ullage.cli import main", "readers may not import faces"),
        ("ullage.hardware", "from ullage.report.text import render", "core may not import faces"),
        ("ullage.findings.memory", "from ullage.observe import logs", "core may not import readers"),
        ("ullage.findings.memory", "import ullage.tank", "core may not import tank"),
        ("ullage.tank.server", "from ullage.engines import sglang", "tank may not import core"),
        ("ullage.capacity.pools", "from ullage.engines import sglang", "capacity may not import engines"),
        ("ullage.capacity.pools", "from .. import findings", "capacity may not import findings"),
        ("ullage.engines.sglang", "from ..deployment import Deployment", "engines may not import deployment"),
        ("ullage.deployment", "import os.path", "core does no I/O"),
        ("ullage.findings.docs", "from sys import stdout", "core does no I/O"),
        ("ullage.capacity.pools", "def f():\n    import logging", "core does no I/O"),
        ("ullage", "from ullage.figure import Figure", "the package itself imports nothing"),
        ("ullage.newcomer", "", "belongs to no layer: list it in LAYERS"),
    ],
)
def test_a_wrong_import_is_caught(module: str, source: str, why: str) -> None:
    (found,) = violations(module, source)
    assert why in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ullage.cli", "import sys\nimport ullage.tank\nfrom ullage import __version__, observe, findings, report"),
        ("ullage.observe.http", "import urllib3\nfrom . import logs\nfrom ..figure import Figure"),
        ("ullage.findings.memory", "from ..deployment import Deployment\nfrom ullage.capacity import pools"),
        ("ullage.deployment", "from .engines import sglang\nfrom .capacity import pools"),
        ("ullage.tank.server", "import http.server\nfrom .. import units\nfrom .load import Load"),
    ],
)
def test_a_right_import_passes(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_a_relative_import_in_a_package_starts_at_that_package() -> None:
    assert violations("ullage.capacity", "from .engines import pools", is_package=True) == []
    assert violations("ullage.capacity", "from ..engines import sglang", is_package=True)
