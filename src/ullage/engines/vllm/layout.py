"""Which groups of blocks a server has: decided by what reproduces the figures that it states.

No endpoint and no line of the log lists the groups. But blocks of the pool over full-length requests in parallel is the
number of blocks that one such request takes, which tells one group from several, and mostly which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..version import Release
from .families import Family, Layers
from .groups import (
    PRINTED,
    Layout,
    deepseek_v4,
    divided_solutions,
    full_group,
    one_group,
    one_window,
    solved,
    state_solutions,
    states_of_a_group,
    window_group,
    window_solutions,
    with_states,
)
from .size import TOKENS_ARE_CONCURRENCY

_BLOCK = 16
_USUAL_GROUPS = 3  # of recurrent layers
_ROUGHLY = 0.02  # of a full-length request: both figures are rounded
_IN_FLIGHT_BATCHES = (0, 26, 0)  # since then windows count every batch that is under way at once


@dataclass(frozen=True, slots=True)
class Stated:
    """What is known of one engine's pool. `length`: max_model_len. `blocks`: of this engine, the null block included.
    `concurrency`: full-length requests, `rounded` where a log printed it. `printed`: "KV cache size" in tokens.
    """

    length: int | None = None
    block: int = 16
    blocks: int | None = None
    concurrency: float | None = None
    rounded: bool = True
    printed: int | None = None
    batched: int | None = None  # max_num_batched_tokens
    release: Release | None = None
    family: Family | None = None
    enlarged_block: bool = False  # the block was enlarged to hold a recurrent state
    parallel: int = 1
    shares: bool = False
    draft: int = 0

    @property
    def request_blocks(self) -> range:
        """Blocks of one full-length request that fit the stated figures."""
        if self.blocks is None or not self.concurrency:
            return range(0)
        slack = PRINTED if self.rounded else 1e-6 * self.concurrency
        least, most = self.blocks / (self.concurrency + slack), self.blocks / max(self.concurrency - slack, 1e-9)
        return range(int(-(-least // 1)), int(most) + 1)

    @property
    def is_divided(self) -> bool:
        """Did it print the pool divided by the groups, as builds before 0.20.2 do for models with several?"""
        if not (self.concurrency and self.printed and self.length):
            return False
        return self.printed < (self.concurrency - PRINTED) * self.length - self.block

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Tokens that one request may have in flight, the likeliest first."""
        if self.batched is None:
            return ()
        once, twice = self.batched, 2 * self.batched
        return (once, twice) if self.release is not None and self.release < _IN_FLIGHT_BATCHES else (twice, once)


class Decision(NamedTuple):
    """`layout` None: the groups are not known, and `request_blocks` (blocks of a full-length request, if known) bounds
    them. `proven`: it reproduces what the engine states; else it is inferred.
    """

    layout: Layout | None
    blocks: int | None
    request_blocks: int | None
    proven: bool
    why: str


def decide(stated: Stated) -> Decision:
    if stated.request_blocks and stated.length:
        return _by_blocks(stated, stated.length)
    if stated.printed and stated.concurrency and stated.length:
        return _by_tokens(stated, stated.printed, stated.length)
    return _by_name(stated)


def _by_blocks(stated: Stated, length: int) -> Decision:
    """The pool and the concurrency are stated: their ratio decides."""
    found = [(layout, blocks) for blocks in stated.request_blocks for layout in _candidates(stated, length, blocks)]
    if found and _agree([layout for layout, _ in found], length):
        layout, blocks = found[0]
        why = f"{blocks:,} blocks for {length:,} tokens, as {layout.kind} would take"
        known = len(stated.request_blocks) == 1 and (stated.family is not None or len(layout.asked.groups) == 1)
        return Decision(layout, stated.blocks, blocks, known, why)
    if not found and (windowed := _one_window(stated, length)) is not None:
        return windowed
    most = stated.request_blocks[-1]
    return Decision(
        None,
        stated.blocks,
        most,
        False,
        f"a full-length request takes {most:,} blocks; how fewer tokens"
        " take fewer is not known, for nothing tells the groups of layers",
    )


def _candidates(stated: Stated, length: int, blocks: int) -> Iterator[Layout]:
    full = full_group(stated.block, parallel=stated.parallel, shares=stated.shares, draft=stated.draft)
    rest = blocks - full.units(length)
    layers = stated.family.layers if stated.family else None
    if rest == 0:
        yield one_group(stated.block, parallel=stated.parallel, shares=stated.shares, draft=stated.draft)
    elif layers is Layers.DEEPSEEK_V4:
        layouts = [deepseek_v4(flight, shares=stated.shares, draft=stated.draft) for flight in stated.in_flight]
        yield from (layout for layout in layouts if layout.blocks(length) == blocks)
    elif rest > 0 and (stated.enlarged_block or layers is Layers.STATES):
        yield with_states(full, rest)
    elif rest > 0 and layers is not Layers.PLAIN:
        window = stated.family.window if stated.family else None
        yield from solved(full, stated.block, length, blocks, stated.in_flight or (length,), window)


def _one_window(stated: Stated, length: int) -> Decision | None:
    """Of one group where a request takes one block more than its tokens do, or fewer than they do. The most blocks that
    the rounding leaves open.
    """
    full, most = -(-length // stated.block), max(stated.request_blocks, default=0)
    plain = stated.family is not None and stated.family.layers is Layers.PLAIN
    if (
        stated.parallel > 1
        or stated.enlarged_block
        or most < 2
        or not (most == full + 1 or (plain and most < full - 1))
    ):
        return None
    window = stated.family.window if stated.family else None
    asked = (most - 1) * stated.block if most <= full else None
    held = window or (asked - min(stated.in_flight) + 1 if asked and stated.in_flight else asked)
    layout = one_window(stated.block, asked, held and max(held, stated.block), draft=stated.draft)
    why = f"{most:,} blocks for {length:,} tokens, as {layout.kind} would take"
    told = most > full or any(
        window_group(window, stated.block, flight).units(length) == most for flight in stated.in_flight if window
    )
    return Decision(layout, stated.blocks, most, plain and told and len(stated.request_blocks) == 1, why)


def _agree(layouts: list[Layout], length: int) -> bool:
    """Do they hold the same at every length? Layouts with other states for another rounding do not."""
    probes = [max(1, length * part // 16) for part in range(1, 17)]
    return len({tuple(layout.blocks(tokens) for tokens in probes) for layout in layouts}) == 1


def _by_tokens(stated: Stated, printed: int, length: int) -> Decision:
    """Only tokens and concurrency are stated, as in a log."""
    layers = stated.family.layers if stated.family else None
    if layers is Layers.DEEPSEEK_V4 and stated.in_flight:
        layout = deepseek_v4(stated.in_flight[0], shares=stated.shares, draft=stated.draft)
        request = layout.blocks(length)
        return Decision(layout, -(-printed * request // length), request, False, f"{layout.kind} by the model's name")
    divided_would_show = stated.release is not None and stated.release < TOKENS_ARE_CONCURRENCY
    if stated.enlarged_block:
        return _states(stated, printed, length)
    if layers is Layers.PLAIN and (windowed := _all_windows(stated, printed, length)) is not None:
        return windowed
    if not stated.is_divided and (layers is Layers.PLAIN or (divided_would_show and layers is not Layers.WINDOWS)):
        return _plain(stated, printed, length, divided_would_show)
    if layers is Layers.STATES:
        return _states(stated, printed, length)
    if stated.is_divided and stated.family is not None and stated.family.window:
        return _windows(stated, stated.family.window, printed, length)
    if layers is None and not stated.is_divided and printed % _BLOCK == 0 and length % _BLOCK == 0:
        decided = _plain(stated, printed, length, agrees=False)
        return decided._replace(
            why="one group of layers: the printed tokens are whole blocks, which others seldom print"
        )
    return _bounded()


def _states(stated: Stated, printed: int, length: int) -> Decision:
    full = full_group(stated.block, parallel=stated.parallel, shares=stated.shares, draft=stated.draft)
    concurrency = stated.concurrency or 0.0
    fits = list(
        divided_solutions(full, stated.block, length, printed, concurrency)
        if stated.is_divided
        else state_solutions(full, length, printed, concurrency, pairs=stated.shares)
    )
    if not stated.enlarged_block or not fits:
        return _bounded()
    usual = _USUAL_GROUPS * states_of_a_group(full, pairs=stated.shares)
    states, pool = next((fit for fit in reversed(fits) if fit[0] <= usual), fits[0])
    layout = with_states(full, states)
    one = len(fits) == 1
    why = f"{layout.kind}: {'the only number' if one else 'the likeliest of several'} that gives the printed figures"
    return Decision(layout, pool, layout.blocks(length), one, why)


def _windows(stated: Stated, window: int, printed: int, length: int) -> Decision:
    """Windows of a length that the family tells; the two figures tell how many groups have them."""
    full = full_group(stated.block, parallel=stated.parallel, shares=stated.shares, draft=stated.draft)
    for flight in stated.in_flight:
        fits = [*window_solutions(full, (window, stated.block), flight, length, printed, stated.concurrency or 0.0)]
        if len(fits) == 1:
            layout, pool = fits[0]
            why = f"{layout.kind}: the only number that gives the printed figures"
            return Decision(layout, pool, layout.blocks(length), False, why)
    return _bounded()


def _all_windows(stated: Stated, printed: int, length: int) -> Decision | None:
    """One group of a window: builds before 0.20.2 print all its blocks, and the concurrency tells those of a request.
    Later ones print the concurrency again, so that the model's window has to be known.
    """
    whole = printed // (stated.block * stated.parallel)
    if stated.is_divided or (stated.release is not None and stated.release < TOKENS_ARE_CONCURRENCY):
        takes_less = whole / -(-length // (stated.block * stated.parallel)) <= (stated.concurrency or 0.0) + _ROUGHLY
        one = not stated.is_divided and takes_less
        return None if one else _one_window(replace(stated, blocks=whole), length)
    window = stated.family.window if stated.family else None
    if window is None or stated.parallel > 1:
        return None
    if not stated.in_flight and window < length:
        return _bounded()
    asked = window - 1 + (stated.in_flight or (length,))[0]
    layout = one_window(stated.block, asked if asked < length else None, window, draft=stated.draft)
    request = layout.blocks(length)
    pool = -(-printed * request // length)
    return Decision(
        layout, pool if stated.release else min(pool, whole), request, False, f"{layout.kind}, by the model"
    )


def _plain(stated: Stated, printed: int, length: int, agrees: bool) -> Decision:
    """`agrees`: of a release that would print fewer tokens than the concurrency gives, if there were several groups."""
    layout = one_group(stated.block, parallel=stated.parallel, shares=stated.shares, draft=stated.draft)
    request = layout.blocks(length)
    pool = printed // (stated.block * stated.parallel) if agrees else -(-printed * request // length)
    if stated.concurrency is not None and pool / request > stated.concurrency + _ROUGHLY:
        return _bounded()  # a request takes more than its tokens: an encoder's too, for one
    why = "tokens and concurrency agree, as they do for one group" if agrees else "one group of layers, by the model"
    return Decision(layout, pool, request, agrees and stated.family is not None, why)


def _bounded() -> Decision:
    why = "the log states full-length requests only, and the model has several groups of layers, or may have"
    return Decision(None, None, None, False, why)


def _by_name(stated: Stated) -> Decision:
    """Blocks or tokens alone."""
    layers = stated.family.layers if stated.family else None
    blocks = (
        stated.blocks
        if stated.blocks is not None
        else (stated.printed or 0) // (stated.block * stated.parallel) or None
    )
    if layers is Layers.DEEPSEEK_V4 and stated.in_flight:
        layout = deepseek_v4(stated.in_flight[0], shares=stated.shares, draft=stated.draft)
        return Decision(
            layout,
            stated.blocks,
            layout.blocks(stated.length) if stated.length else None,
            False,
            f"{layout.kind} by the model's name",
        )
    if layers in (None, Layers.PLAIN) and not stated.enlarged_block:
        layout = one_group(stated.block, parallel=stated.parallel, shares=stated.shares, draft=stated.draft)
        request = layout.blocks(stated.length) if stated.length else None
        return Decision(layout, blocks, request, False, "as for one group of layers; nothing states the groups")
    return Decision(None, stated.blocks, None, False, "nothing tells the groups of layers that draw on the pool")
