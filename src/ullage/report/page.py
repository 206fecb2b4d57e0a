"""A screen as it grows: words are wrapped here; rich draws the tables, and the colours where they are wanted."""

from __future__ import annotations

import io
import os
import sys
import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDEST = 110
Part = tuple[str, str]  # words, and a style or ""


class Page:
    """At most 110 columns on a terminal, 80 in a pipe. Colours on a terminal only, and not with NO_COLOR."""

    def __init__(self) -> None:
        self.width = _width()
        self._colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            highlight=False,
            width=self.width,
            emoji=False,
            markup=False,
            force_terminal=self._colours,
            color_system="auto" if self._colours else None,
        )

    def say(self, *parts: Part, indent: int = 0, hang: int = 0) -> None:
        """One paragraph; what does not fit on its first line hangs below it, `hang` columns deeper."""
        text = "".join(words for words, _ in parts)
        deeper = " " * (indent + hang)
        lines = textwrap.wrap(
            text, self.width, initial_indent=" " * indent, subsequent_indent=deeper, break_on_hyphens=False
        )
        if self._colours:
            self._console.print(_styled("\n".join(lines), parts), soft_wrap=True)
        else:
            self._file.write("\n".join(lines) + "\n")

    def heading(self, text: str) -> None:
        self._file.write("\n")
        self.say((text, "bold underline"))

    def fact(self, label: str, value: str, columns: int) -> None:
        """A label and its words, the words hanging beside it."""
        lines = textwrap.wrap(value, max(16, self.width - columns), break_on_hyphens=False) or [""]
        beside = f"\n{' ' * columns}".join(lines)
        if self._colours:
            self._console.print(Text.assemble((f"{label:<{columns}}", "dim"), beside), soft_wrap=True)
        else:
            self._file.write(f"{label:<{columns}}{beside}\n")

    def table(self, table: Table) -> None:
        self._console.print(table)

    def show(self) -> None:
        sys.stdout.write("".join(line.rstrip() + "\n" for line in self._file.getvalue().splitlines()))


def _styled(text: str, parts: tuple[Part, ...]) -> Text:
    """The styles of the parts on the wrapped text. A part that was broken over lines stays plain."""
    styled, at = Text(text), 0
    for words, style in parts:
        found = text.find(words.strip(), at)
        if found >= 0:
            at = found + len(words.strip())
            styled.stylize(style, found, at)
    return styled


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return max(40, min(int(columns), _WIDEST))
    try:
        return max(40, min(os.get_terminal_size(1).columns or 80, _WIDEST))
    except OSError:
        return 80
