"""The request table: a row for each request that holds KV, with the pages of its tokens in order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .sequence import Sequence


class RequestTable:
    """int32 [rows, pages of the longest request]: what attention reads to find a token. A row is a request slot."""

    def __init__(self, rows: int, width: int) -> None:
        self.pages: NDArray[np.int32] = np.zeros((rows, width), dtype=np.int32)
        self._free = list(range(rows - 1, -1, -1))

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, sequence: Sequence) -> None:
        sequence.row = self._free.pop()

    def give(self, sequence: Sequence) -> None:
        """Of one that has no row nothing is taken."""
        if sequence.row is not None:
            self._free.append(sequence.row)
            sequence.row = None

    def lookup(self, sequences: list[Sequence]) -> NDArray[np.int32]:
        """int32 [sequences, pages of the longest of them], as of now."""
        rows = np.array([sequence.row for sequence in sequences], dtype=np.int64)
        for row, sequence in zip(rows, sequences, strict=True):
            self.pages[row, : len(sequence.pages)] = sequence.pages
        return self.pages[rows, : max(len(sequence.pages) for sequence in sequences)]
