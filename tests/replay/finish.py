"""Growing to the end: every request gains one token a step and takes a page when its last one is full."""

from __future__ import annotations

from .pages import PagePool, PoolEmptyError


def finish(*, pool: int, page: int, prompt: int, output: int, n: int) -> bool:
    """Do n identical requests, all in with their prompts, reach prompt + output tokens with no retraction?"""
    full = PagePool(pool, page)
    try:
        held = [full.take(prompt) for _ in range(n)]
        for tokens in range(prompt + 1, prompt + output + 1):
            for pages in held:
                if tokens > len(pages) * page:
                    pages += full.take(1)
    except PoolEmptyError:
        return False
    return True
