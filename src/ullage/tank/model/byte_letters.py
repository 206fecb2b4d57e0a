"""GPT-2's spelling of bytes: vocabularies of the byte-level kind write each byte as one visible letter."""

from __future__ import annotations


def _letters() -> list[str]:
    """Visible Latin-1 stands for itself; the other bytes, in order, for the letters from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte) if byte in visible else chr(0x100 + hidden.index(byte)) for byte in range(256)]


BYTE_LETTERS = _letters()
_BYTES = {letter: bytes([byte]) for byte, letter in enumerate(BYTE_LETTERS)}


def spelled(piece: str) -> bytes:
    """The bytes that a token of such a vocabulary stands for. What is no such letter stands for itself."""
    return b"".join(_BYTES.get(letter) or letter.encode() for letter in piece)
