"""Quotes: what stands in them is somebody's text, whatever signs are in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.quoting import in_quotes, outside


@given(st.text(), st.booleans())
def test_a_quoted_text_stays_inside_its_quotes(text: str, cut: bool) -> None:
    line = f"[10:00:00] Receive: obj=Request(text={text + ' figure=1 '!r}, other='x') and figure=2"
    inside = line.index(" figure=1")
    assert in_quotes(line, inside)
    assert in_quotes(line[: inside + 9] if cut else line, inside)
    assert not in_quotes(line, line.index("figure=2"))


@pytest.mark.parametrize(
    "line", ["it can't load figure=1", "(figure=1", "name='a', figure=1", "5' figure=1", "figure=1"]
)
def test_an_apostrophe_opens_nothing(line: str) -> None:
    assert not in_quotes(line, line.index("figure"))


def test_many_places_are_told_apart_in_one_go() -> None:
    line = "a 'b' c \"d\" e"
    assert [line[place] for place in outside(line, [0, 3, 6, 9, 12])] == ["a", "c", "e"]
