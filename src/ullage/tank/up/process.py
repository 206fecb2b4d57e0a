"""Who a process is, and its end. A pid alone says nothing: the kernel gives it to another later. With the moment of its
start it is one process of this boot.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

_STATE, _START = 0, 19  # in /proc/PID/stat, counted behind the name


class Identity(NamedTuple):
    pid: int
    start_ticks: int  # since boot


def identify(pid: int) -> Identity | None:
    """None where no process has that pid, or only what is left of one."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # a name can hold anything, but not behind its last bracket
    return None if fields[_STATE] in "ZX" else Identity(pid, int(fields[_START]))


def myself() -> Identity:
    me = identify(os.getpid())
    assert me is not None
    return me


def lives(who: Identity) -> bool:
    return identify(who.pid) == who


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def signal_group(who: Identity, number: signal.Signals) -> None:
    """To it and all that it started: each of our children leads a group of its own."""
    if lives(who):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(who.pid, number)


def end(them: Iterable[Identity], grace_s: float, hurry: Callable[[float], bool]) -> set[Identity]:
    """Asks them to end, and kills those that have not after the grace, or in a hurry. Returns those killed.

    `hurry(seconds)` waits so long, and says whether it was told to hurry meanwhile.
    """
    left = {who for who in them if lives(who)}
    for who in left:
        signal_group(who, signal.SIGTERM)
    left = _wait(left, grace_s, hurry)
    for who in left:
        signal_group(who, signal.SIGKILL)
    _wait(left, 10, nap)
    return left


def nap(seconds: float) -> bool:
    """A wait in which nobody says to hurry."""
    time.sleep(seconds)
    return False


def _wait(them: set[Identity], limit_s: float, hurry: Callable[[float], bool]) -> set[Identity]:
    """Those who live after it."""
    until = time.monotonic() + limit_s
    while (left := {who for who in them if lives(who)}) and time.monotonic() < until:
        if hurry(0.02):
            break
    return left
