"""The pool is full: who goes back, so that the others can take their next token.

SGLang's order (managers/schedule_batch.py, retract_decode): those who have generated least, and of these the longest
prompt first.
"""

from __future__ import annotations

from ..kv_pool import KvPool
from ..sequence import Sequence


def pages_for_next_token(running: list[Sequence], page_size: int) -> int:
    """Pages that one more token for each takes."""
    return sum(sequence.pages_short(sequence.length, page_size) for sequence in running)


def to_retract(running: list[Sequence], pool: KvPool, least_left: int) -> list[Sequence]:
    """Those who have to go; [] where the pool has room for all. `least_left` of them stay whatever happens."""
    order = sorted(running, key=lambda s: (len(s.output_ids), -len(s.prompt_ids)), reverse=True)
    gone: list[Sequence] = []
    gained = 0
    while len(order) > least_left and _short(order, pool, gained):
        last = order.pop()
        gained += pool.gives_back(last)
        gone.append(last)
    return gone


def _short(running: list[Sequence], pool: KvPool, gained: int) -> bool:
    return pages_for_next_token(running, pool.page_size) > pool.pages.free + pool.cache.evictable + gained
