"""`ullage tank status`: what runs, how it is."""

from __future__ import annotations

import json
import os
import time

from .look import Seen, look
from .process import lives
from .state import SERVING, Place, State, read_state
from .words import ago, last_ends, status_table

ALL_WELL, NOT_WELL, NOTHING_RUNS = 0, 1, 3


def status(at: Place, *, as_json: bool = False) -> tuple[str, int]:
    """What to print, and the exit code."""
    state = read_state(at)
    if state is None or not (lives(state.supervisor) or state.living()):
        return _nothing(as_json), NOTHING_RUNS
    seen = look(state, os.environ.get(state.key_env) if state.key_env else None)
    watched = lives(state.supervisor)
    well = watched and state.phase == SERVING and all(s.healthy for s in seen)
    text = json.dumps(_data(state, seen, watched, well), indent=1) if as_json else _text(state, seen, watched)
    return text, ALL_WELL if well else NOT_WELL


def _nothing(as_json: bool) -> str:
    if as_json:
        return json.dumps({"schema": "ullage.tank-status/1", "phase": "down", "healthy": False, "parts": []}, indent=1)
    return "no tank runs; ullage tank up starts one"


def _text(state: State, seen: list[Seen], watched: bool) -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.began))
    words = f"{state.model} at {state.url}: {state.phase}, begun {since} ({ago(state.began)} ago)"
    by = f"supervisor: pid {state.supervisor.pid}"
    by = by if watched else "its supervisor is gone: nothing that dies is started again; ullage tank down ends the rest"
    return "\n".join([words, by, "", status_table(seen), *last_ends(seen)])


def _data(state: State, seen: list[Seen], watched: bool, well: bool) -> dict[str, object]:
    return {
        "schema": "ullage.tank-status/1",
        "phase": state.phase,
        "healthy": well,
        "since": state.began,
        "url": state.url,
        "metrics_url": state.metrics_url,
        "model": state.model,
        "supervisor": {"pid": state.supervisor.pid, "lives": watched},
        "parts": [_part(s) for s in seen],
    }


def _part(seen: Seen) -> dict[str, object]:
    part = seen.part
    return {
        "name": part.name,
        "role": part.role,
        "url": part.url,
        "pid": part.pid if seen.lives else None,
        "lives": seen.lives,
        "healthy": seen.healthy,
        "since": part.began,
        "restarts": part.restarts,
        "last_end": part.last_end or None,
        "pool_tokens": seen.pool_tokens,
        "loads": seen.loads,
        "log": part.log,
    }
