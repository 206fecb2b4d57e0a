"""Tables on pages of any width."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.report.page import Column, Page

WORDS = st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=6).map(" ".join)
ROWS = st.integers(2, 5).flatmap(lambda n: st.lists(st.lists(WORDS, min_size=n, max_size=n), min_size=1, max_size=5))


def printed(rows: list[list[str]], width: int) -> list[str]:
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.setenv("COLUMNS", str(width))
        page = Page()
        page.table([Column(f"{i}", right=i % 2 == 0) for i in range(len(rows[0]))], rows)
        page.show()
    return out.getvalue().splitlines()


@given(ROWS, st.integers(40, 110))
def test_a_table_keeps_to_the_page_and_loses_no_letter(rows: list[list[str]], width: int) -> None:
    lines = printed(rows, width)
    assert max(map(len, lines)) <= width
    letters = "".join("".join(row) for row in rows).replace(" ", "")
    assert sorted("".join(lines[1:]).replace(" ", "")) == sorted(letters)


@given(ROWS)
def test_a_table_that_fits_has_a_line_a_row(rows: list[list[str]]) -> None:
    needed = sum(max(map(len, column)) for column in zip(*rows, strict=True)) + 2 * len(rows[0])
    if needed <= 110:
        assert len(printed(rows, 110)) == len(rows) + 1
