"""One GET request, bounded in time and size; whatever goes wrong comes back as a Failure.

Bounds: `timeout_s` for all of it (name look-up, connection, TLS, headers, body, redirects), `max_bytes` of body.
Proxies of the environment are not used: a server under examination is asked directly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from threading import Thread
from time import monotonic
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import IncompleteRead, ProtocolError
from urllib3.response import BaseHTTPResponse
from urllib3.util import make_headers

from ..evidence import Content, Evidence, Failure, Origin
from ..masking import Masker
from . import body, failures

MAX_REDIRECTS = 3
_CHUNK = 65536
_ERROR_BODY = 2048
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class Access:
    """How to get into one target."""

    api_key: str | None = field(default=None, repr=False)
    cacert: str | None = None
    insecure: bool = False
    timeout_s: float = 2.0
    max_bytes: int = 32 * 2**20


@dataclass(frozen=True)
class Reply:
    status: int
    phrase: str
    location: str
    text: str
    cut: bool = False  # the connection broke before the announced end


def get(url: str, access: Access, masker: Masker, topic: str = "") -> Evidence:
    content = _Request(url, access, masker).run()
    place = masker.text(url)
    return Evidence(Origin(_base(place)), place, topic, datetime.now(timezone.utc), content)


def _base(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class _Request:
    """Runs in a thread of its own, so that even a hung name look-up cannot hold the caller beyond the deadline."""

    def __init__(self, url: str, access: Access, masker: Masker) -> None:
        import urllib3.connection  # noqa: F401 - here, so that the slow import does not count against the deadline

        self.url, self.access, self.masker = url, access, masker
        self.deadline = monotonic() + access.timeout_s
        self.connection: HTTPConnection | None = None
        self.content: Content | None = None

    def run(self) -> Content:
        thread = Thread(target=self._work, name="ullage-get", daemon=True)
        thread.start()
        thread.join(self.access.timeout_s)
        content = self.content
        if content is None:
            failures.break_off(self.connection)
            return failures.timeout(self.access.timeout_s)
        return content

    def _work(self) -> None:
        try:
            self.content = self._follow()
        except Exception as error:  # every kind of trouble is a finding about the server, never a crash here
            self.content = failures.from_error(error, self.access.timeout_s, self.masker)

    def _follow(self) -> Content:
        url = self.url
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._ask(url)
            if reply.status not in _REDIRECTS or not reply.location:
                return self._content(reply)
            onward = urljoin(url, reply.location)
            if not _same_server(urlsplit(url), urlsplit(onward)):
                return failures.elsewhere(self.masker.text(onward))
            url = onward
        return Failure("redirect", f"more than {MAX_REDIRECTS} redirects", "check the path")

    def _ask(self, url: str) -> Reply:
        parts = urlsplit(url)
        connection = self.connection = _connection(parts, self.access, self._left())
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", path, headers=_headers(parts, self.access), preload_content=False)
            response = connection.getresponse()
            return self._read(response)
        finally:
            connection.close()

    def _left(self) -> float:
        left = self.deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _read(self, response: BaseHTTPResponse) -> Reply:
        limit = self.access.max_bytes if response.status == 200 else _ERROR_BODY
        data, cut = self._body(response, limit)
        if len(data) > limit and response.status == 200:
            raise failures.TooLargeError(limit)
        text = data.decode("utf-8", errors="replace")
        return Reply(response.status, response.reason or "", response.headers.get("location") or "", text, cut)

    def _body(self, response: BaseHTTPResponse, limit: int) -> tuple[bytearray, bool]:
        data = bytearray()
        read = getattr(response, "read1", response.read)  # urllib3 before 2.2 loses the last bytes of a broken body
        try:
            while len(data) <= limit and (chunk := read(_CHUNK)):
                data += chunk
                self._left()
        except (IncompleteRead, ProtocolError):
            return data, True
        return data, False

    def _content(self, reply: Reply) -> Content:
        if reply.status != 200:
            return failures.from_status(reply.status, reply.phrase, reply.text, self.masker, bool(self.access.api_key))
        content = body.content_of(reply.text, self.masker)
        return failures.mark_cut(content) if reply.cut else content


def _same_server(here: SplitResult, there: SplitResult) -> bool:
    """Also the same server's move from http to https, where both stand on their usual ports."""
    if here.hostname != there.hostname:
        return False
    if here.scheme == there.scheme:
        return here.port == there.port
    return (here.scheme, there.scheme) == ("http", "https") and here.port in (None, 80) and there.port in (None, 443)


def _headers(parts: SplitResult, access: Access) -> dict[str, str]:
    headers = make_headers(accept_encoding="gzip,deflate", user_agent="ullage")
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers |= make_headers(basic_auth=user)
    elif access.api_key:
        headers["authorization"] = f"Bearer {access.api_key}"
    return {**headers, "accept": "application/json, text/plain, */*"}


def _connection(parts: SplitResult, access: Access, timeout: float) -> HTTPConnection:
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    if parts.scheme != "https":
        return HTTPConnection(host, parts.port or 80, timeout=timeout)
    if access.cacert:
        failures.check_ca_file(access.cacert)
    requirement = "CERT_NONE" if access.insecure else "CERT_REQUIRED"
    return HTTPSConnection(
        host, parts.port or 443, timeout=timeout, cert_reqs=requirement, ca_certs=access.cacert,
        assert_hostname=False if access.insecure else None,
    )
