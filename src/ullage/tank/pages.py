"""The KV pool's pages. Each is in one place at a time: free, held by a sequence, or in the prefix cache."""

from __future__ import annotations

from collections.abc import Iterable


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def ceil_page(tokens: int, page_size: int) -> int:
    """Tokens rounded up to whole pages."""
    return ceil_div(tokens, page_size) * page_size


class PagePool:
    """`size` pages of `page_size` tokens, numbered from 0. The last one given back is taken first."""

    def __init__(self, size: int, page_size: int) -> None:
        self.size = size
        self.page_size = page_size
        self._free = list(range(size - 1, -1, -1))
        self._is_free = [True] * size

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int]:
        if count > len(self._free):
            raise AssertionError(f"{count} pages asked of {len(self._free)} free")
        taken = [self._free.pop() for _ in range(count)]
        for page in taken:
            self._is_free[page] = False
        return taken

    def give(self, pages: Iterable[int]) -> None:
        for page in pages:
            if self._is_free[page]:
                raise AssertionError(f"page {page} is given back twice")
            self._is_free[page] = True
            self._free.append(page)
