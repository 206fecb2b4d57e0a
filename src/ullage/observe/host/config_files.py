"""The file of `--config FILE`: settings that SGLang and vLLM read as if they stood on the command line."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from .proc import read
from .running import Proc, Unreadable

_MOST_BYTES = 2**20
_MOST_LINKS = 40  # as the kernel follows


class Settings(NamedTuple):
    """`words`: of the file, as flags. `path`: the file, as the server has it."""

    path: str = ""
    words: tuple[str, ...] = ()
    changed_at: float | None = None  # seconds since the epoch
    unreadable: Unreadable | None = None


def effective_words(words: Sequence[str], head: int, settings: Settings) -> tuple[str, ...]:
    """The file's settings stand before the flags, for of two the last counts: both engines let the command line win.

    `head`: how many words name the program; a model behind it stays there, as vLLM has it.
    """
    rest = list(words[head:])
    if not _named(rest):
        return tuple(words)
    place = next(n for n, word in enumerate(rest) if word.partition("=")[0] == "--config")
    del rest[place : place + (1 if "=" in rest[place] else 2)]
    model = 1 if place and not rest[0].startswith("-") else 0
    return (*words[:head], *rest[:model], *settings.words, *rest[model:])


def settings_of(proc: str, main: Proc, head: int, fix: str) -> Settings:
    """What the file says that its flags name; nothing where they name none."""
    name = _named(main.words[head:])
    if not name:
        return Settings()
    path = os.path.normpath(os.path.join(main.cwd or "/", name))
    if not name.startswith("/") and not main.cwd:
        return _failed(main, name, "its working directory is not readable", fix)
    try:
        here = inside(f"{proc}/{main.pid}/root", path)
        status = os.stat(here)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return _failed(main, path, "it is no file of settings: too large, or no file", "")
    except PermissionError:
        return _failed(main, path, "it is not ours to read", fix)
    except OSError as error:
        return _failed(main, path, error.strerror or "it cannot be read", "")
    data = read(here, _MOST_BYTES)
    if data is None:
        return _failed(main, path, "it is not ours to read", fix)
    try:
        return Settings(path, tuple(_flags(_parsed(data))), status.st_mtime)
    except ValueError as error:
        return _failed(main, path, str(error), "")


def changed_since(settings: Settings, began: datetime | None) -> bool:
    """Was the file written after the server had begun? Then what it says now may not be in effect."""
    return bool(began and settings.changed_at and settings.changed_at > began.timestamp() + 1)


def inside(root: str, path: str) -> str:
    """A path in the file system of another process, as we can open it. Its links lead on inside that: where the kernel
    follows them for us, an absolute one would lead to a file of our own. Raises OSError.
    """
    parts, links = [part for part in path.split("/") if part][::-1], 0
    done: list[str] = []
    while parts:
        part = parts.pop()
        if part in (".", ".."):
            done = done[:-1] if part == ".." else done
            continue
        here = "/".join([root, *done, part])
        if not os.path.islink(here):
            done.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(40, "Too many levels of symbolic links")
        target = os.readlink(here)
        done = [] if target.startswith("/") else done
        parts += [piece for piece in target.split("/") if piece][::-1]
    return "/".join([root, *done])


def _named(words: Sequence[str]) -> str:
    for n, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == "--config":
            return value if equals else "".join(words[n + 1 : n + 2])
    return ""


def _parsed(data: bytes) -> dict[Any, Any]:
    """Raises ValueError. A file with aliases can unfold to any size, and engines' examples have none."""
    import yaml

    try:
        text = data.decode("utf-8")
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ValueError("it has aliases (*name), which are not read")
        document = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise ValueError("it is no YAML") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError("it holds no settings by name")
    return document


def _flags(settings: dict[Any, Any]) -> Iterator[str]:
    """As both engines make flags of it: a switch by its name alone, a list as several words. What is off stays away."""
    for key, value in settings.items():
        if value is False or value is None or value == []:
            continue
        yield f"--{key}"
        if isinstance(value, dict):
            yield json.dumps(value, default=str)
        elif isinstance(value, list):
            yield from map(str, value)
        elif value is not True:
            yield str(value)


def _failed(main: Proc, path: str, reason: str, fix: str) -> Settings:
    what = f"{path}, the --config of pid {main.pid}"
    return Settings(path, unreadable=Unreadable(what, reason, fix or "name its flags yourself: --flags '...'"))
