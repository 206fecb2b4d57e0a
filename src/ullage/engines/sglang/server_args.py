"""SGLang's arguments as its log prints them, cut or whole: `ServerArgs(model_path='...', tp_size=4, ...)`, since
September 2026 a dictionary: `{'model_path': '...', 'tp_size': 4, ...}` (server_args.py, log of v0.5.20's main).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_START = re.compile(r"ServerArgs\(|server_args=\{")
_NAME = re.compile(r"""\s*(?:(?:\.\.\.|…)\s*,\s*)*(?:(\w+)=|['"](\w+)['"]\s*:\s*)""")
_LEFT_OUT = re.compile(r"[(,{]\s*(?:\.\.\.|…)")  # "ServerArgs(tp_size=4, ...)": somebody left arguments out
_OPEN, _CLOSE = "([{", ")]}"


def parse_server_args(text: str) -> dict[str, object]:
    """Every argument that stands whole in the text. A value that is no Python literal stays as its text; a cut last one
    is left out.
    """
    start = _START.search(text)
    body = text[start.end() :] if start else text
    return {name: _value(raw) for name, raw in _arguments(body)}


def is_cut(text: str) -> bool:
    """Are there arguments that the text does not show? Then one that is missing is not known not to be set."""
    return text.rstrip()[-1:] not in _CLOSE or _LEFT_OUT.search(text) is not None


def _arguments(body: str) -> Iterator[tuple[str, str]]:
    at = 0
    while match := _NAME.match(body, at):
        end = _end_of_value(body, match.end())
        if end is None:
            return
        yield match[1] or match[2], body[match.end() : end].strip()
        at = end + 1


def _end_of_value(body: str, at: int) -> int | None:
    """The index of the comma or bracket that ends a value, outside quotes and brackets. None: cut before it."""
    depth = 0
    while at < len(body):
        char = body[at]
        if char in "'\"":
            at = _end_of_string(body, at)
        elif char in _OPEN:
            depth += 1
        elif depth == 0 and char in ",)}":
            return at
        elif char in _CLOSE:
            depth -= 1
        at += 1
    return None


def _end_of_string(body: str, at: int) -> int:
    """The index of the closing quote, or the end of the text."""
    quote, at = body[at], at + 1
    while at < len(body) and body[at] != quote:
        at += 2 if body[at] == "\\" else 1
    return at


def _value(raw: str) -> object:
    try:
        return ast.literal_eval(raw)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return raw
