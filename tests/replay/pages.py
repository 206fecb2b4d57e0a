"""A pool of whole pages, handed out one by one. A replay is given sizes in tokens and never counts pages itself."""

from __future__ import annotations


class PoolEmptyError(Exception):
    """Fewer pages are free than were asked for."""


class PagePool:
    def __init__(self, tokens: int, page: int) -> None:
        self.page = page
        self._free = list(range(tokens // page))

    @property
    def free(self) -> int:
        """Free tokens, always whole pages."""
        return len(self._free) * self.page

    def take(self, tokens: int) -> list[int]:
        """Take pages until they hold that many tokens; take none when they do not suffice."""
        if tokens > self.free:
            raise PoolEmptyError
        taken: list[int] = []
        while len(taken) * self.page < tokens:
            taken.append(self._free.pop())
        return taken


def ceil_page(tokens: int, page: int) -> int:
    return -(-tokens // page) * page


def swa_tail(prompt: int, window: int, page: int) -> int:
    """The sliding-window slots of a prompt: at most window + page - 1, in whole pages."""
    return ceil_page(min(prompt, window + page - 1), page)
