"""ullage.toml: the targets of a deployment, and how each is reached.

[[target]]
url = "https://decode-1:30001"
api_key_env = "DECODE_KEY"      # the variable's name; a key itself is refused
cacert = "ca.pem"
metrics = "http://decode-1:9090/metrics"  # where its metrics page stands elsewhere
flags = "--mem-fraction-static 0.83 --context-length 131072"  # what it is to run with: compared with what it does

[[target]]
file = "startup.log"
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from .errors import UsageError
from .masking import Masker

_KEYS = {"url", "file", "api_key_env", "cacert", "insecure", "metrics", "flags"}


class Target(NamedTuple):
    """One thing to read: a URL (with the name of its key's variable and its certificates) or a file. `flags`: what it
    is to run with, as `stated` somewhere.
    """

    where: str
    is_url: bool
    api_key_env: str | None = None
    cacert: str | None = None
    insecure: bool = False
    metrics: str | None = None  # the URL of its metrics page, where that stands elsewhere
    flags: str = ""
    stated: str = ""


def read_spec(path: str) -> list[Target]:
    """The targets of a spec, paths relative to it. Raises UsageError with what is off, and where."""
    tables = _load(path).get("target")
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise UsageError(f"{path}: no [[target]] in it", 'write [[target]] and below it url = "http://..."')
    targets = [_target(path, number, table) for number, table in enumerate(tables, 1)]
    for number, target in enumerate(targets, 1):
        first = next(n for n, other in enumerate(targets, 1) if other.where == target.where)
        if first != number:
            raise UsageError(f"{path}: targets {first} and {number} are the same", "make one of them")
    return targets


def _load(path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return dict(tomllib.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from None


def _target(path: str, number: int, table: dict[str, Any]) -> Target:
    unknown = sorted(table.keys() - _KEYS)
    if unknown:
        advice = (
            "put the key into an environment variable and name that: api_key_env"
            if "api_key" in unknown
            else f"known are {', '.join(sorted(_KEYS))}"
        )
        raise UsageError(f"{path}: target {number} has {Masker().text(unknown[0])!r}", advice)
    _require_types(path, number, table)
    url, file = table.get("url"), table.get("file")
    if bool(url) == bool(file):
        raise UsageError(f"{path}: target {number} needs either url or file")
    folder = Path(path).parent
    cacert = str(folder / table["cacert"]) if table.get("cacert") else None
    if file and table.get("metrics"):
        raise UsageError(f"{path}: target {number} has metrics beside a file", 'write it as file = "metrics.txt"')
    flags, stated = table.get("flags", ""), f"{path}, target {number}"
    if file:
        return Target(str(folder / file), is_url=False, flags=flags, stated=stated)
    where, page = _urls(str(url), table.get("metrics"))
    return Target(where, True, table.get("api_key_env"), cacert, bool(table.get("insecure")), page, flags, stated)


def _require_types(path: str, number: int, table: dict[str, Any]) -> None:
    for name, value in table.items():
        if not isinstance(value, bool if name == "insecure" else str):
            raise UsageError(
                f"{path}: target {number}: {name} is not {'true or false' if name == 'insecure' else 'a text'}"
            )


def _urls(url: str, metrics: str | None) -> tuple[str, str | None]:
    from .observe.targets import metrics_page, normalise

    return normalise(url), metrics_page(metrics) if metrics else None
