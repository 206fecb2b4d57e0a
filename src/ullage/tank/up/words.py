"""Tables, and how to use what runs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from .look import Seen
from .plan import ROUTER
from .state import State

_HEAD = ("", "URL", "pid", "state", "restarts", "KV pool", "used", "running", "queues")


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def what_runs(seen: Sequence[Seen]) -> str:
    """Once it is up: who, where, how big."""
    rows = [("", "URL", "pid", "KV pool", "log")]
    rows += [(s.part.name, s.part.url, str(s.part.pid), _tokens(s.pool_tokens), _short(s.part.log)) for s in seen]
    return table(rows)


def status_table(seen: Sequence[Seen]) -> str:
    return table([_HEAD, *map(_row, seen)])


def _row(seen: Seen) -> tuple[str, ...]:
    part, loads = seen.part, seen.loads
    is_router = part.role == ROUTER
    pool, used = ("", "") if is_router else (_tokens(seen.pool_tokens), _number(seen.used_tokens))
    running = "" if is_router else _number(loads.get("num_running_reqs"))
    waiting = ", ".join(f"{name} {count}" for name, count in seen.queues.items() if count)
    queues = "" if is_router else waiting or ("none" if loads else "?")
    pid = str(part.pid) if seen.lives else "-"
    return (part.name, part.url, pid, _state(seen), str(part.restarts), pool, used, running, queues)


def _state(seen: Seen) -> str:
    if not seen.lives:
        return "ended"
    return "serves" if seen.healthy else "does not answer"


def _tokens(count: int | None) -> str:
    return "" if count is None else f"{count:,} tokens"


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def last_ends(seen: Sequence[Seen]) -> list[str]:
    """How those ended that had to be started again."""
    return [f"{s.part.name}: the process before it ended: {s.part.last_end}" for s in seen if s.part.last_end]


def how_to_use(state: State, foreground: bool) -> str:
    key = f' -H "Authorization: Bearer ${state.key_env}"' if state.key_env else ""
    asked = f'{{"model": "{state.model}", "messages": [{{"role": "user", "content": "Hello"}}], "max_tokens": 32}}'
    return "\n".join(
        [
            f"ask it:       curl {state.url}/v1/chat/completions -H 'Content-Type: application/json'{key} \\",
            f"                -d '{asked}'",
            f"OpenAI API:   base URL {state.url}/v1, {f'the key in {state.key_env}' if key else 'any key'}",
            f"its limits:   {limits_command(state)}",
            f"its state:    ullage tank status; events in {_short(os.path.dirname(state.parts[0].log))}/supervisor.log",
            f"its end:      {'Ctrl-C here, or ' if foreground else ''}ullage tank down",
        ]
    )


def limits_command(state: State) -> str:
    metrics = "" if ":29000/" in state.metrics_url else f" --metrics {state.metrics_url}"
    key = f" --api-key-env {state.key_env}" if state.key_env else ""
    return f"ullage limits {state.url} --follow{metrics}{key}"


def ago(since: float) -> str:
    seconds = max(0, int(time.time() - since))
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _short(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path
