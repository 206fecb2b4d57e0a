"""What the supervisor says: on the screen, and with the time of day in its log."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from .state import open_log


class Teller:
    def __init__(self, log: Path) -> None:
        self._log = log

    def say(self, text: str) -> None:
        """A screen that is gone, or a full disk, ends nothing."""
        with contextlib.suppress(OSError, ValueError):
            print(text, flush=True)
        self.note(text)

    def event(self, text: str) -> None:
        """As `say`, with the time of day on the screen too."""
        with contextlib.suppress(OSError, ValueError):
            print(time.strftime("%H:%M:%S"), text, flush=True)
        self.note(text)

    def note(self, text: str) -> None:
        """In the log alone."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        with contextlib.suppress(OSError):
            handle = open_log(self._log)
            with os.fdopen(handle, "a", encoding="utf-8") as file:
                file.writelines(f"[{stamp}] {line}\n" for line in text.splitlines())


def leave_screen() -> None:
    """From now on nothing goes to it."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
