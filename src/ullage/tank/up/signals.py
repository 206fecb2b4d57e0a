"""What we are told while we wait. Signals are blocked and fetched, so that none cuts a cleanup in two."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """`ending`: the last that told us to end."""

    def __init__(self, ending: list[signal.Signals]) -> None:
        self.ending: signal.Signals | None = None
        self._awaited = [*ending, signal.SIGCHLD]

    def wait(self, seconds: float) -> bool:
        """Waits so long at most. True: we were told to end meanwhile. A child that ended wakes us too."""
        told = signal.sigtimedwait(self._awaited, seconds)
        if told is None or told.si_signo == signal.SIGCHLD:
            return False
        self.ending = signal.Signals(told.si_signo)
        return True


@contextmanager
def fetched() -> Iterator[Signals]:
    """What is ignored stays so: nohup does that, and a shell to what it puts in the background."""
    ending = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [*ending, signal.SIGCHLD])
    try:
        yield Signals(ending)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
