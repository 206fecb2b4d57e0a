"""What this user may not read, and the line that would."""

from __future__ import annotations

import os
import shlex
import sys

from .output import is_closed
from .proc import link
from .running import Running, Unreadable


def sudo() -> str:
    """The command that runs this Ullage as root."""
    own = os.path.abspath(sys.argv[0])
    named = os.path.basename(own) == "ullage" and os.access(own, os.X_OK)
    return shlex.join(["sudo", own] if named else ["sudo", sys.executable, "-m", "ullage"])


def unreadable(proc: str, running: Running, fix: str, *, lost: bool) -> list[Unreadable]:
    """What of a server could not be read, in one line where one command would fix it all.

    `lost`: its command line is, under a title.
    """
    main = running.main
    name = f"pid {main.pid} ({running.program})"
    lines = []
    if lost:
        title = "its title is written over its command line"
        advice = "they stand in the unit or script that started it: name them with --flags '...'"
        lines.append(Unreadable(f"the flags and the environment of {name}", title, advice))
    missing = ["environment"] if main.environment is None and not lost else []
    missing += [] if main.cwd else ["working directory"]
    missing += [] if link(f"{proc}/{main.pid}/fd/1") or is_closed(proc, main.pid, 1) else ["sockets, output"]
    if missing:
        foreign = main.uid != os.geteuid()
        reason = f"it belongs to another user ({main.user})" if foreign else "it is closed even to its own user"
        lines.append(Unreadable(f"{', '.join(missing)} of {name}", reason, fix))
    return lines


def hidden(proc: str, fix: str) -> tuple[Unreadable, ...]:
    """Are other users' processes left out of /proc? (proc(5), hidepid)"""
    if os.geteuid() == 0:
        return ()
    try:
        with open(f"{proc}/self/mounts", encoding="utf-8", errors="replace") as mounts:
            options = [line.split()[3].split(",") for line in mounts if line.split()[1:3] == [proc, "proc"]]
    except (OSError, IndexError):
        return ()
    hides = {"hidepid=2", "hidepid=invisible", "hidepid=4", "hidepid=ptraceable"}
    reason = "/proc does not show them (hidepid)"
    return (Unreadable("the processes of other users", reason, fix),) if any(hides & set(o) for o in options) else ()
