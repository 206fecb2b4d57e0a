"""A process is its pid and the moment of its start; what is to end ends, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ullage.tank.up.process import Identity, end, identify, lives, nap

STUBBORN = (
    "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)
WILLING = "import time; print('ready', flush=True); time.sleep(60)"
WITH_CHILD = (
    "import subprocess,sys,time; "
    "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid, flush=True); time.sleep(60)"
)


@contextmanager
def running(program: str) -> Iterator[tuple[subprocess.Popen[str], Identity, str]]:
    """The process, who it is, and its first line."""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as p:
        assert p.stdout is not None
        line = p.stdout.readline().strip()
        who = identify(p.pid)
        assert who is not None
        try:
            yield p, who, line
        finally:
            p.kill()


def test_a_pid_that_is_another_process_now_is_not_it() -> None:
    with running(WILLING) as (process, who, _):
        other = Identity(who.pid, who.start_ticks - 1)
        assert lives(who)
        assert not lives(other)
        assert end([other], 0.1, nap) == set()
        assert process.poll() is None


def test_what_has_ended_lives_no_more_even_before_it_is_reaped() -> None:
    with running(WILLING) as (process, who, _):
        process.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 5
        while lives(who) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not lives(who)
        assert identify(who.pid) is None


def test_no_name_of_a_process_misleads() -> None:
    name = ") Z 1 1 ("
    renamed = f"from pathlib import Path; Path('/proc/self/comm').write_text({name!r})"
    with running(f"{renamed}; {WILLING}") as (_, who, _):
        assert Path(f"/proc/{who.pid}/comm").read_text().strip() == name
        assert lives(who)
        assert who.start_ticks > 1


def test_one_that_listens_ends_by_itself_and_one_that_does_not_is_killed() -> None:
    with running(WILLING) as (willing, one, _), running(STUBBORN) as (stubborn, other, _):
        assert end([one, other], 0.5, nap) == {other}
        assert willing.wait(5) == -signal.SIGTERM
        assert stubborn.wait(5) == -signal.SIGKILL


def test_in_a_hurry_nobody_waits_for_the_grace() -> None:
    with running(STUBBORN) as (stubborn, who, _):
        began = time.monotonic()
        assert end([who], 30, lambda _seconds: True) == {who}
        assert time.monotonic() - began < 5
        assert stubborn.wait(5) == -signal.SIGKILL


def test_what_it_started_ends_with_it() -> None:
    with running(WITH_CHILD) as (_, who, line):
        grandchild = identify(int(line))
        assert grandchild is not None
        end([who], 5, nap)
        deadline = time.monotonic() + 5
        while lives(grandchild) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not lives(grandchild)


def test_we_are_ourselves() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert lives(me)
