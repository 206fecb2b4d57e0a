"""Reads a GGUF file: its settings at once, its tensors when asked for.

Header: magic, version, counts of tensors and settings. Then the settings (key, type, value), then for each tensor its
name, shape (innermost first), type and offset, then, from the next multiple of the alignment on, the tensors.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

from ...errors import UllageError
from .weights import Floats

_NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_STRING, _ARRAY = 8, 9
_ROWS = 1024


class _Tensor(NamedTuple):
    shape: tuple[int, ...]  # outermost first
    kind: GGMLQuantizationType
    offset: int


class GgufFile:
    """`settings` holds numbers, texts and lists of them, by key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._data = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is empty"
            raise UllageError(f"{path} cannot be read: {reason}") from error
        try:
            self._read()
        except (struct.error, ValueError, KeyError, UnicodeDecodeError, OverflowError) as error:
            raise UllageError(f"{path} is no whole GGUF file", "fetch it anew") from error

    def names(self) -> list[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def rows(self, name: str) -> QuantizedRows:
        tensor = self._tensors[name]
        block, size = GGML_QUANT_SIZES[tensor.kind]
        *outer, inner = tensor.shape
        row_bytes = inner // block * size
        end = tensor.offset + row_bytes * int(np.prod(outer, dtype=np.int64))
        if inner % block or end > len(self._data):
            raise ValueError
        return QuantizedRows(self._data[tensor.offset : end].reshape(*outer, row_bytes), tensor.kind)

    def floats(self, name: str) -> Floats:
        return self.rows(name).all()

    def _read(self) -> None:
        cursor = _Cursor(self._data)
        if cursor.take(4) != b"GGUF" or cursor.number("<u4") not in (2, 3):
            raise ValueError
        tensors, settings = cursor.number("<u8"), cursor.number("<u8")
        self.settings: dict[str, Any] = {}
        for _ in range(settings):
            key = cursor.text()
            self.settings[key] = cursor.value(cursor.number("<u4"))
        found = [(cursor.text(), cursor.tensor()) for _ in range(tensors)]
        base = -(-cursor.at // self._alignment) * self._alignment
        self._tensors = {name: tensor._replace(offset=base + tensor.offset) for name, tensor in found}
        for name in self._tensors:
            self.rows(name)  # is it all there?

    @property
    def _alignment(self) -> int:
        return int(self.settings.get("general.alignment", 32))


class QuantizedRows:
    """A matrix as it lies in the file; rows become float32 when asked for."""

    def __init__(self, data: NDArray[np.uint8], kind: GGMLQuantizationType) -> None:
        self._data = data
        self._kind = kind

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    def in_memory(self) -> QuantizedRows:
        return QuantizedRows(np.array(self._data), self._kind)

    def __call__(self, rows: NDArray[np.int64]) -> Floats:
        return self._floats(self._data[rows])

    def all(self) -> Floats:
        return self._floats(self._data)

    def transposed(self) -> Floats:
        """A piece at a time, so that it is in memory but once."""
        count = len(self._data)
        inner = self._floats(self._data[:1]).shape[1]
        result = np.empty((inner, count), np.float32)
        for begin in range(0, count, _ROWS):
            result[:, begin : begin + _ROWS] = self._floats(self._data[begin : begin + _ROWS]).T
        return result

    def _floats(self, data: NDArray[np.uint8]) -> Floats:
        try:
            return np.asarray(dequantize(data, self._kind), np.float32)
        except NotImplementedError as error:
            raise UllageError(
                f"weights of the type {self._kind.name} cannot be read", "give a Q4, Q8 or F16 file"
            ) from error


class _Cursor:
    """Takes values off the file's bytes, one after another."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data = memoryview(data.data)
        self.at = 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self._data):
            raise ValueError
        self.at += count
        return bytes(self._data[self.at - count : self.at])

    def number(self, kind: str) -> int:
        return int(self._numbers(kind, 1)[0])

    def text(self) -> str:
        (count,) = struct.unpack("<Q", self.take(8))
        return self.take(count).decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self._numbers(_NUMBERS[kind], 1)[0].item()
        inner, count = self.number("<u4"), self.number("<u8")
        if inner in (_STRING, _ARRAY):
            return [self.value(inner) for _ in range(count)]
        return self._numbers(_NUMBERS[inner], count).tolist()

    def tensor(self) -> _Tensor:
        shape = self._numbers("<u8", self.number("<u4")).tolist()
        kind = GGMLQuantizationType(self.number("<u4"))
        return _Tensor(tuple(reversed(shape)), kind, self.number("<u8"))

    def _numbers(self, kind: str, count: int) -> NDArray[Any]:
        return np.frombuffer(self.take(np.dtype(kind).itemsize * count), kind)
