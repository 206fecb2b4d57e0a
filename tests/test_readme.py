"""The README shows what the demo prints, word for word; only the ports are those of its own run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")


def without_ports(text: str) -> list[str]:
    return re.sub(r"(127\.0\.0\.1:|--port )\d+", r"\1PORT", text).split("\n")


def test_the_demo_prints_what_the_readme_shows() -> None:
    shown = README.split("```text\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-m", "ullage.demo"], capture_output=True, text=True, timeout=60, check=True)
    printed = without_ports(done.stdout[done.stdout.index("$ ullage") :])
    expected = without_ports(shown.rstrip())
    assert printed[: len(expected)] == expected
