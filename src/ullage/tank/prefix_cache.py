"""A tree of computed pages: prompts that begin alike share them, and they stay until somebody needs the room.

A node is one page. A lock on a node locks the whole way up to the root, so what is not locked can be evicted from the
leaves on, the least recently used first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from .pages import PagePool


class Node:
    """One page of the tree and the tokens in it. The root has neither."""

    __slots__ = ("children", "locks", "page", "parent", "tokens", "used_at")

    def __init__(self, tokens: tuple[int, ...], page: int, parent: Node | None) -> None:
        self.tokens = tokens
        self.page = page
        self.parent = parent
        self.children: dict[tuple[int, ...], Node] = {}
        self.locks = 0
        self.used_at = 0


class PrefixCache:
    """Pages by the tokens that lead to them. `evictable` counts the pages that nobody has locked."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._page_size = pool.page_size
        self._clock = 0
        self.root = Node((), -1, None)
        self.size = 0
        self.evictable = 0

    def match(self, tokens: Sequence[int]) -> Node:
        """The deepest node whose whole way is how `tokens` begins."""
        self._clock += 1
        node = self.root
        for chunk in self._chunks(tokens):
            child = node.children.get(chunk)
            if child is None:
                break
            child.used_at = self._clock
            node = child
        return node

    def insert(self, tokens: Sequence[int], pages: Sequence[int]) -> tuple[Node, list[int]]:
        """Puts whole pages in. Where the tree has a page for the same tokens already, that one stands and the other is
        given back. Returns the deepest node and the pages that now stand for the tokens.
        """
        self._clock += 1
        node, stand = self.root, []
        for chunk, page in zip(self._chunks(tokens), pages, strict=False):
            child = node.children.get(chunk)
            if child is None:
                child = node.children[chunk] = Node(chunk, page, node)
                self.size += 1
                self.evictable += 1
            elif child.page != page:
                self._pool.give([page])
            child.used_at = self._clock
            stand.append(child.page)
            node = child
        return node, stand

    def lock(self, node: Node) -> None:
        for each in self._up(node):
            self.evictable -= each.locks == 0
            each.locks += 1

    def unlock(self, node: Node) -> None:
        for each in self._up(node):
            each.locks -= 1
            self.evictable += each.locks == 0

    def locked_once(self, node: Node) -> int:
        """Pages on the way to a node that only one holds."""
        return sum(each.locks == 1 for each in self._up(node))

    def evict(self, count: int) -> None:
        """Gives back up to `count` pages that nobody has locked."""
        leaves = [(n.used_at, id(n), n) for n in self._nodes() if not n.children and not n.locks]
        heapq.heapify(leaves)
        while count > 0 and leaves:
            _, _, node = heapq.heappop(leaves)
            parent = self._remove(node)
            if parent is not self.root and not parent.children and not parent.locks:
                heapq.heappush(leaves, (parent.used_at, id(parent), parent))
            count -= 1

    def pages_to(self, node: Node) -> list[int]:
        """The pages from the root to a node."""
        return [each.page for each in self._up(node)][::-1]

    def _remove(self, node: Node) -> Node:
        assert node.parent is not None
        del node.parent.children[node.tokens]
        self._pool.give([node.page])
        self.size -= 1
        self.evictable -= 1
        return node.parent

    def _up(self, node: Node) -> Iterator[Node]:
        while node.parent is not None:
            yield node
            node = node.parent

    def _nodes(self) -> Iterator[Node]:
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def _chunks(self, tokens: Sequence[int]) -> Iterator[tuple[int, ...]]:
        size = self._page_size
        for start in range(0, len(tokens) // size * size, size):
            yield tuple(tokens[start : start + size])
