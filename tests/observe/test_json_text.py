from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.observe.json_text import load, load_repr

PRINTABLE = st.text(st.characters(exclude_categories=("Cs", "Cc")))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | PRINTABLE
DATA = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(PRINTABLE, inner), max_leaves=20)


@given(DATA)
def test_what_python_prints_is_read_back(data: Any) -> None:
    assert load_repr(repr([data])) == [data]


def test_what_python_prints_and_json_has_not() -> None:
    data = load_repr("{'o': <Kind.READ: 'read'>, 'b': b'x', 't': (1,), 7: nan, 's': 'a\\x41\\n\\'', 'd': <o at 7>}")
    assert data["o"] == "<Kind.READ: 'read'>"
    assert data["t"] == [1]
    assert math.isnan(data["7"])
    assert data["s"] == "aA\n'"


@pytest.mark.parametrize(
    "text", ["{'a': __import__('os')}", "{'a': 1 + 1}", "{'a': [", "{'a'", "[" * 10_000, "('a' " * 9999]
)
def test_no_repr(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        load_repr(text)


def test_bounds() -> None:
    assert load("[" + "1" * 3_000_000 + "]") == [math.inf]
    assert load("9" * 300) == int("9" * 300)
    for deep in ("[" * 101 + "]" * 101, "[" * 500_000, '{"a":' * 200_000):
        with pytest.raises(ValueError, match=r"nested|Expecting"):
            load(deep)


def test_nothing_reaches_the_terminal_that_could_steer_it() -> None:
    text = load(r'{"a\u001b[2J": "\ud800 \u0000 b\tc\nd"}')
    assert text == {"a\ufffd[2J": "\ufffd \ufffd b\tc\nd"}


@given(st.text(alphabet="{}[]()'\"\\,: 1aTrue<>bx\n-", max_size=60))
def test_no_text_makes_it_crash(text: str) -> None:
    for read in (load, load_repr):
        with suppress(ValueError):
            read(text)
