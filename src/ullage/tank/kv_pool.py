"""The KV pool: its memory, its pages, and the prefix cache that keeps what is not needed now."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .pages import PagePool
from .prefix_cache import Node, PrefixCache
from .sequence import Sequence


class KvPool:
    """used + evictable + available = size, in tokens, at all times.

    `kv`: float32 [layers, 2, slots, kv_heads, head_dim], a slot for each token. Without `prefix_cache` nothing outlives
    its request.
    """

    def __init__(self, kv: NDArray[np.float32], page_size: int, *, prefix_cache: bool) -> None:
        self.kv = kv
        self.page_size = page_size
        self.pages = PagePool(kv.shape[2] // page_size, page_size)
        self.cache = PrefixCache(self.pages)
        self._caches = prefix_cache

    @property
    def size_tokens(self) -> int:
        return self.pages.size * self.page_size

    @property
    def available_tokens(self) -> int:
        return self.pages.free * self.page_size

    @property
    def evictable_tokens(self) -> int:
        return self.cache.evictable * self.page_size

    @property
    def used_tokens(self) -> int:
        return self.size_tokens - self.available_tokens - self.evictable_tokens

    @property
    def room_tokens(self) -> int:
        """What can be had: free, or cached and not locked."""
        return self.available_tokens + self.evictable_tokens

    def begin(self, sequence: Sequence) -> None:
        """Gives a waiting sequence what the cache has of it. One token at least is left to compute."""
        if not self._caches:
            return
        node = self.cache.match(sequence.ids[:-1])
        self._hold(sequence, node)
        sequence.pages = self.cache.pages_to(node)
        sequence.shared = len(sequence.pages)
        sequence.computed = sequence.shared * self.page_size
        sequence.cached_tokens = max(sequence.cached_tokens, sequence.computed)

    def grow(self, sequence: Sequence, tokens: int) -> None:
        """Pages for so many tokens in all. The caller has seen that there is room."""
        short = sequence.pages_short(tokens, self.page_size)
        if short > self.pages.free:
            self.cache.evict(short - self.pages.free)
        sequence.pages += self.pages.take(short)

    def publish(self, sequence: Sequence) -> None:
        """What it has computed, in whole pages, becomes of use to others."""
        if not self._caches:
            return
        whole = sequence.computed // self.page_size
        node, stand = self.cache.insert(sequence.ids[: whole * self.page_size], sequence.pages[:whole])
        sequence.pages[:whole] = stand
        sequence.shared = whole
        self._hold(sequence, node)

    def release(self, sequence: Sequence, *, keep: bool = True) -> None:
        """It holds nothing any more. What is computed stays in the cache, unless it is not to be kept."""
        if keep:
            self.publish(sequence)
        self.pages.give(sequence.pages[sequence.shared :])
        if sequence.node is not None:
            self.cache.unlock(sequence.node)
        sequence.node = None
        sequence.pages = []
        sequence.shared = sequence.computed = 0

    def gives_back(self, sequence: Sequence) -> int:
        """Pages at least that would be free, or could be evicted, without it."""
        own = len(sequence.pages) - sequence.shared
        return own + (0 if sequence.node is None else self.cache.locked_once(sequence.node))

    def flush(self) -> None:
        """Forgets all that nobody holds."""
        self.cache.evict(self.cache.size)

    def slots(self, sequence: Sequence, start: int, stop: int) -> NDArray[np.int64]:
        """Where in the pool the tokens from `start` up to `stop` are."""
        positions = np.arange(start, stop, dtype=np.int64)
        table = np.asarray(sequence.pages, dtype=np.int64)
        return table[positions // self.page_size] * self.page_size + positions % self.page_size

    def _hold(self, sequence: Sequence, node: Node) -> None:
        """Moves its lock: the new one is taken before the old one goes."""
        self.cache.lock(node)
        if sequence.node is not None:
            self.cache.unlock(sequence.node)
        sequence.node = node
