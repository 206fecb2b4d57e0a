"""What a person types as a target, made into the base URL of a server."""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import UsageError
from ..masking import MASK, Masker

_ADVICE = "name it like http://localhost:30000"
_HOST = re.compile(r"[\w.-]+|\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]")


def normalise(target: str) -> str:
    """`localhost:30000/` -> `http://localhost:30000`. Raises UsageError for what cannot be a URL."""
    text = target.strip()
    if not text or re.search(r"[\s\x00-\x1f\x7f\\]", text):
        raise UsageError(f"not a URL: {shown(text)}", _ADVICE)
    parts = _split(text if "://" in text else f"http://{_bracketed(text)}")
    if parts.query:
        raise UsageError(f"a base URL has no query: {shown(text)}", _ADVICE)
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
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its words quote the URL
        raise UsageError(f"not a URL: {shown(url)}", _ADVICE) from None
    if parts.scheme.lower() not in ("http", "https"):
        raise UsageError(f"only http and https can be read: {shown(url)}", _ADVICE)
    if port == 0 or not _HOST.fullmatch(parts.netloc.rpartition("@")[2].removesuffix(f":{port}").removesuffix(":")):
        raise UsageError(f"not a URL: {shown(url)}", _ADVICE)
    return parts


def shown(text: str) -> str:
    """A target that may be none, without the user and the password in it, wherever they stand."""
    hidden = re.sub(r"(://).*@|^[^@\s]*:.*@", rf"\1{MASK}@", text, flags=re.DOTALL)
    return repr(Masker().text(hidden)[:100])


def passwords(url: str) -> tuple[str, ...]:
    """What guards a URL, in the forms in which a server may echo it."""
    parts = urlsplit(url)
    if not parts.username and not parts.password:
        return ()
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    basic = b64encode(f"{user}:{password}".encode()).decode()
    return (password or user, parts.password or parts.username or "", basic)
