"""`ullage tank up --detach`: the supervisor as a process of its own, and what it says until the tank serves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from ...errors import UllageError
from .plan import Wish
from .run import up
from .state import SERVING, read_state, the_place
from .tell import leave_screen


def detach(wish: Wish, limit_s: float, say: Callable[[str], None]) -> int:
    """Hands on what the supervisor says. 0 once the tank serves; else the code it ended with, and nothing is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ullage.tank.up.background"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([wish, limit_s]))
    process.stdin.close()
    interrupted = False
    while True:
        try:
            for line in process.stdout:
                say(line.rstrip("\n"))
            break
        except KeyboardInterrupt:
            interrupted = True
            os.kill(process.pid, signal.SIGTERM)
    return _outcome(process, interrupted)


def _outcome(process: subprocess.Popen[str], interrupted: bool) -> int:
    """It leaves the screen when the tank serves, and before that only by ending."""
    if interrupted:
        process.wait()
        return 130
    while process.poll() is None:
        state = read_state(the_place())
        if state and state.phase == SERVING and state.supervisor.pid == process.pid:
            process.returncode = 0  # it goes on without us
            break
        time.sleep(0.02)
    return process.returncode


def main() -> int:
    fields, limit_s = json.load(sys.stdin)
    wish = Wish._make(tuple(value) if isinstance(value, list) else value for value in fields)
    try:
        return up(wish, the_place(), limit_s=limit_s, foreground=False, served=leave_screen)
    except UllageError as error:
        print(f"ullage: {error.message}" + (f"; {error.advice}" if error.advice else ""), file=sys.stderr)
        return error.exit_code
    except Exception as error:  # a fault of ours: one line still
        if os.environ.get("ULLAGE_DEBUG"):
            raise
        print(f"ullage: a fault in ullage itself: {type(error).__name__}: {error}", file=sys.stderr)
        return 70


if __name__ == "__main__":
    sys.exit(main())
