"""The lines of a stretch of a file in which a pattern is found. It runs over whole blocks, not line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from .log_needles import needles_of, places

BLOCK = 2 * 2**20
_SYSTEMD = (
    *(b"systemd[", b"init.scope[", b"-- Boot ", b"-- Reboot "),
    *(b"Main process exited", b"Failed with result", b"Scheduled restart job"),
)
_UNTAGGED_SYSTEMD = b"St"  # "Started x.service" and others at the begin of a line, by `journalctl -o cat`
_JSON_SYSTEMD = b'"systemd"'
_COLOUR = re.compile(rb"(?:\x1b|\\u001b|#033)\[[0-9;?]*[A-Za-z]")
_COLOUR_HINTS = (b"\x1b[", b"\\u001b[", b"#033[")
_BYTES_MESSAGE = re.compile(rb'"MESSAGE"\s*:\s*\[')
_INDENTED = re.compile(rb"(?:[^\n]{0,200}?[\]:|Z] )?[ \t]{2,}[^\s]")
_CUT = re.compile(rb"[^\n ]{0,200}(?: \|)? ?[0-9T:.Z+-]* ?std(?:out|err) P ")
_DIGITS = b"0123456789"
_KIND_BYTES = 32
_MOST_CONTINUATIONS = 4


class Block(NamedTuple):
    offset: int  # of its first byte in the file
    line: int  # line feeds before it, counted from where reading began
    data: bytes


class Found(NamedTuple):
    offset: int
    line: int
    data: bytes  # the line, with the indented ones that continue it
    kind: bytes  # the words that matched, without digits
    sure: bool  # False: only its decoded text can tell whether it is to be kept


Match = tuple[int, bytes, bool]


def blocks(handle: BinaryIO, begin: int, end: int, line_bytes: int) -> Iterator[Block]:
    """Whole lines only: one cut by `begin` is left out, and of one longer than a block only `line_bytes` are given."""
    offset, line, rest = begin, 0, b""
    skipping = begin > 0 and not _after_line_feed(handle, begin)
    handle.seek(begin)
    while data := handle.read(max(0, min(BLOCK, end - offset - len(rest)))):
        rest += data
        if skipping:
            gone = rest.find(b"\n") + 1 or len(rest)
            skipping = not rest.endswith(b"\n", 0, gone)
            line, offset, rest = line + (not skipping), offset + gone, rest[gone:]
        whole = (rest.rfind(b"\n") + 1) or (rest.rfind(b"\r") + 1)
        if whole:
            yield Block(offset, line, rest[:whole])
            line, offset, rest = line + rest.count(b"\n", 0, whole), offset + whole, rest[whole:]
        if len(rest) > line_bytes:
            yield Block(offset, line, rest[:line_bytes])
            offset, rest, skipping = offset + len(rest), b"", True
    if rest:
        yield Block(offset, line, rest)


def _after_line_feed(handle: BinaryIO, begin: int) -> bool:
    handle.seek(begin - 1)
    return handle.read(1) == b"\n"


def found_in(block: Block, keep: re.Pattern[bytes], line_bytes: int) -> Iterator[Found]:
    """The lines in which `keep` is found, and those of systemd. A carriage return ends a record like a line feed."""
    view = _View(block)
    text, done = view.text, 0
    some_are_cut = b" P " in text
    for place, kind, sure in sorted([*_kept(text, keep), *_systemd(text), *_undecoded(text)]):
        if place < done:
            continue
        begin = text.rfind(b"\n", done, place) + 1 or done
        if place - begin >= line_bytes:
            continue
        end = _end(text, begin, place, some_are_cut)
        yield Found(view.offset(begin), view.line(begin), text[begin : min(end, begin + line_bytes)], kind, sure)
        done = end


def _kept(text: bytes, keep: re.Pattern[bytes]) -> Iterator[Match]:
    kinds: dict[bytes, bytes] = {}
    for place, words in needles_of(keep).find(text):
        kind = kinds.get(words)
        if kind is None:
            kind = kinds[words] = words[:_KIND_BYTES].translate(None, _DIGITS)
        yield place, kind, True


def _systemd(text: bytes) -> Iterator[Match]:
    marks = (*_SYSTEMD, _JSON_SYSTEMD) if b'"MESSAGE"' in text else _SYSTEMD
    for mark in marks:
        yield from ((place, b"systemd", False) for place, _ in places(text, mark))
    if text.startswith(_UNTAGGED_SYSTEMD):
        yield 0, b"systemd", False
    yield from ((place + 1, b"systemd", False) for place, _ in places(text, b"\n" + _UNTAGGED_SYSTEMD))


def _undecoded(text: bytes) -> Iterator[Match]:
    """Journald's JSON prints a message that holds control characters as a list of numbers."""
    if b'"MESSAGE"' in text:
        for match in _BYTES_MESSAGE.finditer(text):
            yield match.start(), b"MESSAGE", False


def _end(text: bytes, begin: int, place: int, some_are_cut: bool) -> int:
    """The end of the line, or of the last line that continues it: an indented one, or one of a record that was cut."""
    end = _line_end(text, place)
    for _ in range(_MOST_CONTINUATIONS):
        indented = text[end - 2 : end].rstrip(b" ").endswith(b",") and _INDENTED.match(text, end + 1)
        if not (indented or (some_are_cut and _CUT.match(text, begin, end))):
            break
        begin, end = end + 1, _line_end(text, end + 1)
    return end


def _line_end(text: bytes, place: int) -> int:
    end = text.find(b"\n", place)
    return len(text) if end < 0 else end


class _View:
    """A block without colours and carriage returns, and where its lines stand in the file.

    Must be asked for ascending places.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self.text = block.data.replace(b"\r", b"\n")
        self._begins: list[int] | None = None
        if any(hint in self.text for hint in _COLOUR_HINTS):
            self._begins = [0, *(match.end() for match in re.finditer(b"\n", self.text))]
            self.text = _COLOUR.sub(b"", self.text)
        self._place = self._index = 0  # records before the place
        self._raw = self._line = 0  # line feeds before the raw place

    def offset(self, place: int) -> int:
        return self._block.offset + self._raw_place(place)

    def line(self, place: int) -> int:
        raw = self._raw_place(place)
        self._line += self._block.data.count(b"\n", self._raw, raw)
        self._raw = raw
        return self._block.line + self._line

    def _raw_place(self, place: int) -> int:
        if self._begins is None:
            return place
        self._index += self.text.count(b"\n", self._place, place)
        self._place = place
        return self._begins[self._index]
