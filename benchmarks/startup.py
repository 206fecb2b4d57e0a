"""Whole-process times: `ullage --version` beside `python -c pass`; `ullage limits` on three live loopback endpoints.

    python benchmarks/startup.py [ROUNDS]

The commands take turns, so that a busy machine slows all of them alike. Prints median, minimum and ratio of each.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, its neighbours are not found else
from tests.replayed import deployment

_ULLAGE = str(Path(sys.executable).with_name("ullage"))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with deployment() as servers:
        _measure([server.url for server in servers], rounds)


def _measure(servers: Sequence[str], rounds: int) -> None:
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "ullage --version": [_ULLAGE, "--version"],
        "ullage limits, 3 live endpoints": [_ULLAGE, "limits", *servers],
        "ullage limits --json, 3 live endpoints": [_ULLAGE, "limits", "--json", *servers],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(_seconds(command))
    _print(times)


def _seconds(command: Sequence[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def _print(times: dict[str, list[float]]) -> None:
    base = statistics.median(times["python -c pass"])
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:40} median {median:6.3f} s  min {min(found):6.3f} s  {median / base:5.2f} x python -c pass")


if __name__ == "__main__":
    main()
