"""The KV of a retracted request, out of the pool and in the host's memory until there is room again."""

from __future__ import annotations

from ..kv_pool import KvPool
from ..sequence import Sequence


class Backup:
    """Copied when made, written back by `restore`, bit by bit the same."""

    def __init__(self, sequence: Sequence, pool: KvPool) -> None:
        self.sequence = sequence
        self._computed = sequence.computed
        self._kv = pool.kv[:, :, pool.slots(sequence, 0, sequence.computed)]

    def restore(self, pool: KvPool) -> None:
        pool.grow(self.sequence, self.sequence.length)
        pool.kv[:, :, pool.slots(self.sequence, 0, self._computed)] = self._kv
        self.sequence.computed = self._computed
