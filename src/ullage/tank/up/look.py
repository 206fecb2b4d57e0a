"""What a tank's processes answer: pool, load, health."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from .plan import ROUTER
from .probe import ask
from .process import lives
from .state import Running, State

_QUEUE = "_queue_reqs"


class Seen(NamedTuple):
    """A part at one moment. `loads` is what /v1/loads says, in SGLang's names; empty where it said nothing."""

    part: Running
    lives: bool
    healthy: bool
    pool_tokens: int | None
    loads: Mapping[str, Any]

    @property
    def used_tokens(self) -> int | None:
        return self.loads.get("num_used_tokens")

    @property
    def queues(self) -> dict[str, int]:
        """Who waits, by queue: that of the scheduler, and those of its role."""
        of_role = self.loads.get("disaggregation") or {}
        named = {key.partition("_")[2][: -len(_QUEUE)]: n for key, n in of_role.items() if key.endswith(_QUEUE)}
        return {"waiting": self.loads.get("num_waiting_reqs", 0), **named} if self.loads else {}


def look(state: State, key: str | None) -> list[Seen]:
    if not state.parts:
        return []
    with ThreadPoolExecutor(len(state.parts)) as asking:
        return list(asking.map(lambda part: _seen(part, key), state.parts))


def _seen(part: Running, key: str | None) -> Seen:
    if not lives(part.identity):
        return Seen(part, False, False, None, {})
    if part.role == ROUTER:
        return Seen(part, True, ask(part.url, "/readiness", key=key).status == 200, None, {})
    healthy = ask(part.url, "/health", key=key).status == 200
    loads = _first(ask(part.url, "/v1/loads", key=key).json, "loads") if healthy else {}
    return Seen(part, True, healthy, _pool(part.url, key) if healthy else None, loads)


def _pool(url: str, key: str | None) -> int | None:
    info = ask(url, "/server_info", key=key).json
    size = {**_first(info, "internal_states"), **(info if isinstance(info, dict) else {})}.get("max_total_num_tokens")
    return size if isinstance(size, int) else None


def _first(document: Any, name: str) -> Mapping[str, Any]:
    """The first of a list of objects that has that name; empty where there is none."""
    rows = document.get(name) if isinstance(document, dict) else None
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
