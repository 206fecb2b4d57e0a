"""How full a pool is: parts that add up, and unknown parts that stay unknown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.evidence import ungrounded
from ullage.engines.levels import level_of
from ullage.figure import Figure, Source, missing, read
from ullage.report.words import value_of

COUNTS = st.integers(0, 10**9)


def tokens(name: str, value: int | None) -> Figure:
    return missing(name, "tokens", f"no {name} in sight") if value is None else read(name, value, "tokens", Source("s"))


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_the_parts_of_a_pool_add_up(used: int, evictable: int, reserved: int, free: int) -> None:
    size = used + evictable + reserved + free
    parts = (tokens(*part) for part in (("used", used), ("evictable", evictable), ("reserved", reserved)))
    level = level_of("KV pool", tokens("size", size), *parts)
    assert level.free.value == free
    assert level.room.value == free + evictable
    assert level.in_use.known == (size > 0)
    assert not ungrounded([level.free, level.room])


@given(*[st.none() | COUNTS] * 4)
def test_what_is_not_known_is_never_zero(
    size: int | None, used: int | None, evictable: int | None, reserved: int | None
) -> None:
    stated = {"size": size, "used": used, "evictable": evictable, "reserved": reserved}
    level = level_of("KV pool", *(tokens(name, value) for name, value in stated.items()))
    unknown = [name for name, value in stated.items() if value is None]
    assert level.free.known == (not unknown)
    assert all(f"no {name} in sight" in level.free.note for name in unknown)
    assert level.room.known == (size is not None and used is not None)
    if level.room.known and reserved is None:
        assert "at most: no reserved in sight" in level.room.note
    if not level.room.known:
        assert value_of(level.room) == "not known"


def test_a_share_that_the_engine_states_stands_where_counts_are_not_known() -> None:
    share = read("usage", 0.4, "of the pool", Source("s"))
    unknown = tokens("count", None)
    assert level_of("KV pool", unknown, unknown, unknown, unknown, share).in_use == share
    counted = level_of("KV pool", tokens("size", 10), tokens("used", 5), unknown, unknown, share)
    assert counted.in_use.value == 0.5


@given(st.integers(1, 10**6), st.integers(1, 10), st.integers(0, 10**6))
def test_of_a_pool_of_some_size_share_and_room_are_ranges(least: int, times: int, used: int) -> None:
    size = tokens("size", least).between(least, least * times)
    level = level_of("KV pool", size, tokens("used", used), tokens("evictable", 0), tokens("reserved", 0))
    assert (level.in_use.least, level.in_use.most) == (used / (least * times), used / least)
    for left in (level.room, level.free):
        assert (left.least, left.most) == (max(0, least - used), max(0, least * times - used))
