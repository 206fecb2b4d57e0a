"""What a person types as a target, made into the base URL of a server."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from ..errors import UsageError
from ..masking import Masker

_ADVICE = "name it like http://localhost:30000"
_HOST = re.compile(r"[\w.-]+|\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]")


def normalise(target: str) -> str:
    """`localhost:30000/` -> `http://localhost:30000`. Raises UsageError for what cannot be a URL."""
    text = target.strip()
    if not text or re.search(r"[\s\x00-\x1f\x7f\\]", text):
        raise UsageError(f"not a URL: {_shown(text)}", _ADVICE)
    parts = _split(text if "://" in text else f"http://{_bracketed(text)}")
    if parts.query:
        raise UsageError(f"a base URL has no query: {_shown(text)}", _ADVICE)
    return f"{parts.scheme.lower()}://{parts.netloc}{parts.path.rstrip('/')}"


def split_path(url: str, paths: Iterable[str]) -> tuple[str, str]:
    """The base, and the known endpoint path the URL ends with ("" if none): the longest one wins."""
    for path in sorted(paths, key=len, reverse=True):
        if path.strip("/") and url.endswith(path):
            base = url[: -len(path)]
            if urlsplit(base).netloc:
                return base, path
    return url, ""


def _bracketed(text: str) -> str:
    """A bare IPv6 address gets its brackets."""
    try:
        return f"[{ipaddress.IPv6Address(text)}]"
    except ValueError:
        return text


def _split(url: str) -> SplitResult:
    shown = _shown(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"not a URL: {shown}: {error}", _ADVICE) from None
    if parts.scheme.lower() not in ("http", "https"):
        raise UsageError(f"only http and https can be read: {shown}", _ADVICE)
    if port == 0 or not _HOST.fullmatch(parts.netloc.rpartition("@")[2].removesuffix(f":{port}").removesuffix(":")):
        raise UsageError(f"not a URL: {shown}", _ADVICE)
    return parts


def _shown(text: str) -> str:
    return repr(Masker().text(text)[:100])
