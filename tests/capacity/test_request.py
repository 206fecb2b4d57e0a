"""The shape of a request, as an operator types it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capacity.draws import shapes
from ullage.capacity.request import Shape, parse_request

SUFFIXES = {"": 1, "k": 2**10, "K": 2**10, "m": 2**20, "g": 2**30}
NOISE = st.text("promtushaed=,0123456789kmg_. -", max_size=40)


@given(shapes(), st.permutations(["prompt", "output", "shared"]), st.sampled_from(["", " "]))
def test_what_is_written_is_what_is_read(shape: Shape, order: list[str], space: str) -> None:
    parts = {"prompt": shape.prompt, "output": shape.output, "shared": shape.shared}
    text = f",{space}".join(f"{name}={parts[name]:_}" for name in order)
    assert parse_request(text) == shape


@given(st.integers(1, 999), st.sampled_from(sorted(SUFFIXES)))
def test_a_suffix_is_binary(count: int, suffix: str) -> None:
    assert parse_request(f"prompt={count}{suffix}").prompt == count * SUFFIXES[suffix]


@given(shapes())
def test_an_output_that_is_not_named_stays_open(shape: Shape) -> None:
    read = parse_request(f"prompt={shape.prompt},shared={shape.shared}")
    assert read.output is None
    with pytest.raises(ValueError, match="not known"):
        _ = read.total
    assert read.resolved(shape.named_output) == shape
    assert shape.resolved(7) == shape


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "write prompt=TOKENS"),
        ("32000", "write prompt=TOKENS"),
        ("prompt=1,,output=1", "write prompt=TOKENS"),
        ("tokens=5", "write prompt=TOKENS"),
        ("output=5", "needs its prompt"),
        ("prompt=5,prompt=6", "prompt stands twice"),
        ("prompt=", "not a size"),
        ("prompt=-5", "not a size"),
        ("prompt=1e6", "not a size"),
        ("prompt=NaN", "not a size"),
        ("prompt=5 GB", "not a size"),
        ("prompt=1.5", "not a whole number"),
        ("prompt=0", "at least 1 token"),
        ("prompt=5,shared=6", "shared must not exceed prompt"),
        ("prompt=30,000,output=1", "write prompt=TOKENS"),
    ],
)
def test_what_is_off_is_said(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_request(text)


@given(NOISE | st.text(max_size=30))
def test_noise_is_a_value_error_or_a_sound_request(text: str) -> None:
    try:
        shape = parse_request(text)
    except ValueError:
        return
    assert shape.prompt >= 1
    assert (shape.output or 0) >= 0
    assert 0 <= shape.shared <= shape.prompt


def test_a_shape_that_cannot_be_is_refused() -> None:
    for prompt, output, shared in ((0, 0, 0), (1, -1, 0), (5, 0, 6), (5, 0, -1)):
        with pytest.raises(ValueError, match="prompt"):
            Shape(prompt, output, shared)
