"""`ullage tank up`: from the first check to the last child."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...errors import UllageError, UsageError
from .extra import require_extra
from .fetch import fetch
from .look import look
from .plan import Part, Wish, parts
from .ports import require_free
from .process import lives
from .serving import Trial, wait_until_serving
from .signals import Signals, fetched
from .state import SERVING, Place, fresh_logs, locked, read_state
from .supervisor import Supervisor
from .tell import Teller
from .words import how_to_use, what_runs


def up(
    wish: Wish, at: Place, *, limit_s: float, foreground: bool = True, served: Callable[[], None] | None = None
) -> int:
    """Runs until it is told to end. `served()` is called once, when the tank serves."""
    require_extra()
    plan, key = parts(wish), _key(wish.key_env)
    with locked(at) as ours, fetched() as signals:
        _require_nothing_runs(at, ours)
        require_free(plan)
        fresh_logs(at)
        teller = Teller(at.own_log)
        supervisor = Supervisor(wish, key, at, teller, signals)
        try:
            supervisor.write_down()
            if _start(Trial(supervisor, signals, teller, key, limit_s), plan):
                teller.say("\n" + what_runs(look(supervisor.state, key)) + "\n")
                teller.say(how_to_use(supervisor.state, foreground) + "\n")
                if served:
                    served()
                _watch(supervisor, signals)
        finally:
            supervisor.end()
        return 0 if supervisor.phase == SERVING or signals.ending is None else 128 + signals.ending


def _start(trial: Trial, plan: tuple[Part, ...]) -> bool:
    if not fetch(trial):
        return False
    trial.supervisor.start(plan)
    return wait_until_serving(trial)


def _watch(supervisor: Supervisor, signals: Signals) -> None:
    while not signals.wait(0.25):
        supervisor.watch()


def _require_nothing_runs(at: Place, ours: bool) -> None:
    state = read_state(at)
    if not ours:
        where = f" at {state.url} (pid {state.supervisor.pid})" if state and lives(state.supervisor) else ""
        advice = "ullage tank down ends it; another XDG_STATE_HOME holds a second one"
        raise UllageError(f"a tank is up already{where}", advice)
    if state and state.living():
        left = ", ".join(f"{part.name} (pid {part.pid})" for part in state.living())
        raise UllageError(f"a tank without its supervisor is left: {left}", "ullage tank down ends it")


def _key(name: str | None) -> str | None:
    if name is None:
        return None
    if not name.isidentifier():
        raise UsageError(
            "--api-key-env takes the name of an environment variable, not a key",
            "export KEY=..., then --api-key-env KEY",
        )
    if not os.environ.get(name):
        told = name if name.isupper() else "that was named"  # a key may stand there by mistake
        raise UsageError(f"the environment variable {told} is not set", "export it first")
    return os.environ[name]
