"""Makes of whatever was opened a binary file that can seek, is not packed with gzip, and holds UTF-8."""

from __future__ import annotations

import codecs
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO, cast

_SPOOL = 64 * 2**20  # held in memory up to this size, in a temporary file beyond
_CHUNK = 2**20
_PACKED_CHUNK = 2**16
_MOST = 8 * 2**30  # of an input that never ends
_MOST_UNPACKED = 4 * 2**30
_MOST_FOLD = 400  # logs unpack to ten or fifty times their size, a bomb to a thousand times
_GZIP = b"\x1f\x8b"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class TooMuchError(Exception):
    """A packed file that unpacks to more than any log does."""

    def __init__(self, unpacked: int) -> None:
        super().__init__(f"it unpacks to more than {unpacked // 2**20:,} MiB, and is no log")


@contextmanager
def readable(handle: BinaryIO) -> Iterator[BinaryIO]:
    """The handle itself where it will do, else a copy that lasts as long as the context."""
    with ExitStack() as copies:
        if not _can_seek(handle):
            handle = _copy(handle, copies)
        handle.seek(0)
        if handle.read(2) == _GZIP:
            handle = _unpacked(handle, copies)
        handle.seek(0)
        coding = _UTF16.get(handle.read(2))
        yield _decode(handle, coding, copies) if coding else handle


def _can_seek(handle: BinaryIO) -> bool:
    """Pipes cannot; files of /proc say that they can, and that they are empty."""
    seekable = getattr(handle, "seekable", None)  # a spooled file of Python 3.10 has none, and can seek
    if seekable is not None and not seekable():
        return False
    handle.seek(0)
    head = handle.read(1)
    size = handle.seek(0, 2)
    handle.seek(0)
    return size >= len(head)


def _copy(handle: BinaryIO, copies: ExitStack) -> BinaryIO:
    spool = _spool(copies)
    copied = 0
    while copied < _MOST and (data := handle.read(_CHUNK)):
        copied += spool.write(data)
    return spool


def _unpacked(handle: BinaryIO, copies: ExitStack) -> BinaryIO:
    """As far as it can be unpacked: a file that is still written ends anywhere. The handle itself where nothing can."""
    import zlib

    from .unpack import Unpacker

    spool, unpacker, copied = _spool(copies), Unpacker(), 0
    handle.seek(0)
    with suppress(zlib.error):
        while data := handle.read(_PACKED_CHUNK):
            most = min(_MOST_UNPACKED, max(_SPOOL, _MOST_FOLD * handle.tell()))
            for piece in unpacker.pieces(data):
                copied += spool.write(piece)
                if copied > most:
                    raise TooMuchError(copied)
    return spool if copied else handle


def _decode(handle: BinaryIO, coding: str, copies: ExitStack) -> BinaryIO:
    spool = _spool(copies)
    shutil.copyfileobj(codecs.getreader(coding)(handle, "replace"), codecs.getwriter("utf-8")(spool, "replace"), _CHUNK)
    return spool


def _spool(copies: ExitStack) -> BinaryIO:
    from tempfile import SpooledTemporaryFile  # slow to import

    return cast(BinaryIO, copies.enter_context(SpooledTemporaryFile(_SPOOL)))
