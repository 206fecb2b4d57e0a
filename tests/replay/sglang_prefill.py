"""A PD prefill server: every request is forced to one new token and holds its prompt until the transfer has ended."""

from __future__ import annotations

from .pages import PagePool

_MAX_NEW = 1


def admitted(*, pool: int, page: int, prompt: int, max_running: int, window_cap: int | None = None) -> int:
    """How many identical requests hold their prompt at once when no transfer ends.

    `window_cap`: the sliding-window pool, where the build caps a prompt at it.
    """
    if prompt > pool or (window_cap is not None and prompt > window_cap):
        return 0  # refused at once
    full = PagePool(pool, page)
    inflight: list[list[int]] = []  # the pages of each
    while len(inflight) < max_running and prompt + _MAX_NEW + page < full.free:
        inflight.append(full.take(prompt))
    return len(inflight)
