"""What a person types as a target, made into the base URL of a server."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from base64 import b64encode
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from ..errors import UsageError
from ..masking import MASK, Masker

_ADVICE = "name it like http://localhost:30000"
_HOST = re.compile(r"[\w.-]+|\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]")
_ON_SOCKET = re.compile(r"http://unix:(?P<path>/[^:?#]*):(?P<below>(?:/[^?#]*)?)(?=[?#]|$)")
_SOCKET_FORMS = re.compile(
    r"(?:unix:(?://)?(?=/[^/])|http://unix:(?=/[^:]+$)|http\+unix://(?=%2f))(?P<path>[^?#]*)", re.IGNORECASE
)
_NO_BRACKETS = re.compile(r"https?://(?:[^/]*@)?[0-9a-f]*:[0-9a-f]*:[0-9a-f:]*(?:/|$)", re.IGNORECASE)
_OF_CLIENTS = re.compile(r"/v1(?:/(?:chat/)?completions)?$")


class OnSocket(NamedTuple):
    """A URL of a server on a Unix socket."""

    path: str
    below: str  # the path of the URL

    @property
    def base(self) -> str:
        """As nginx writes it: http://unix:/run/vllm.sock: and behind that the path of the URL."""
        return f"http://unix:{quote(self.path)}:"


def normalise(target: str) -> str:
    """`localhost:30000/` -> `http://localhost:30000`. Raises UsageError for what cannot be a URL.

    Clients are given a base URL that ends in /v1: the server's own endpoints stand beside that.
    """
    text = target.strip()
    if not text or re.search(r"[\s\x00-\x1f\x7f\\]", text):
        raise UsageError(f"not a URL: {shown(text)}", _ADVICE)
    if "?" in text:
        raise UsageError(f"a base URL has no query: {shown(text)}", _ADVICE)
    url = _socket_url(text.partition("#")[0]) or _tcp_url(text)
    return _OF_CLIENTS.sub("", url.rstrip("/"))


def metrics_page(target: str) -> str:
    """The URL of a metrics page: `host:9090` -> `http://host:9090/metrics`."""
    url = normalise(target)
    at = socket_of(url)
    return url if (at.below if at else urlsplit(url).path) else f"{url}/metrics"


def _tcp_url(text: str) -> str:
    parts = _split(text if "://" in text else f"http://{_bracketed(text)}")
    place = re.sub(r"(\[[^\]]*)%25", r"\1%", parts.netloc)  # the zone of an IPv6 address, as RFC 6874 writes it
    return f"{parts.scheme.lower()}://{place}{parts.path}"


def _socket_url(text: str) -> str:
    """The URL of a server on a Unix socket in its one form; "" for any other URL."""
    if _ON_SOCKET.match(text):
        return text
    form = _SOCKET_FORMS.match(text)
    if form is None:
        return ""
    if text.lower().startswith("http+"):  # one part of the path, percent-encoded
        path, _, below = form["path"].partition("/")
        return on_socket(unquote(path), below and f"/{below}")
    path = unquote(form["path"]).rstrip("/")
    at = next((upper for upper in _uppers(path) if is_socket(upper)), path)
    return on_socket(at, path[len(at) :])


def _uppers(path: str) -> Iterable[str]:
    """The path itself and all folders above it."""
    while path.strip("/"):
        yield path
        path = path.rpartition("/")[0]


def on_socket(path: str, below: str = "") -> str:
    """The URL of a server on the Unix socket at `path`."""
    return f"{OnSocket(os.path.abspath(path), '').base}{below}"


def is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def socket_of(url: str) -> OnSocket | None:
    """The socket that a URL in its one form leads to; None for one over the network."""
    match = _ON_SOCKET.match(url)
    return OnSocket(unquote(match["path"]), match["below"]) if match else None


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
    if _NO_BRACKETS.match(url):
        raise UsageError(f"not a URL: {shown(url)}", "an IPv6 address with a port is written [::1]:30000")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its words quote the URL
        raise UsageError(f"not a URL: {shown(url)}", _ADVICE) from None
    if parts.scheme.lower() not in ("http", "https"):
        raise UsageError(f"only http and https can be read: {shown(url)}", _ADVICE)
    host = parts.netloc.rpartition("@")[2].removesuffix(f":{port}").removesuffix(":")
    if port == 0 or not _HOST.fullmatch(host):
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
