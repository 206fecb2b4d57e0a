"""Unpacks gzip, zlib and deflate data piece by piece, so that the caller can stop whatever it may unpack to."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

GZIP = b"\x1f\x8b"
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_RAW = -zlib.MAX_WBITS
_PIECE = 2**18


class Unpacker:
    """Gzip files that were put together are one stream. What follows the end and is no gzip is passed over."""

    def __init__(self, *, raw: bool = False) -> None:
        """`raw`: deflate data may come without the header of zlib."""
        self._raw = raw
        self._part = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._begun = False
        self.over = False  # nothing of the stream can follow

    @property
    def cut(self) -> bool:
        """The data that came so far ends within the stream."""
        return self._begun and not self._part.eof

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Raises zlib.error for what is not packed like this."""
        while data and not self.over:
            self._begin(data)
            if self.over:
                return
            yield self._part.decompress(data, _PIECE)
            data = self._part.unused_data if self._part.eof else self._part.unconsumed_tail

    def _begin(self, data: bytes) -> None:
        if self._part.eof:
            self.over = not GZIP.startswith(data[:2])
            self._part = self._part if self.over else zlib.decompressobj(_GZIP_OR_ZLIB)
        elif not self._begun and self._raw and not _has_header(data):
            self._part = zlib.decompressobj(_RAW)
        self._begun = True


def _has_header(data: bytes) -> bool:
    """Gzip's mark, or the two bytes of zlib: method 8, and a multiple of 31 (RFC 1950)."""
    return data[:2] == GZIP or (data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0)
