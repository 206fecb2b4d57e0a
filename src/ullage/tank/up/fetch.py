"""The model is fetched before workers start, once for all of them, by a process of its own that can be ended."""

from __future__ import annotations

from .serving import Trial


def fetch(trial: Trial) -> bool:
    """False: told to end before."""
    return trial.supervisor.wish.model != ""
