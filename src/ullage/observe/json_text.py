"""JSON, and the repr of a Python dict, from sources that may be broken or hostile.

Bounds: nesting up to MAX_DEPTH; a whole number of any length is read (beyond 400 digits as a float, so infinite), for
Python's own conversion takes quadratic time. NaN and Infinity are accepted: engines print them.
"""

from __future__ import annotations

import json
import re
from typing import Any

MAX_DEPTH = 100
_LONGEST_INT = 400
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
# Most answers need none of these patterns: they are compiled where one does.
_ESCAPE = r"(?s)\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)"
_CONSTANTS = {"True": "true", "False": "false", "None": "null", "nan": "NaN", "inf": "Infinity"}
_TOKEN = (
    r"""(?s)(?P<raw>\b[rR])?(?:\b[bB])?(?P<text>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")"""
    r"""|(?P<word>\b(?:True|False|None|nan|inf)\b)|(?P<object><[^<>'"]*(?:'[^'<>]*'[^<>'"]*)*>)"""
    r"""|(?P<key>-?\b\d+(?=\s*:))|(?P<open>\()|(?P<close>,?\s*\))|(?P<comma>,(?=\s*[\]}]))"""
)
_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]"


def load(text: str) -> Any:
    """Raises ValueError with a short reason."""
    try:
        data = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return _plain(data, MAX_DEPTH)


def first(text: str, begin: int) -> tuple[Any, int]:
    """The document that begins there, and where it ends. Raises ValueError with a short reason."""
    try:
        data, end = json.JSONDecoder(parse_int=_whole).raw_decode(text, begin)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return _plain(data, MAX_DEPTH), end


def load_repr(text: str) -> Any:
    """A dict or list as Python prints it. It is turned into JSON word by word: nothing in it is compiled or run."""
    return load(re.sub(_TOKEN, _as_json, text))


def looks_like_repr(text: str) -> bool:
    return re.match(r"\s*[\[{(]*\s*(?:'|\{')", text) is not None


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INT else float(digits)


def _plain(data: Any, depth: int) -> Any:
    """The same without control characters and lone surrogates, which no terminal or file should get."""
    if isinstance(data, str):
        return data if data.isprintable() else re.sub(_UNPRINTABLE, "\N{REPLACEMENT CHARACTER}", data)
    if not isinstance(data, (dict, list)):
        return data
    if depth == 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(data, list):
        return [_plain(item, depth - 1) for item in data]
    return {_plain(key, 1): _plain(value, depth - 1) for key, value in data.items()}


def _as_json(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if match["text"]:
        inside = match["text"][1:-1]
        return json.dumps(inside if match["raw"] else re.sub(_ESCAPE, _unescape, inside))
    if kind == "word":
        return _CONSTANTS[match[0]]
    if kind in ("object", "key"):
        return json.dumps(match[0])
    return {"open": "[", "close": "]"}.get(kind or "", "")


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        point = int(code[1:], 16)
        return chr(point) if point < 0x110000 else "\N{REPLACEMENT CHARACTER}"
    return chr(int(code, 8)) if code.isdigit() and code < "8" else _ESCAPES.get(code, code)
