"""The proof that a tank serves: a request of one token that went through the router."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from ...errors import UllageError
from .probe import Answer, ask
from .signals import Signals
from .supervisor import Supervisor
from .tell import Teller

_PATIENCE_S = 60.0  # for one answer
_PAUSE_S = 0.3


class FirstRequest(threading.Thread):
    """Asked beside the supervisor, which goes on watching."""

    def __init__(self, url: str, model: str, key: str | None) -> None:
        super().__init__(daemon=True)
        self.answer = Answer(0, b"")
        self.ended = False
        self.took_s = 0.0
        self._words = (url, model, key)
        self.start()

    def run(self) -> None:
        url, model, key = self._words
        began = time.monotonic()
        body = {"model": model, "prompt": "Hello", "max_tokens": 1}
        self.answer = ask(url, "/v1/completions", body, key=key, timeout_s=_PATIENCE_S)
        self.took_s = time.monotonic() - began
        self.ended = True

    @property
    def passed(self) -> bool:
        return self.ended and self.answer.status == 200


class Trial(NamedTuple):
    supervisor: Supervisor
    signals: Signals
    teller: Teller
    key: str | None
    limit_s: float


def wait_until_serving(trial: Trial) -> bool:
    """False: told to end before."""
    began = told = time.monotonic()
    while not (trial.supervisor.all_ready and _all_routed(trial)):
        if _interrupted(trial, 0.2):
            return False
        told = _patience(trial, began, told)
    url, model = trial.supervisor.state.url, model_name(trial.supervisor.children[0].part.url, trial.key)
    request = FirstRequest(url, model, trial.key)
    while not request.passed:
        if _interrupted(trial, _PAUSE_S if request.ended else 0.05):
            return False
        if request.ended and not request.passed:
            _require_time(trial, began, f"the router answers {_told(request.answer)}")
            request = FirstRequest(url, model, trial.key)
    trial.supervisor.serves(model)
    trial.teller.say(f"router    passed a request of one token on, answered in {request.took_s:.2f} s")
    return True


def _all_routed(trial: Trial) -> bool:
    """Does the router know all workers, as healthy? It would try in vain before, and count that."""
    *workers, router = (child.part for child in trial.supervisor.children)
    known = ask(router.url, "/workers", key=trial.key).json
    rows = known.get("workers") if isinstance(known, dict) else None
    healthy = {row.get("url") for row in rows or () if row.get("is_healthy")}
    return healthy >= {worker.url for worker in workers}


def _interrupted(trial: Trial, seconds: float) -> bool:
    if trial.signals.wait(seconds):
        return True
    trial.supervisor.watch()
    return False


def _patience(trial: Trial, began: float, told: float) -> float:
    """Says every ten seconds for whom it waits. When it last did."""
    waited = [child for child in trial.supervisor.children if not child.ready]
    late = [child.part.name for child in waited] or ["the router to know its workers"]
    now = time.monotonic()
    _require_time(trial, began, f"not ready: {', '.join(late)}")
    if now - told < 10:
        return told
    last = f": {words[-1][:80]}" if waited and (words := waited[0].last_words()) else ""
    trial.teller.say(f"waiting for {', '.join(late)} ({now - began:.0f} s){last}")
    return now


def _require_time(trial: Trial, began: float, why: str) -> None:
    if time.monotonic() - began > trial.limit_s:
        raise UllageError(
            f"not up after {trial.limit_s:g} s; {why}", "the logs tell more; --start-timeout waits longer"
        )


def _told(answer: Answer) -> str:
    text = " ".join(answer.body.decode("utf-8", "replace").split())[:200]
    return f"{answer.status or 'nothing'}: {text}"


def model_name(url: str, key: str | None) -> str:
    listed = ask(url, "/v1/models", key=key).json
    try:
        return str(listed["data"][0]["id"])
    except (TypeError, KeyError, IndexError):
        return "default"
