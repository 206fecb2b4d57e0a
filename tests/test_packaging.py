"""What is needed stands in pyproject.toml and in requirements/*.in alike, and is locked with hashes, without hosts."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ullage.tank.up.extra import NEEDED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BUILD = {"editables", "hatchling>=1.27"}


def asked(name: str) -> set[str]:
    lines = (ROOT / "requirements" / f"{name}.in").read_text("utf-8").splitlines()
    return {line.replace('"', "'") for line in lines if line and not line.startswith(("#", "-"))}


def locked(name: str) -> dict[str, str]:
    """Each package with all that stands under it."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    return dict(re.findall(r"^([\w.-]+)==(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL))


def test_the_lists_are_the_same() -> None:
    assert set(PROJECT["dependencies"]) == asked("core")
    assert set(PROJECT["optional-dependencies"]["tank"]) == asked("tank") - BUILD


def test_the_core_needs_nothing_of_the_tank() -> None:
    names = {re.split(r"[<>=;]", one)[0] for one in asked("tank") - BUILD}
    assert names.isdisjoint(locked("core"))
    assert {name.replace("-", "_") for name in names} == set(NEEDED)


@pytest.mark.parametrize("name", ["core", "tank", "dev"])
def test_all_of_it_is_locked(name: str) -> None:
    packages = locked(name)
    assert {re.split(r"[<>=;]", one)[0] for one in asked(name)} <= set(packages)
    assert all("--hash=sha256:" in rest for rest in packages.values())


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").iterdir()), ids=lambda path: path.name)
def test_no_host_gets_into_a_list(path: Path) -> None:
    assert not re.search(r"https?://|file:|--(extra-)?index-url|--find-links|--trusted-host", path.read_text("utf-8"))
