"""One GET request, bounded in time and size; whatever goes wrong comes back as a Failure.

Bounds: `timeout_s` for all of it (name look-up, connection, TLS, headers, body, redirects), `max_bytes` of body.
Proxies of the environment are not used: a server under examination is asked directly. The standard library's client
does the protocol: richer ones take longer to import than everything else that is done here.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from ..evidence import Content, Evidence, Failure, Origin
from ..masking import Masker
from . import body, failures
from .connections import connect, connection_to
from .targets import socket_of

if TYPE_CHECKING:
    from .unpack import Unpacker

MAX_REDIRECTS = 3
_CHUNK = 65536
_ERROR_BODY = 2048
_REDIRECTS = (301, 302, 303, 307, 308)
_PACKED = {"gzip": False, "x-gzip": False, "deflate": True}  # may the header of the format be left out?


@dataclass(frozen=True)
class Access:
    """How to get into one target."""

    api_key: str | None = field(default=None, repr=False)
    cacert: str | None = None
    insecure: bool = False
    timeout_s: float = 2.0
    max_bytes: int = 32 * 2**20


class Reply(NamedTuple):
    status: int
    phrase: str
    location: str
    text: str
    cut: bool  # the connection broke before the announced end
    scheme: str  # how the server wants its users to prove themselves, where it says so


def get(url: str, access: Access, masker: Masker, topic: str = "") -> Evidence:
    content = _Request(url, access, masker).run()
    place = masker.text(url)
    unchecked = access.insecure and url.startswith("https:")
    remark = "its certificate was not checked (--insecure)" if unchecked else ""
    return Evidence(Origin(_base(place)), place, topic, datetime.now(timezone.utc), content, remark)


def _base(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class _Request:
    """Runs in a thread of its own, so that even a hung name look-up cannot hold the caller beyond the deadline."""

    def __init__(self, url: str, access: Access, masker: Masker) -> None:
        self.url, self.access, self.masker = url, access, masker
        self.deadline = monotonic() + access.timeout_s
        self.connection: HTTPConnection | None = None
        self.content: Content | None = None
        self.received = 0  # bytes of a body

    def run(self) -> Content:
        thread = Thread(target=self._work, name="ullage-get", daemon=True)
        thread.start()
        thread.join(self.access.timeout_s)
        content = self.content
        if content is None:
            failures.break_off(self.connection)
            return failures.timeout(self.access.timeout_s, self.received)
        return content

    def _work(self) -> None:
        try:
            self.content = self._follow()
        except TimeoutError:
            self.content = failures.timeout(self.access.timeout_s, self.received)
        except Exception as error:  # every kind of trouble is a finding about the server, never a crash here
            self.content = failures.from_error(error, self.masker, own_ca=bool(self.access.cacert))

    def _follow(self) -> Content:
        url = self.url
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._ask(url)
            if reply.status not in _REDIRECTS or not reply.location:
                return self._content(reply)
            onward = _onward(url, reply.location)
            if onward is None:
                return failures.elsewhere(self.masker.text(reply.location))
            url = onward
        return Failure("redirect", f"more than {MAX_REDIRECTS} redirects", "check the path")

    def _ask(self, url: str) -> Reply:
        access = self.access
        connection = self.connection = connection_to(url, self._left(), access.cacert, insecure=access.insecure)
        try:
            connect(connection)
            _send(connection, _path(url), _headers(urlsplit(url), access))
            return self._read(connection.getresponse())
        finally:
            connection.close()

    def _left(self) -> float:
        left = self.deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _read(self, response: HTTPResponse) -> Reply:
        if response.status == 200 and response.headers.get_content_type() == "text/event-stream":
            raise failures.EventStreamError
        limit = self.access.max_bytes if response.status == 200 else _ERROR_BODY
        data, cut = self._body(response, limit)
        if len(data) > limit and response.status == 200:
            raise failures.TooLargeError(limit)
        text = data.decode("utf-8", errors="replace")
        location = response.headers.get("location") or ""
        scheme = (response.headers.get("www-authenticate") or "").partition(" ")[0]
        return Reply(response.status, response.reason or "", location, text, cut, scheme)

    def _body(self, response: HTTPResponse, limit: int) -> tuple[bytearray, bool]:
        """(body, was it cut short): never much more than `limit`, whatever it unpacks to."""
        unpacker = _unpacker(response.headers.get("content-encoding", ""))
        data = bytearray()
        try:
            while len(data) <= limit and not unpacker.over and (chunk := response.read1(_CHUNK)):
                self.received += len(chunk)
                for piece in unpacker.pieces(chunk):
                    data += piece
                    if len(data) > limit:
                        break
                self._left()
        except IncompleteRead:
            return data, True
        return data, bool(response.length) or unpacker.cut

    def _content(self, reply: Reply) -> Content:
        if reply.status != 200:
            proven = bool(self.access.api_key) or "@" in urlsplit(self.url).netloc
            return failures.from_status(
                reply.status, reply.phrase, reply.text, self.masker, scheme=reply.scheme, with_key=proven
            )
        content = body.content_of(reply.text, self.masker)
        return failures.mark_cut(content) if reply.cut else content


class _Plain:
    """Stands where an Unpacker stands, for a body that is not packed."""

    over = cut = False

    def pieces(self, data: bytes) -> tuple[bytes]:
        return (data,)


def _unpacker(packing: str) -> Unpacker | _Plain:
    """By the Content-Encoding of an answer. Some proxies pack although nobody asked."""
    name = packing.strip().lower()
    if name in ("", "identity"):
        return _Plain()
    if name not in _PACKED:
        raise failures.PackingError(name)
    from .unpack import Unpacker

    return Unpacker(raw=_PACKED[name])


def _path(url: str) -> str:
    """What is asked for on the server that the URL names."""
    at, parts = socket_of(url), urlsplit(url)
    return ((at.below if at else parts.path) or "/") + (f"?{parts.query}" if parts.query else "")


def _onward(url: str, location: str) -> str | None:
    """Where a redirect leads to on the same server. None: elsewhere, or nowhere."""
    try:
        at = socket_of(url)
        here = f"http://localhost{at.below}" if at else url  # behind a socket, servers believe to be that
        onward = urljoin(here, location)
        if not _same_server(urlsplit(here), urlsplit(onward)) or socket_of(onward):
            return None
        return f"{at.base}{onward.removeprefix('http://localhost')}" if at else onward
    except ValueError:  # no URL
        return None


def _same_server(here: SplitResult, there: SplitResult) -> bool:
    """Also the same server's move from http to https, where both stand on their usual ports."""
    if here.hostname != there.hostname:
        return False
    if here.scheme == there.scheme:
        return here.port == there.port
    return (here.scheme, there.scheme) == ("http", "https") and here.port in (None, 80) and there.port in (None, 443)


def _headers(parts: SplitResult, access: Access) -> dict[str, str]:
    headers = {"User-Agent": "ullage", "Accept-Encoding": "gzip", "Accept": "application/json, text/plain, */*"}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    elif access.api_key:
        headers["Authorization"] = f"Bearer {access.api_key}"
    if "%" in (parts.hostname or ""):  # the zone of an IPv6 address is this machine's business (RFC 6874)
        headers["Host"] = re.sub(r"%[^\]]*", "", parts.netloc.rpartition("@")[2])
    return headers


def _send(connection: HTTPConnection, path: str, headers: dict[str, str]) -> None:
    try:
        connection.request("GET", path, headers=headers)
    except ValueError as error:
        raise failures.NotSendableError from error
