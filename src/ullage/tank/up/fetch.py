"""The model is fetched before the workers start, once for all of them, by a process of its own, which can be ended."""

from __future__ import annotations

import signal
import sys
import time

from ...errors import UllageError
from .plan import SMOLLM2, Part
from .serving import Trial

_PART = Part("model", "fetch", "", (sys.executable, "-m", "ullage.tank.up.fetch"), ())
_EVERY_S = 3.0


def fetch(trial: Trial) -> bool:
    """Hands on what it says. False: told to end before."""
    if trial.supervisor.wish.model != SMOLLM2:
        return True
    (child,) = trial.supervisor.start([_PART])
    told = 0
    while (how := child.look()) is None:
        if trial.signals.wait(0.1):
            return False
        told += _hand_on(trial, child.last_words()[told:])
    if how != "exit code 0":
        raise UllageError(child.last_words()[-1] if child.last_words() else f"the model was not fetched: {how}")
    _hand_on(trial, child.last_words()[told:])
    trial.supervisor.drop(child)
    return True


def _hand_on(trial: Trial, lines: list[str]) -> int:
    for line in lines:
        trial.teller.say(f"{_PART.name:<9} {line}")
    return len(lines)


def main() -> int:
    """In that process."""
    from ..model.download import fetch_smollm2

    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # and tidies up what was half fetched
    told = time.monotonic()

    def progress(done: int, of: int) -> None:
        nonlocal told
        if time.monotonic() - told >= _EVERY_S:
            print(f"{done / 1e6:.0f} of {of / 1e6:.0f} MB fetched", flush=True)
            told = time.monotonic()

    try:
        print(f"SmolLM2-135M-Instruct, {fetch_smollm2(progress)}")
    except UllageError as error:
        print(f"{error.message}" + (f"; {error.advice}" if error.advice else ""))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
