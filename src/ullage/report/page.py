"""A screen as it grows: paragraphs, facts beside their labels, and tables, within the width of the terminal."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import click
from prettytable import PrettyTable

_WIDEST = 110
_GAP = 2  # columns between two of a table
_LEAST = 6  # columns that a column of a table keeps, however narrow the terminal is
Part = tuple[str, str]  # words, and a style ("bold", "dim", a colour, or several) or ""


class Column(NamedTuple):
    name: str
    right: bool = False


class Page:
    """At most 110 columns on a terminal, 80 in a pipe. Colours on a terminal only, and neither with NO_COLOR
    nor with TERM=dumb.
    """

    def __init__(self) -> None:
        self.width = _width()
        self.on_terminal = sys.stdout.isatty()
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._colours = self.on_terminal and not plain
        self._lines: list[str] = []

    def can_show(self, letters: str) -> bool:
        """Does the encoding of the output have them, and the locale? Python writes UTF-8 in the C locale too."""
        if _locale() in ("C", "POSIX") and not os.environ.get("PYTHONIOENCODING"):
            return letters.isascii()
        try:
            letters.encode(sys.stdout.encoding or "ascii")
        except UnicodeError:
            return False
        return True

    def say(self, *parts: Part, indent: int = 0, hang: int = 0) -> None:
        """One paragraph; what does not fit on its first line hangs below it, `hang` columns deeper."""
        text = "".join(words for words, _ in parts)
        deeper = " " * (indent + hang)
        lines = textwrap.wrap(
            text, self.width, initial_indent=" " * indent, subsequent_indent=deeper, break_on_hyphens=False
        )
        self._add(lines, parts)

    def draw(self, lines: Sequence[Sequence[Part]]) -> None:
        """Lines that are made for the width of the page, each of styled pieces; set apart by a blank line."""
        for line in ([], *lines, []) if lines else ():
            pieces = (_in_style(words, style) if style and self._colours else words for words, style in line)
            self._lines.append("".join(pieces).rstrip())

    def heading(self, text: str) -> None:
        self._lines.append("")
        self.say((text, "bold underline"))

    def fact(self, label: str, value: str, columns: int) -> None:
        """A label and its words, the words hanging beside it."""
        lines = textwrap.wrap(value, max(16, self.width - columns), break_on_hyphens=False) or [""]
        first, *more = lines
        self._add([f"{label:<{columns}}{first}", *(" " * columns + line for line in more)], [(label, "dim")])

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], marks: Sequence[Part] = ()) -> None:
        """Columns are no wider than they need, and the widest give way where the page is narrow. `marks`: cells that
        stand out, from top to bottom.
        """
        cells = [[column.name for column in columns], *map(list, rows)]
        widths = _fitting([max(map(len, cell)) for cell in zip(*cells, strict=True)], self.width)
        table = PrettyTable([str(i) for i in range(len(columns))], header=False, border=False, break_on_hyphens=False)
        table.padding_width, table.right_padding_width = 0, _GAP
        for i, (column, width) in enumerate(zip(columns, widths, strict=True)):
            table.align[str(i)] = "r" if column.right else "l"
            table.max_width[str(i)] = width
        table.add_rows(cells)
        self._add(table.get_string().splitlines(), [*((column.name, "dim") for column in columns), *marks])

    def show(self) -> None:
        sys.stdout.write("".join(line.rstrip() + "\n" for line in self._lines))

    def _add(self, lines: Sequence[str], parts: Sequence[Part]) -> None:
        text = "\n".join(line.rstrip() for line in lines)
        self._lines += (_styled(text, parts) if self._colours else text).split("\n")


def _locale() -> str:
    """What the environment says of letters, in the order in which it counts (setlocale(3))."""
    return next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")


def _fitting(widths: Sequence[int], page: int) -> list[int]:
    """The widths of columns as they must be for all to stand side by side."""
    fitted = list(widths)
    while sum(fitted) + _GAP * (len(fitted) - 1) > page and max(fitted) > _LEAST:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _styled(text: str, parts: Sequence[Part]) -> str:
    """The parts in their styles. One that was broken over lines stays plain."""
    styled, at = "", 0
    for words, style in parts:
        words = words.strip()
        found = text.find(words, at) if words and style else -1
        if found >= 0:
            styled += text[at:found] + _in_style(words, style)
            at = found + len(words)
    return styled + text[at:]


def _in_style(words: str, style: str) -> str:
    names = style.split()
    how = {name: True for name in names if name in ("bold", "dim", "underline")}
    return click.style(words, fg=next((name for name in names if name not in how), None), **how)


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return max(40, min(int(columns), _WIDEST))
    try:
        return max(40, min(os.get_terminal_size(1).columns or 80, _WIDEST))
    except OSError:
        return 80
