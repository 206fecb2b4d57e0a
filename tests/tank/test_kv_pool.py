"""free + used + evictable = size, and no page is in two places, whatever requests do."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.tank.sequences import sequence
from ullage.tank.kv_pool import KvPool
from ullage.tank.sequence import Sequence

PAGES = 12


class Pool(RuleBasedStateMachine):
    """Requests begin, are computed chunk by chunk, grow, are published, and end, are aborted or are retracted."""

    @initialize(page_size=st.sampled_from([1, 2, 4]), caches=st.booleans())
    def start(self, page_size: int, caches: bool) -> None:
        kv = np.zeros((1, 2, PAGES * page_size, 1, 1), dtype=np.float32)
        self.pool = KvPool(kv, page_size, prefix_cache=caches)
        self.alive: list[Sequence] = []
        self.waiting: list[Sequence] = []

    @rule(prompt=st.lists(st.integers(0, 1), min_size=1, max_size=20))
    def arrive(self, prompt: list[int]) -> None:
        self.waiting.append(sequence(prompt))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        one = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        self.pool.begin(one)
        assert one.computed < one.length  # a token is left to compute
        assert one.computed % self.pool.page_size == 0
        self.alive.append(one)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), tokens=st.integers(1, 8))
    def compute(self, data: st.DataObject, tokens: int) -> None:
        """A chunk, if there is room for it, and its publication."""
        one = data.draw(st.sampled_from(self.alive))
        tokens = min(tokens, one.uncomputed)
        if one.pages_short(one.computed + tokens, self.pool.page_size) * self.pool.page_size > self.pool.room_tokens:
            return
        self.pool.grow(one, one.computed + tokens)
        one.computed += tokens
        if not one.uncomputed:
            one.output_ids.append(len(one.output_ids) % 2)
        self.pool.publish(one)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), keep=st.booleans(), again=st.booleans())
    def leave(self, data: st.DataObject, keep: bool, again: bool) -> None:
        """It ends (kept), is aborted (not kept), or is retracted and waits again."""
        one = data.draw(st.sampled_from(self.alive))
        self.alive.remove(one)
        before, promised = self.pool.room_tokens, self.pool.gives_back(one) * self.pool.page_size
        self.pool.release(one, keep=keep)
        assert self.pool.room_tokens == before + promised
        assert not one.pages
        if again:
            self.waiting.append(one)

    @rule()
    def flush(self) -> None:
        self.pool.flush()
        assert self.pool.evictable_tokens == 0

    @invariant()
    def the_parts_sum_to_the_whole(self) -> None:
        pool = self.pool
        held = {page for one in self.alive for page in one.pages}
        assert pool.available_tokens + pool.used_tokens + pool.evictable_tokens == pool.size_tokens
        assert pool.used_tokens == len(held) * pool.page_size
        assert pool.evictable_tokens >= 0

    @invariant()
    def no_page_has_two_owners(self) -> None:
        own = Counter(page for one in self.alive for page in one.pages[one.shared :])
        cached = Counter(node.page for node in self.pool.cache._nodes())
        assert all(count == 1 for count in (own + cached).values())
        assert all(page in cached for one in self.alive for page in one.pages[: one.shared])

    @invariant()
    def everyone_has_room_for_what_is_computed(self) -> None:
        for one in self.alive:
            assert len(one.pages) * self.pool.page_size >= one.computed

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            for one in self.alive:
                self.pool.release(one)
            self.pool.flush()
            assert self.pool.available_tokens == self.pool.size_tokens


TestPool = Pool.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_least_recently_used_goes_first() -> None:
    pool = KvPool(np.zeros((1, 2, 4, 1, 1), dtype=np.float32), 1, prefix_cache=True)
    for prompt in ([1, 9], [2, 9], [1, 9]):  # [1] is used again after [2]
        one = sequence(prompt)
        pool.begin(one)
        pool.grow(one, 2)
        one.computed = 2
        pool.release(one)
    pool.cache.evict(2)
    left = sequence([1, 9, 9])
    gone = sequence([2, 9, 9])
    pool.begin(left)
    pool.begin(gone)
    assert (left.computed, gone.computed) == (2, 0)
