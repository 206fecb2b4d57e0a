"""Ledgers: the parts and the rest sum to the whole, and ranges hold the true values behind rounded prints."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ullage.capacity.ledger import Ledger, Part, ledger, with_rest
from ullage.capacity.ledger_sums import added, cut_to_mib, in_bytes, less, times
from ullage.capacity.ledger_tap import fractions_between, hundredths
from ullage.figure import Figure, Kind, Source, derived, missing, read
from ullage.units import GIB, MIB

HERE = Source("a.log", "line 1")
sizes = st.integers(0, 200 * GIB)


def gib(name: str, value: float) -> Figure:
    """A size as an engine prints it."""
    return read(name, round(value, 2), "GiB", HERE)


def printed(size: int) -> Figure:
    return in_bytes(gib("size", size / GIB))


def exact(size: int) -> Figure:
    return read("size", size, "bytes", HERE)


@given(sizes)
def test_the_range_of_a_print_holds_what_was_printed(size: int) -> None:
    figure = printed(size)
    assert figure.least <= size <= figure.most
    assert figure.most - figure.least <= 0.01 * GIB + 2


@given(sizes)
def test_the_range_of_a_cut_print_holds_what_was_cut(size: int) -> None:
    figure = cut_to_mib(read("size", size // MIB, "MiB", HERE))
    assert figure.least <= size <= figure.most


@given(sizes, st.lists(sizes, max_size=8))
def test_parts_and_the_rest_sum_to_the_whole(whole: int, parts: list[int]) -> None:
    found = ledger("a GPU", printed(whole), [Part(str(n), printed(size)) for n, size in enumerate(parts)])
    assert sum(part.size.count for part in found.parts) + found.unaccounted.count == found.whole.count
    assert found.unaccounted.least <= whole - sum(parts) <= found.unaccounted.most


@given(sizes, st.lists(sizes, min_size=1, max_size=5), st.floats(0, 3))
def test_sums_differences_and_multiples_hold_the_true_value(whole: int, parts: list[int], factor: float) -> None:
    shown = [printed(size) for size in parts]
    total, left, scaled = added("sum", shown), less("left", printed(whole), shown), times("x", shown[0], factor, "")
    for figure, true in ((total, sum(parts)), (left, whole - sum(parts)), (scaled, parts[0] * factor)):
        assert figure.least - 1 <= true <= figure.most + 1
        assert figure.least <= figure.number <= figure.most


def test_a_sum_of_prints_is_as_uncertain_as_all_of_them() -> None:
    keys, values = gib("k", 2.33), gib("v", 2.33)
    both = in_bytes(derived("kv", 4.66, "GiB", (keys, values)))
    assert (both.most - both.least) / GIB > 0.0199
    assert both.number == in_bytes(keys).number * 2


def test_figures_that_overlap_are_a_rest_below_zero() -> None:
    found = ledger("a GPU", exact(10), [Part("a", exact(7)), Part("b", exact(5))])
    assert found.unaccounted.number == -2


def test_what_is_of_a_part_is_not_counted_again() -> None:
    part = with_rest(Part("pools", exact(10), (Part("KV", exact(7)), Part("table", exact(1)))), "rest")
    found = ledger("a GPU", exact(12), [part])
    assert found.unaccounted.number == 2
    assert [(inner.name, inner.size.number) for inner in part.of_it] == [("KV", 7), ("table", 1), ("rest", 2)]
    assert found.part("table") is part.of_it[1]


def test_without_a_whole_nothing_is_unaccounted_and_the_reason_is_told() -> None:
    found = Ledger("a GPU", missing("total", "bytes", "no line states it"), (Part("a", exact(7)),))
    assert found.unaccounted.kind is Kind.MISSING
    assert "no line states it" in found.unaccounted.note


def test_ledgers_of_other_lines_are_not_alike() -> None:
    one, other = (ledger("a GPU", exact(9), [Part(name, exact(3))]) for name in ("weights", "idle"))
    near = ledger("a GPU", exact(9), [Part("weights", exact(2))])
    assert one.differs(other) == float("inf")
    assert one.differs(near) == 1


@given(st.integers(1, 99), st.integers(1, 99))
def test_the_settings_shown_run_from_now_to_the_best(now: int, best: int) -> None:
    values = fractions_between(now / 100, best / 100)
    assert values == sorted(set(values))
    assert {now / 100, best / 100} <= set(values)
    assert all(min(now, best) / 100 <= value <= max(now, best) / 100 for value in values)
    assert len(values) <= 9


@given(st.integers(0, 100))
def test_hundredths_keep_what_is_one(n: int) -> None:
    assert hundredths(n / 100) == n / 100
    assert hundredths(n / 100 + 0.0099) == n / 100
