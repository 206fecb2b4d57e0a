"""A child passes its gate only once it is written down; its end is told once, with its last words."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from ullage.tank.up.child import Child
from ullage.tank.up.plan import Part
from ullage.tank.up.process import lives


def child(tmp_path: Path, program: str) -> Child:
    part = Part("decode", "decode", "http://127.0.0.1:9", (sys.executable, "-c", program), (9,))
    return Child(part, tmp_path / "decode.log")


def told_end(one: Child) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if how := one.look():
            return how
        time.sleep(0.01)
    raise AssertionError("it goes on")


def test_it_is_written_down_before_it_runs(tmp_path: Path) -> None:
    one, ran = child(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')"), tmp_path / "ran"

    def write_down() -> None:
        time.sleep(0.2)
        assert not ran.exists()
        assert lives(one.running.identity)

    one.start(write_down)
    assert told_end(one) == "exit code 0"
    assert ran.exists()


def test_one_that_cannot_be_written_down_never_runs(tmp_path: Path) -> None:
    one, ran = child(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')"), tmp_path / "ran"

    def write_down() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        one.start(write_down)
    assert told_end(one) == "exit code 1"
    assert not ran.exists()


def test_the_process_keeps_the_identity_that_was_written_down(tmp_path: Path) -> None:
    one = child(tmp_path, "import time; print('passed', flush=True); time.sleep(60)")
    seen = []
    one.start(lambda: seen.append(one.running.identity))
    while "passed" not in one.last_words():
        time.sleep(0.01)
    assert [one.running.identity] == seen
    assert lives(seen[0])
    os.kill(seen[0].pid, signal.SIGKILL)
    assert told_end(one) == "killed by SIGKILL"
    assert one.look() is None


def test_it_takes_signals_though_its_supervisor_blocks_them(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    try:
        one = child(tmp_path, "import time; print('passed', flush=True); time.sleep(60)")
        one.start(lambda: None)
        while "passed" not in one.last_words():
            time.sleep(0.01)
        os.kill(one.running.pid, signal.SIGTERM)
        assert told_end(one) == "killed by SIGTERM"
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_its_last_words_are_those_of_both_streams(tmp_path: Path) -> None:
    one = child(tmp_path, "import sys; print('on its way'); sys.exit('no model at /nowhere')")
    one.start(lambda: None)
    assert told_end(one) == "exit code 1"
    assert one.last_words() == ["on its way", "no model at /nowhere"]
    assert one.log.stat().st_mode & 0o777 == 0o600


def test_a_start_after_a_death_is_a_restart_and_waits(tmp_path: Path) -> None:
    one = child(tmp_path, "raise SystemExit(3)")
    waits = []
    for _ in range(3):
        one.start(lambda: None)
        assert told_end(one) == "exit code 3"
        waits.append(one.put_off())
    assert waits == [0.5, 1.0, 2.0]
    assert (one.running.restarts, one.running.last_end) == (2, "exit code 3")
