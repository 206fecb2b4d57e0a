"""Bare `ullage` on a host with a tank under systemd, a large journal and many other processes, as a whole process.

    python benchmarks/host.py [ROUNDS [JOURNAL_MB [PROCESSES]]]

Boots a systemd in namespaces (needs root: see tests/systemd/machine.py), whose journal lies in a temporary folder: a
unit prints half of it, then prefill, decode and router of a tank are started as units, then it prints the rest; it
takes minutes. Prints median, least and most of the time and of the peak memory, warm; and one run with the journal's
pages dropped from the cache.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, its neighbours are not found else
from tests.systemd.machine import PYTHON, Machine
from tests.systemd.servers import TANK, restart_tank

_NOISE = """
import sys
for i in range(int(sys.argv[1])):
    print(f"some other program says something of usual length about request {i * 7919} from 10.2.3.{i % 255}, {i % 17}")
"""
_TIMED = """
import json, os, subprocess, sys, time
begin = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps([time.perf_counter() - begin, usage.ru_maxrss / 1024, status]))
"""
_LINES_PER_MB = 2100  # of the journal, at this length of a line
_SETTINGS = "[Journal]\nSystemMaxUse=8G\nSystemKeepFree=100M\nRateLimitBurst=0\nRateLimitIntervalSec=0\n"


class Run(NamedTuple):
    seconds: float
    peak_mib: float
    status: int


def main() -> None:
    rounds, megabytes, processes = (int(word) for word in (*sys.argv[1:], *("15", "2048", "2000")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal"
        journal.mkdir()
        with Machine(Path(folder) / "machine", directories=[f"{journal}=/var/log/journal"]) as machine:
            _fill(machine, megabytes, processes)
            print(machine.run("journalctl", "--disk-usage").stdout.strip())
            print(f"{len(machine.run('ps', '-e').stdout.splitlines()) - 1} processes")
            _measure(machine, journal, rounds)


def _fill(machine: Machine, megabytes: int, processes: int) -> None:
    machine.write("/etc/systemd/journald.conf.d/large.conf", _SETTINGS.replace("\\\n", "\n"))
    machine.systemctl("restart", "systemd-journald")
    machine.write("/srv/noise.py", _NOISE)
    lines = megabytes * _LINES_PER_MB // 2
    machine.unit("noise.service", f"[Service]\nType=oneshot\nExecStart={PYTHON} /srv/noise.py {lines}\n")
    machine.run("systemctl", "start", "noise.service", timeout=3000)
    _start(machine)
    machine.run("systemctl", "start", "noise.service", timeout=3000)
    others = f"for n in $(seq {processes}); do sleep 100000 & done; wait"
    machine.run("systemd-run", "--unit=others", "--property=TasksMax=infinity", "sh", "-c", others)
    machine.until("sh", "-c", f"test $(pgrep -c sleep) -ge {processes}")


def _start(machine: Machine) -> None:
    router = (
        f"{PYTHON} -m sglang_router.launch_router --port 8000 --pd-disaggregation --prefill http://127.0.0.1:30000 8998"
    )
    for role, port in (("prefill", 30000), ("decode", 30001)):
        flags = f"--port {port} --disaggregation-mode {role} --disaggregation-bootstrap-port {8998 - 30000 + port}"
        machine.unit(f"{role}.service", f"[Service]\nExecStart={TANK} {flags} --enable-metrics\n")
        restart_tank(machine, f"{role}.service", port)
    machine.unit("router.service", f"[Service]\nExecStart={router} --decode http://127.0.0.1:30001\n")
    machine.systemctl("start", "router.service")
    machine.until(PYTHON, "-c", "import socket; socket.create_connection(('127.0.0.1', 8000))")


def _measure(machine: Machine, journal: Path, rounds: int) -> None:
    command = [str(Path(sys.executable).with_name("ullage"))]
    _forget(journal)
    cold = _timed(machine, command)
    runs = [_timed(machine, command) for _ in range(rounds)]
    bare = [_timed(machine, [PYTHON, "-c", "pass"]) for _ in range(rounds)]
    assert all(run.status == 0 for run in (cold, *runs))
    print(f"{'python -c pass':24} {_told([run.seconds for run in bare], 's')}")
    print(f"{'ullage':24} {_told([run.seconds for run in runs], 's')}")
    print(f"{'ullage, peak memory':24} {_told([run.peak_mib for run in runs], 'MiB')}")
    print(f"{'ullage, journal cold':24} {cold.seconds:.3f} s, once")


def _timed(machine: Machine, command: list[str]) -> Run:
    return Run(*json.loads(machine.python(_TIMED, *command)))


def _forget(journal: Path) -> None:
    """Drops the journal's pages from the cache."""
    for path in journal.rglob("*.journal"):
        with path.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _told(found: list[float], unit: str) -> str:
    return f"median {statistics.median(found):.3f} {unit}, {min(found):.3f} to {max(found):.3f}"


if __name__ == "__main__":
    main()
