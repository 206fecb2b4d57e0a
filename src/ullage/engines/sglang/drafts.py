"""Which lines of a start are a draft model's: it is loaded second, before or after the target's pool is made; its pool
is made second, of as many tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..events import Event
from .lines import Step

_LOADS = (Step.LOAD_BEGIN, Step.LOAD_END)
_POOLS = (Step.KV, Step.POOL_END)
_CLASS = re.compile(r"NextN|Eagle|MTP|DSpark|DFlash|Draft", re.IGNORECASE)


def is_drafts(event: Event, before: Sequence[Event], begin: int | None) -> bool:
    """`before`: the events of its rank before it. `begin`: where the drafts begin, if anything tells."""
    if event.step in _LOADS:
        return any(e.step is event.step or e.step in _POOLS for e in before) or _is_after(event, before, begin)
    if event.step is Step.POOL_END:
        return any(e.step is Step.POOL_END for e in before) or _follows(event, before, begin)
    if event.step is not Step.KV:
        return False
    tokens = event.values.get("kv_line_tokens")
    again = tokens is not None and any(e.values.get("kv_line_tokens") == tokens for e in before)
    return again or any(e.step is Step.POOL_END for e in before) or _follows(event, before, begin)


def drafts_begin(events: Sequence[Event]) -> int | None:
    """The line from which a draft model is loaded, where its class tells it and pools of whatever rank are made before
    it: the lines before them may be missing. (The ranks of one server size their pools together.)
    """
    loaded = next((e.line.number for e in events if e.step is Step.LOAD_END and _is_named(e)), None)
    pools = [e.line.number for e in events if e.step in _POOLS and loaded is not None and e.line.number < loaded]
    if not pools:
        return None
    return min(e.line.number for e in events if e.step in _LOADS and e.line.number > pools[-1])


def _is_named(event: Event) -> bool:
    return _CLASS.search(str(event.values.get("model_class", ""))) is not None


def _follows(event: Event, before: Sequence[Event], begin: int | None) -> bool:
    return _loads_after_a_pool(before) or _is_after(event, before, begin)


def _is_after(event: Event, before: Sequence[Event], begin: int | None) -> bool:
    """After the begin of the drafts, on a rank of which no line states the target's weights."""
    target = any(e.step is Step.LOAD_END and not _is_named(e) for e in before)
    return begin is not None and event.line.number >= begin and not target


def _loads_after_a_pool(events: Sequence[Event]) -> bool:
    pool = next((place for place, e in enumerate(events) if e.step is Step.KV), len(events))
    return any(e.step is Step.LOAD_BEGIN for e in events[pool:])
