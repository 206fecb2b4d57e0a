"""A figure cannot be made without saying where it comes from, nor be missing without a reason."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.figure import Figure, Kind, Source, Value, configured, default, derived, inferred, missing, read

SOURCE = Source("start.log", "line 12", "max_total_num_tokens=135505")
KNOWN = [kind for kind in Kind if kind is not Kind.MISSING]
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.one_of(NUMBERS, st.booleans(), st.text())
NAMES = st.text(min_size=1, max_size=8)


def leaf(name: str, value: Value) -> Figure:
    return read(name, value, "tokens", SOURCE)


FIGURES = st.recursive(
    st.builds(leaf, NAMES, VALUES),
    lambda parts: st.builds(
        lambda name, value, inputs: derived(name, value, "tokens", tuple(inputs)),
        NAMES,
        VALUES,
        st.lists(parts, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


@given(VALUES, st.sampled_from(KNOWN), st.text())
def test_a_value_needs_a_source(value: Value, kind: Kind, note: str) -> None:
    if kind is Kind.DEFAULT and note:
        assert Figure("x", value, "", kind, note=note).known
        return
    with pytest.raises(ValueError, match="needs a source"):
        Figure("x", value, "", kind, note=note)


@given(VALUES, st.sampled_from(KNOWN))
def test_a_source_or_inputs_will_do(value: Value, kind: Kind) -> None:
    assert Figure("x", value, "", kind, SOURCE).value == value
    assert Figure("x", value, "", kind, inputs=(leaf("y", 1),)).value == value


@given(st.sampled_from(list(Kind)), st.text())
def test_a_missing_figure_needs_a_reason(kind: Kind, note: str) -> None:
    if kind is Kind.MISSING and note:
        assert not Figure("x", None, "", kind, note=note).known
        return
    with pytest.raises(ValueError, match="with a reason"):
        Figure("x", None, "", kind, SOURCE, note=note)


@given(VALUES)
def test_what_has_a_value_is_not_missing(value: Value) -> None:
    with pytest.raises(ValueError, match="needs a source"):
        Figure("x", value, "", Kind.MISSING, SOURCE, note="because")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_no_quantities(value: float) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        leaf("x", value)
    for low, high in ((value, 1.0), (1.0, value)):
        with pytest.raises(ValueError, match="not a quantity"):
            Figure("x", 1, "", Kind.READ, SOURCE, low=low, high=high)


@given(NUMBERS)
def test_a_number_is_a_number(value: float) -> None:
    figure = leaf("x", value)
    assert figure.number == value
    assert figure.count == int(value)
    assert figure.least == figure.most == value


@pytest.mark.parametrize("figure", [leaf("x", "unbounded"), leaf("x", True), missing("x", "tokens", "nobody says")])
def test_words_switches_and_missing_figures_are_no_numbers(figure: Figure) -> None:
    with pytest.raises(TypeError, match="x is not a number"):
        _ = figure.number


@given(st.integers(), st.integers(0, 9), st.integers(0, 9))
def test_a_range_is_told_by_its_ends(value: int, below: int, above: int) -> None:
    figure = Figure("x", value, "", Kind.READ, SOURCE, low=value - below, high=value + above)
    assert figure.least == value - below
    assert figure.most == value + above


@given(FIGURES)
def test_everything_a_figure_stands_on_has_a_source_at_its_end(figure: Figure) -> None:
    walked = list(figure.walk())
    assert walked[0] is figure
    assert all(part.source or part.inputs for part in walked)
    assert len(walked) == 1 + sum(len(list(part.walk())) for part in figure.inputs)


@given(FIGURES, NAMES, st.text())
def test_a_renamed_figure_is_the_same_reading(figure: Figure, name: str, note: str) -> None:
    renamed = figure.renamed(name, note)
    assert (renamed.name, renamed.note) == (name, note or figure.note)
    assert (renamed.value, renamed.kind, renamed.source, renamed.inputs) == (
        figure.value,
        figure.kind,
        figure.source,
        figure.inputs,
    )


def test_a_figure_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        leaf("x", 1).value = 2  # type: ignore[misc]


def test_the_makers_say_the_kind() -> None:
    base = leaf("a", 1)
    made = {
        Kind.READ: base,
        Kind.CONFIGURED: configured("b", 1, "", SOURCE),
        Kind.DEFAULT: default("c", 1, "", "the engine's"),
        Kind.DERIVED: derived("d", 1, "", (base,)),
        Kind.INFERRED: inferred("e", 1, "", (base,), "it fits"),
        Kind.MISSING: missing("f", "", "nobody says"),
    }
    assert all(figure.kind is kind for kind, figure in made.items())


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (Source("start.log"), "start.log"),
        (Source("start.log", "line 3"), "start.log line 3"),
        (Source("start.log", "line 3", "a=1"), "start.log line 3: a=1"),
        (Source("start.log", quote="a=1"), "start.log: a=1"),
    ],
)
def test_a_source_names_its_place(source: Source, told: str) -> None:
    assert str(source) == told
