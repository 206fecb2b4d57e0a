"""Lines that a terminal or a pager cut at its width: their last word may be half of one, and is no reading."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...evidence import Log, LogLine
from .lines import split_tag
from .server_args import is_cut

_KINDS = 3  # of lines that are as long as the longest
_BEGIN = 16  # characters that tell kinds of lines apart
_LAST = re.compile(r"[\w.+-]+$")


def without_halves(log: Log) -> Log:
    """The log, its cut lines without their last word."""
    width = _width(log.lines)
    if width is None:
        return log
    return log._replace(lines=tuple(_shorter(line) if len(line.text) == width else line for line in log.lines))


def _width(lines: Sequence[LogLine]) -> int | None:
    """The width at which lines were cut: lines of several kinds are as long as the longest is. (One kind besides the
    arguments is enough, where these are cut.)
    """
    longest = max((len(line.text) for line in lines), default=0)
    bodies = [split_tag(line.text)[2] for line in lines if len(line.text) == longest]
    kinds = {body[:_BEGIN] for body in bodies}
    arguments = any(body.startswith("server_args=") and is_cut(body) for body in bodies)
    return longest if len(kinds) + arguments >= _KINDS else None


def _shorter(line: LogLine) -> LogLine:
    return line._replace(text=_LAST.sub("", line.text))
