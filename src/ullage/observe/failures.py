"""What can go wrong with a request, in one line each, with what to do about it."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPException

from ..evidence import Content, Failure, Samples
from ..masking import Masker
from .body import looks_like_html

_SHOWN_BODY = 200
_NOT_THERE = (404, 405)
_MIB = 2**20
_ADDRESS = re.compile(r"https?://[^/?#]+")


class TooLargeError(Exception):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is larger than {limit / _MIB:g} MiB")


class EventStreamError(Exception):
    """The answer is a stream of events, which has no end."""


class PackingError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(f"the answer is packed with {name}, which was not asked for")


class CaFileError(Exception):
    pass


class NotConnectedError(Exception):
    """No connection came about; its cause says why."""


class NotSendableError(Exception):
    def __init__(self) -> None:
        super().__init__("the key or the path holds a character that HTTP cannot carry")


def check_ca_file(path: str) -> None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            known = any("-----BEGIN" in line for line in file)
    except OSError:
        raise CaFileError("the --cacert file cannot be read") from None
    if not known:
        raise CaFileError("the --cacert file holds no certificate")


def break_off(connection: HTTPConnection | None) -> None:
    """Ends whatever the other thread still waits for on this connection."""
    sock = connection.sock if connection else None
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def timeout(seconds: float, received: int = 0) -> Failure:
    if received:
        reason = f"still sending after {seconds:g} s, {received:,} bytes so far"
        return Failure("timeout", reason, "it may be a stream without end; --timeout SECONDS waits longer")
    reason = f"no full answer within {seconds:g} s"
    return Failure("timeout", reason, "the server may hang or load; --timeout SECONDS waits longer")


def elsewhere(url: str) -> Failure:
    """Of another server its address is enough: the path repeats what was asked for, and may hold a token."""
    address = _ADDRESS.match(url)
    there = address[0] if address else url
    return Failure("redirect", f"sends on to {there}", "name that URL itself, if it is the server you mean")


def from_status(
    status: int, phrase: str, text: str, masker: Masker, *, scheme: str = "", with_key: bool = False
) -> Failure:
    """`scheme`: the first word of WWW-Authenticate. `with_key`: a key or a password was sent."""
    said = _said(text, masker)
    if status == 401 and scheme.lower() == "basic":
        reason = "the server refused the name and password" if with_key else "the server wants a name and password"
        return Failure("401", f"{reason} (basic authentication)", "put both into the url of an ullage.toml")
    if status in (401, 403):
        words = said if status == 403 else ""  # a 401 says no more than that
        if with_key:
            return Failure(str(status), f"the server refused the key{words}", "look at the variable of --api-key-env")
        return Failure(str(status), f"the server wants a key{words}", "pass a key with --api-key-env NAME")
    if status in _NOT_THERE:
        return Failure(str(status), f"no such endpoint{said}")
    if status == 503 and "loading" in text.lower():
        return Failure("503", "the server is still loading its model", "ask again when it has")
    if status == 204:
        return Failure("empty", "answered, with nothing in it")
    return Failure(str(status), f"HTTP {status} {masker.text(phrase)}".rstrip() + said)


def _said(text: str, masker: Masker) -> str:
    words = " ".join(masker.text(text).split())
    if not words or looks_like_html(text):
        return ""
    return f": {''.join(c for c in words[:_SHOWN_BODY] if c.isprintable())}"


def mark_cut(content: Content) -> Content:
    """What a broken connection left of an answer: metrics count as far as they go."""
    if isinstance(content, Samples):
        return content._replace(problems=(*content.problems, "the connection broke off within the page"))
    if isinstance(content, Failure):
        return content._replace(reason=f"the connection broke off: {content.reason}")
    return content


def from_error(error: Exception, masker: Masker, *, own_ca: bool = False) -> Failure:
    """`own_ca`: the user named a CA file."""
    import zlib
    from ssl import SSLError

    reason = masker.text(" ".join(str(error).split()))[:_SHOWN_BODY]
    if isinstance(error, TooLargeError):
        return Failure("too large", reason)
    if isinstance(error, NotConnectedError):
        return _unconnected(error.__cause__)
    if isinstance(error, EventStreamError):
        return Failure("stream", "a stream of events without end, not JSON or metrics")
    if isinstance(error, SSLError):
        return _tls(error, reason, own_ca)
    if isinstance(error, PackingError):
        return Failure("not understood", reason, "look at the proxy in between")
    if isinstance(error, zlib.error):
        return Failure("not understood", "the answer is not compressed the way it says")
    if isinstance(error, NotSendableError):
        return Failure("not sent", reason, "look at the variable of --api-key-env, and at the URL")
    if isinstance(error, CaFileError):
        return Failure("tls", reason, "check --cacert FILE")
    if isinstance(error, (OSError, HTTPException)):
        words = "no answer came" if isinstance(error, ConnectionResetError) else reason or type(error).__name__
        return Failure("broken", f"the connection broke: {words}", "is this an HTTP server?")
    fault = f"Ullage failed on this answer ({type(error).__name__}: {reason})"
    return Failure("not understood", fault, "please report it, with the answer")


def _unconnected(cause: BaseException | None) -> Failure:
    if isinstance(cause, socket.gaierror):
        return Failure("dns", "no such host name", "check the host name")
    if isinstance(cause, ConnectionRefusedError):
        return Failure("refused", "nothing listens there", "is the server running, and is the port right?")
    if isinstance(cause, FileNotFoundError):
        return Failure("refused", "no such socket", "is the server running, and is the path right?")
    if isinstance(cause, PermissionError):
        return Failure("unreachable", "no permission to open it", "run as the server's user, or in its group")
    words = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause or "") or "no connection"
    return Failure("unreachable", words, "check the address and the network")


def _tls(error: Exception, reason: str, own_ca: bool) -> Failure:
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason:
        return Failure("tls", "the server does not speak TLS on this port", "use http:// instead of https://")
    if "CERTIFICATE_REQUIRED" in reason:
        return Failure(
            "tls", "the server wants a certificate of its clients", "Ullage shows none: name a URL that needs none"
        )
    verify = str(getattr(error, "verify_message", ""))
    if "expired" in verify:
        return Failure("tls", "the certificate has expired", "renew it; --insecure reads on without checking")
    if "mismatch" in verify:
        name = "name the host as its certificate does; --insecure reads on without checking"
        return Failure("tls", f"the certificate is another host's: {verify}", name)
    advice = "is --cacert FILE the CA of this server?" if own_ca else "--cacert FILE or --insecure"
    return Failure("tls", f"the certificate is not trusted: {verify or reason}", advice)
