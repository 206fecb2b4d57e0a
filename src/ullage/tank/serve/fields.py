"""What callers send, checked: a wrong type or value is one clear 400, an unknown field is let pass as SGLang does."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.requests import Request

from ..request import Bootstrap, RefusedError, Sampling


class Fields:
    """A JSON object. What is null counts as not given."""

    def __init__(self, data: dict[str, Any], where: str = "") -> None:
        self._data = {name: value for name, value in data.items() if value is not None}
        self._where = where

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def get(self, name: str) -> Any:
        return self._data.get(name)

    def integer(self, name: str, default: int | None = None, least: int | None = None) -> int | None:
        value = self._data.get(name, default)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
            raise self._wrong(name, "a whole number" + ("" if least is None else f" of at least {least}"))
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        value = self._data.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self._wrong(name, "a number")
        if not low <= value <= high:
            raise self._wrong(name, f"between {low:g} and {high:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._data.get(name, False)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._data.get(name, default)
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

    def only_one(self, *names: str) -> None:
        """Of some things there is one only."""
        for name in names:
            if self._data.get(name, 1) != 1:
                raise RefusedError(f"{self._where}{name} must be 1 here, not {self._data[name]}", 400)

    def not_offered(self, *names: str) -> None:
        for name in names:
            if self._data.get(name) not in (None, False, 0, [], {}, ""):
                raise RefusedError(f"{self._where}{name} is not offered", 400)

    def _wrong(self, name: str, wanted: str) -> RefusedError:
        shown = json.dumps(self._data.get(name))[:60]
        return RefusedError(f"{self._where}{name} must be {wanted}, not {shown}", 400)


def is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)


async def fields_of(request: Request) -> Fields:
    """Raises RefusedError (400) for what is no JSON object."""
    try:
        data = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise RefusedError("the body is no JSON", 400) from None
    if not isinstance(data, dict):
        raise RefusedError("the body must be a JSON object", 400)
    return Fields(data)


def sampling_of(fields: Fields, max_new_tokens: int | None, vocab: int) -> Sampling:
    fields.only_one("n")
    return Sampling(
        max_new_tokens=max_new_tokens,
        temperature=fields.number("temperature", 1.0, 0, 100),
        top_p=fields.number("top_p", 1.0, 1e-9, 1),
        top_k=fields.integer("top_k", -1, -1) or -1,
        seed=fields.integer("seed", fields.integer("sampling_seed")),
        stop=fields.texts("stop"),
        stop_token_ids=fields.token_ids("stop_token_ids", vocab),
        ignore_eos=fields.flag("ignore_eos"),
    )


def bootstrap_of(fields: Fields) -> Bootstrap | None:
    """The three fields that the router adds for a pair of workers; all of them, or none."""
    given = [name for name in ("bootstrap_host", "bootstrap_port", "bootstrap_room") if name in fields]
    if not given:
        return None
    host, port = fields.text("bootstrap_host"), fields.integer("bootstrap_port", 8998, 1)
    room = fields.integer("bootstrap_room", None, 0)
    if host is None or port is None or room is None:
        raise RefusedError(f"bootstrap_host and bootstrap_room belong together; given: {', '.join(given)}", 400)
    return Bootstrap(host, port, room)
