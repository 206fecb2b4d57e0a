"""The readers on the public cases, which are no part of the repository: benchmarks/cases.py measures, this holds it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CASES = Path(os.environ.get("ULLAGE_CASES") or ROOT.parent / "shared" / "cases")


@pytest.mark.skipif(
    not (CASES / "startup-logs.jsonl").exists(), reason=f"ULLAGE_CASES: no startup-logs.jsonl in {CASES}"
)
def test_what_the_cases_state_is_read() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "cases.py")]
    environment = {**os.environ, "ULLAGE_CASES": str(CASES)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    totals = re.findall(r"^([\w -]+): stated (\d+), read (\d+) .*, wrong (\d+)", done.stdout, re.MULTILINE)
    assert [name for name, *_ in totals] == ["start-up logs", "endpoints", "all"], done.stdout + done.stderr
    for _, stated, read, wrong in totals:
        assert int(wrong) == 0, done.stdout
        assert int(read) >= 0.97 * int(stated) > 0, done.stdout
    assert done.returncode == 0, done.stdout


def test_without_the_cases_it_says_so() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "cases.py")]
    environment = {**os.environ, "ULLAGE_CASES": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ULLAGE_CASES" in done.stdout
