"""The door of vLLM's block pool in closed form, against its replay request by request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.replay.vllm_blocks import Group, Server, admitted
from ullage.capacity.demand import Demand, Together
from ullage.capacity.request import Shape
from ullage.engines.vllm.admission import PromptFits
from ullage.engines.vllm.groups import Layout, full_group, one_group, with_states, with_windows

PROMPTS = st.integers(1, 2_000)
BLOCKS = st.sampled_from([4, 16, 64])
SIZES = st.integers(0, 3_000)


def groups_of(kind: str, block: int, window: int, count: int, flight: int) -> tuple[Layout, tuple[Group, ...]]:
    full = Group(block)
    if kind == "windows":
        return with_windows(full_group(block), [(window, block)] * count, flight), (
            full,
            *[Group(block, window)] * count,
        )
    if kind == "states":
        return with_states(full_group(block), count), (full, Group(states=count))
    return one_group(block), (full,)


LAYOUTS = st.tuples(
    st.sampled_from(["one", "windows", "states"]), BLOCKS, st.integers(2, 500), st.integers(1, 4), st.integers(1, 800)
)


@given(LAYOUTS, SIZES, PROMPTS, st.integers(0, 50), st.none() | st.integers(1, 800))
def test_crowded_it_lets_in_as_many_as_the_replay(
    layout: tuple[str, int, int, int, int], size: int, prompt: int, watermark: int, chunk: int | None
) -> None:
    """Of those the rule gives the low end where the whole prompt must fit."""
    shape, groups = groups_of(*layout)
    rule = PromptFits(shape.held, watermark, chunk)
    found = rule.admits(size, shape.asked, Shape(prompt))
    replayed = admitted(Server(size, groups, layout[4], watermark, chunk), prompt, crowded=True)
    assert (found.low if chunk is None else found.high) >= replayed >= found.low


@given(LAYOUTS, SIZES, PROMPTS, st.integers(0, 50))
def test_one_prefill_at_a_time_lets_in_no_fewer_than_it_says(
    layout: tuple[str, int, int, int, int], size: int, prompt: int, watermark: int
) -> None:
    """A window keeps at most what is counted: by the place of its blocks it can be one fewer."""
    shape, groups = groups_of(*layout)
    found = PromptFits(shape.held, watermark).admits(size, shape.asked, Shape(prompt))
    replayed = admitted(Server(size, groups, layout[4], watermark), prompt, crowded=False)
    assert replayed >= found.high
    if layout[0] != "windows":
        assert replayed == found.high == found.low


@given(BLOCKS, st.integers(1, 5_000), st.integers(2, 600))
def test_what_a_window_keeps_is_never_more_than_counted(block: int, tokens: int, window: int) -> None:
    layout = with_windows(full_group(block), [(window, block)], 1)
    assert Group(block, window).keeps(tokens - 1) <= layout.held.groups[1].units(tokens)


@given(LAYOUTS, SIZES, PROMPTS, st.integers(0, 300))
def test_safe_holds_whatever_is_in_flight(
    layout: tuple[str, int, int, int, int], size: int, prompt: int, output: int
) -> None:
    """So many requests at their full length, all with a whole batch in flight, take no more than the pool."""
    shape, groups = groups_of(*layout)
    each = shape.asked.finished(Shape(prompt, output))
    assert each == sum(group.asks(prompt + output, layout[4]) for group in groups)
    assert size // each * each <= size


def test_groups_that_are_not_known_give_a_range() -> None:
    """100 blocks, of which a full-length request takes 40: one of 64 tokens takes between its own 4 and all 40."""
    most, least = Together((Demand(per_token=0, fixed=40),)), one_group(16).held
    found = PromptFits(least).admits(100, most, Shape(64))
    assert (found.low, found.high) == (2, 16)  # (100 - 40) / 4 + 1


def test_the_first_chunk_opens_the_door_before_0_19() -> None:
    """Blocks of 16, prompts of 160: ten blocks each of 25. Two are in, and five free blocks do for 32 tokens."""
    layout = one_group(16)
    assert PromptFits(layout.held).admits(25, layout.asked, Shape(160)).high == 2
    assert PromptFits(layout.held, chunk=32).admits(25, layout.asked, Shape(160)).low == 3
    unsure = PromptFits(layout.held, chunk=32, perhaps=True).admits(25, layout.asked, Shape(160))
    assert (unsure.low, unsure.high) == (2, 3)


def test_a_shared_prefix_is_held_once() -> None:
    """Blocks of 16: of 100 shared tokens six whole blocks are shared; the other 60 of 156 take four blocks."""
    layout = one_group(16, shares=True)
    shape = Shape(156, 0, 100)
    assert (layout.asked.common(shape), layout.asked.admitted(shape)) == (6, 4)
    assert PromptFits(layout.held).admits(26, layout.asked, shape).high == 5
