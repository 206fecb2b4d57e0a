"""A JSON object that a caller sent: what has the wrong type or value is one clear 400. What is null is not given."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from ..request import RefusedError


class Fields:
    def __init__(self, data: dict[str, Any], where: str = "") -> None:
        self._data = {name: value for name, value in data.items() if value is not None}
        self._where = where

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def get(self, name: str) -> Any:
        return self._data.get(name)

    def integer(
        self, name: str, default: int | None = None, least: int | None = None, most: int | None = None
    ) -> int | None:
        value = self._data.get(name, default)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, "a whole number")
        if (least is not None and value < least) or (most is not None and value > most):
            raise self._wrong(name, f"at least {least}" + ("" if most is None else f" and at most {most}"))
        return value

    def number(self, name: str, default: float) -> float:
        """Finite: JSON as Python reads it has NaN and Infinity."""
        value = self._data.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
            raise self._wrong(name, "a number")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._data.get(name, False)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def text(self, name: str) -> str | None:
        value = self._data.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a string")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """One string, or several."""
        value = self._data.get(name, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise self._wrong(name, "a string or a list of strings")
        return tuple(listed)

    def token_ids(self, name: str, vocab: int) -> tuple[int, ...]:
        value = self._data.get(name, [])
        if not is_ids(value) or not all(0 <= item < vocab for item in value):
            raise self._wrong(name, f"a list of token ids below {vocab}")
        return tuple(value)

    def object(self, name: str) -> Fields:
        value = self._data.get(name, {})
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return Fields(value, f"{self._where}{name}.")

    def require(self, name: str, fits: bool, wanted: str) -> None:
        if not fits:
            raise self._wrong(name, wanted)

    def only(self, name: str, *neutral: Any) -> None:
        """A field that could ask for something which is not offered: only the values that ask for nothing are let
        pass. True is not 1 here.
        """
        value = self._data.get(name)
        if value is None or any((value, type(value) is bool) == (fits, type(fits) is bool) for fits in neutral):
            return
        shown = json.dumps(value)[:60]
        raise RefusedError(f"{self._where}{name} = {shown} is not offered here: leave it out", 400)

    def _wrong(self, name: str, wanted: str) -> RefusedError:
        value = self._data.get(name)
        shown = "nothing" if value is None else json.dumps(value)
        return RefusedError(f"{self._where}{name} must be {wanted}, not {shown[:60]}", 400)


def is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)


async def fields_of(request: Request) -> Fields:
    """Raises RefusedError (400) for what is no JSON object, and for half a character, which no answer could quote."""
    body = await request.body()
    try:
        data = json.loads(body)
        if b"\\u" in body:
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise RefusedError("the body is no JSON", 400) from None
    if not isinstance(data, dict):
        raise RefusedError("the body must be a JSON object", 400)
    return Fields(data)
