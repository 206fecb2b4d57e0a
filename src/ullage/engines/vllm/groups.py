"""vLLM's groups of blocks: what one request holds of the block pool, by the kinds of layers.

Layers of one kind form groups of equal size, whose pages lie side by side in a block; a block belongs to one group at a
time (v1/core/kv_cache_utils.py, kv_cache_interface.py). Blocks of one request at a length, per group:

    full attention, MLA   ceil(ceil(tokens / context_parallel) / block)
    sliding window W      ceil(min(W - 1 + in flight, tokens) / block) + 1 (SlidingWindowSpec; also as the only group)
    recurrent state       1 (2 where prefixes are cached), and the speculative ones

"In flight" is what one request may have scheduled and not settled: max_num_batched_tokens up to 0.25, as many for each
batch that is under way at once since 0.26 (two with asynchronous scheduling).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ...capacity.demand import Demand, Together

V4_BLOCK = 256  # DeepSeek-V4's main block size, in tokens
V4_WINDOWS = ((128, 64), (128, 64), (8, 4), (128, 8))  # its window groups: (window, block), the last two hold states
_DECODING = 1  # tokens in flight of a request that generates
_MOST_GROUPS = 12
PRINTED = 0.0051  # the log rounds the concurrency to two decimals
_WINDOWS = (128, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a request holds: `asked` of the pool when it is let in, with a whole batch of its tokens in flight; `held`
    while it generates. `kind` names the groups.
    """

    kind: str
    asked: Together
    held: Together

    def blocks(self, tokens: int) -> int:
        """Blocks of one request of so many tokens, as the engine's own concurrency counts them."""
        return sum(group.units(tokens) for group in self.asked.groups)

    @property
    def is_plain(self) -> bool:
        """One group, in which requests hold their tokens and no more: blocks x tokens of a block are what it holds."""
        first, *others = self.asked.groups
        return not others and first.window is None and not first.fixed

    @property
    def slope(self) -> Fraction:
        """Blocks for each token of a long request: of the groups without a window."""
        return sum((Fraction(group.per_token) for group in self.asked.groups if group.window is None), Fraction(0))

    @property
    def fixed(self) -> int:
        """Blocks of a long request that do not grow with its length: recurrent states, and windows with what is in
        flight.
        """
        return sum(g.fixed if g.window is None else g.units(g.window) for g in self.asked.groups)


def one_group(block: int, *, parallel: int = 1, shares: bool = False, draft: int = 0) -> Layout:
    """A model whose layers are all of one kind. `parallel`: ranks that share out the tokens (DCP x PCP)."""
    group = full_group(block, parallel=parallel, shares=shares, draft=draft)
    return Layout("one group of layers", Together((group,)), Together((group,)))


def one_window(block: int, asked: int | None, held: int | None, *, draft: int = 0) -> Layout:
    """A model whose layers all have the same window. `asked`: tokens of a request that are held at most, with a batch
    in flight; `held`: those of one that generates. None: all of its tokens.
    """
    groups = [Together((Demand(Fraction(1, block), 1, window=tokens, draft=draft),)) for tokens in (asked, held)]
    return Layout("one group of layers, with a window", *groups)


def with_states(full: Demand, states: int) -> Layout:
    """Attention and recurrent layers: `states` blocks a request, whatever its length."""
    groups = Together((full, Demand(per_token=0, fixed=states)))
    return Layout(f"attention, and {states} state blocks a request", groups, groups)


def with_windows(full: Demand, windows: Sequence[tuple[int, int]], in_flight: int) -> Layout:
    """Full attention and window groups: (window, block) each, both in tokens."""
    asked = [window_group(window, block, in_flight, full.draft) for window, block in windows]
    held = [window_group(window, block, _DECODING, full.draft) for window, block in windows]
    return Layout(
        f"full attention, and {len(windows)} window groups", Together((full, *asked)), Together((full, *held))
    )


def deepseek_v4(in_flight: int, *, shares: bool = False, draft: int = 0) -> Layout:
    """Five groups (facts 1.5): MLA and indexer, two of windows, two of compressor states with blocks of 4 and 8 tokens,
    which is why a batch in flight costs so much.
    """
    layout = with_windows(full_group(V4_BLOCK, shares=shares, draft=draft), V4_WINDOWS, in_flight)
    return replace(layout, kind="DeepSeek-V4's five groups")


def full_group(block: int, *, parallel: int = 1, shares: bool = False, draft: int = 0) -> Demand:
    return Demand(per_token=Fraction(1, block * parallel), shares=shares, draft=draft)


def window_group(window: int, block: int, in_flight: int, draft: int = 0) -> Demand:
    return Demand(per_token=Fraction(1, block), fixed=1, window=window - 1 + in_flight, draft=draft)


def solved(
    full: Demand, block: int, length: int, blocks: int, in_flight: Sequence[int], window: int | None
) -> list[Layout]:
    """The layouts with equal windows in which a request of `length` tokens takes `blocks` blocks.

    `window`: of the model, where it is known; else the usual ones are tried. Those that agree at every length up to
    `length` count once.
    """
    rest = blocks - full.units(length)
    found: dict[tuple[int, ...], Layout] = {}
    for size in (window,) if window else _WINDOWS:
        for flight in in_flight:
            each = window_group(size, block, flight).units(length)
            if rest > 0 and rest % each == 0 and rest // each <= _MOST_GROUPS:
                layout = with_windows(full, [(size, block)] * (rest // each), flight)
                found.setdefault(_curve(layout, length), layout)
    return list(found.values())


def _curve(layout: Layout, length: int) -> tuple[int, ...]:
    """Blocks at some lengths: two layouts that agree there hold the same."""
    return tuple(layout.blocks(max(1, length * eighth // 8)) for eighth in range(1, 9))


def state_solutions(
    full: Demand, length: int, printed: int, concurrency: float, *, pairs: bool
) -> Iterator[tuple[int, int]]:
    """(state blocks, blocks of the pool) with which a hybrid model prints so many tokens, since 0.20.2:
    `int(pool / request * length)`. `pairs`: prefixes are cached, so a group holds two states a request.
    """
    each = states_of_a_group(full, pairs=pairs)
    for states in range(each, _MOST_GROUPS * each + 1, each):
        request = full.units(length) + states
        pool = -(-printed * request // length)
        if int(pool / request * length) == printed and abs(pool / request - concurrency) <= PRINTED:
            yield states, pool


def divided_solutions(
    full: Demand, block: int, length: int, printed: int, concurrency: float
) -> Iterator[tuple[int, int]]:
    """The same before 0.20.2: printed is the pool over the groups in whole blocks; the concurrency tells the pool."""
    for groups in range(2, _MOST_GROUPS):
        for each in (states_of_a_group(full, pairs=False), states_of_a_group(full, pairs=True)):
            request = full.units(length) + each * (groups - 1)
            pool = round(concurrency * request)
            if pool // groups * block == printed and abs(pool / request - concurrency) <= PRINTED:
                yield each * (groups - 1), pool


def window_solutions(
    full: Demand, window: tuple[int, int], in_flight: int, length: int, printed: int, concurrency: float
) -> Iterator[tuple[Layout, int]]:
    """(layout, least blocks of the pool) with equal windows of (window, block) tokens that print so before 0.20.2: the
    pool over the groups in whole blocks.
    """
    for count in range(1, _MOST_GROUPS):
        layout, least = with_windows(full, [window] * count, in_flight), printed // window[1] * (count + 1)
        request = layout.blocks(length)
        fits = (pool for pool in range(least, least + count + 1) if abs(pool / request - concurrency) <= PRINTED)
        pool = next(fits, None)
        if pool is not None:
            yield layout, pool


def states_of_a_group(full: Demand, *, pairs: bool) -> int:
    """Blocks that one group of recurrent layers holds for a request: of the state, a second one where prefixes are
    cached, and one for every draft token (MambaSpec, v1/kv_cache_interface.py).
    """
    return (2 if pairs else 1) + full.draft
