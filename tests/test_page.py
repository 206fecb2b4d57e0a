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


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("term", "coloured"), [("dumb", False), ("xterm-256color", True)])
def test_a_terminal_that_knows_no_escapes_gets_none(term: str, coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    with contextlib.redirect_stdout(Terminal()) as out:
        page = Page()
        page.heading("Findings")
        page.say(("error", "bold red"), (" x", ""))
        page.fact("label", "value", 23)
        page.draw([[("██", "cyan")]])
        page.show()
    assert ("\x1b[" in out.getvalue()) == coloured


@pytest.mark.parametrize(
    ("environment", "shown"),
    [
        ({"LC_ALL": "C"}, False),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "C.UTF-8"}, True),
        ({"LC_ALL": "", "LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ({"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}, True),
    ],
)
def test_block_characters_are_for_locales_that_have_them(
    environment: dict[str, str], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with contextlib.redirect_stdout(Terminal()):
        assert Page().can_show("█░") == shown
        assert Page().can_show("plain")


@given(ROWS)
def test_a_table_that_fits_has_a_line_a_row(rows: list[list[str]]) -> None:
    needed = sum(max(map(len, column)) for column in zip(*rows, strict=True)) + 2 * len(rows[0])
    if needed <= 110:
        assert len(printed(rows, 110)) == len(rows) + 1
