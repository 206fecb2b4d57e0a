"""A machine for the tests of a session (see machine.py). Skipped where none can be made; in CI, as root, it must be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systemd.machine import Machine, usable


@pytest.fixture(scope="session")
def machines() -> type[Machine]:
    """What machines are made of: `with machines(tmp_path / "machine") as machine: ...`."""
    reason = usable()
    if reason and os.environ.get("CI") == "true" and os.geteuid() == 0:
        pytest.fail(f"in CI the tests with a real systemd must run: {reason}")
    if reason:
        pytest.skip(reason)
    return Machine


@pytest.fixture(scope="session")
def machine(machines: type[Machine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """For tests that keep to units of their own, and neither reboot it nor touch its journal as a whole."""
    with machines(tmp_path_factory.mktemp("systemd") / "machine") as machine:
        yield machine


@pytest.fixture(scope="module")
def quiet_machine(machines: type[Machine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """For tests that look at all servers of a machine, and stop theirs."""
    with machines(tmp_path_factory.mktemp("quiet") / "machine") as machine:
        yield machine


@pytest.fixture
def own_machine(machines: type[Machine], tmp_path: Path) -> Iterator[Machine]:
    """For a test that does something to the machine as a whole."""
    with machines(tmp_path / "machine") as machine:
        yield machine
