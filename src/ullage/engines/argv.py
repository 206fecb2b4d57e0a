"""A command line as flags by name, the way argparse reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile

Flag = int | float | str | bool | list[str]


def flags_of(words: Sequence[str], names: Mapping[str, str], short: Mapping[str, str] | None = None) -> dict[str, Flag]:
    """`--tp 4`, `--tp=4`, `-tp 4`, `--enable-metrics` by the names that the engine has for them; of two the last
    counts.

    `names`: other spellings of long flags, with underscores. `short`: flags with one dash, without it.
    """
    return {names.get(name, name): value for name, value in _pairs(words, short or {})}


def positional(words: Sequence[str], after: str) -> str | None:
    """The word behind a subcommand, if it is no flag: `vllm serve MODEL`."""
    for word, following in pairwise(words):
        if word == after:
            return None if following.startswith("-") else following
    return None


def is_variable(value: object) -> bool:
    """An unexpanded shell variable is no value."""
    return isinstance(value, str) and value.startswith("$")


def number(word: str) -> int | float | str:
    """A whole number, a fraction, else the word."""
    try:
        return float(word) if "." in word or "e" in word.lower() else int(word)
    except ValueError:
        return word


def _pairs(words: Sequence[str], short: Mapping[str, str]) -> Iterator[tuple[str, Flag]]:
    name, values = "", list[str]()
    for word in [*takewhile(lambda word: word != "--", words), "--"]:
        flag, equals, value = word.partition("=")
        known = short.get(flag.removeprefix("-")) if flag.startswith("-") and not flag.startswith("--") else None
        if not word.startswith("--") and known is None:
            values.append(word)
            continue
        if name:
            yield name, _value(values)
        name, values = known or flag[2:].replace("-", "_"), [value] if equals else []


def _value(values: Sequence[str]) -> Flag:
    if not values:
        return True
    return list(values) if len(values) > 1 else number(values[0])
