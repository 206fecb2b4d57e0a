"""`ullage tank down`: ends what the state names, and nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from .plan import ROUTER
from .process import Identity, end, lives, nap
from .state import Place, Running, State, read_state, remove_state
from .supervisor import ROUTER_GRACE_S, WORKER_GRACE_S, ended_words

_SUPERVISOR_GRACE_S = ROUTER_GRACE_S + WORKER_GRACE_S + 12.0


def down(at: Place, say: Callable[[str], None]) -> int:
    state = read_state(at)
    if state is None or not (lives(state.supervisor) or state.living()):
        remove_state(at)
        say("no tank runs: there is nothing to end")
        return 0
    told = _by_supervisor(state) if lives(state.supervisor) else []
    told += _orphans(at)
    remove_state(at)
    say("ended: " + ", ".join(told))
    return 0


def _by_supervisor(state: State) -> list[str]:
    """It ends its children in order. One that does not is killed, and its children are orphans."""
    before = state.living()
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.supervisor.pid, signal.SIGTERM)
    if not _ends(state.supervisor, _SUPERVISOR_GRACE_S):
        os.kill(state.supervisor.pid, signal.SIGKILL)
        _ends(state.supervisor, 10.0)
    gone = [part for part in before if not lives(part.identity)]
    return [*ended_words(gone, set()), f"supervisor (pid {state.supervisor.pid})"]


def _orphans(at: Place) -> list[str]:
    state = read_state(at)
    living = state.living() if state else ()
    routers = [part for part in living if part.role == ROUTER]
    workers = [part for part in living if part.role != ROUTER]
    return _end(routers, ROUTER_GRACE_S) + _end(workers, WORKER_GRACE_S)


def _end(parts: list[Running], grace_s: float) -> list[str]:
    killed = end([part.identity for part in parts], grace_s, nap)
    return ended_words(parts, {who.pid for who in killed})


def _ends(who: Identity, limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while lives(who):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
