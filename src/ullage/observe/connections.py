"""A connection to a server: over TCP, over TLS, or to a Unix socket on this machine."""

from __future__ import annotations

import socket
from http.client import HTTPConnection, HTTPSConnection
from ssl import CERT_NONE, SSLContext, SSLError, create_default_context
from urllib.parse import urlsplit

from . import failures
from .targets import socket_of


class _SocketConnection(HTTPConnection):
    """HTTP over a Unix socket. Its servers get the host name "localhost"."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        self.sock = sock


def connection_to(url: str, timeout: float, cacert: str | None, *, insecure: bool) -> HTTPConnection:
    """Not connected yet."""
    if at := socket_of(url):
        return _SocketConnection(at.path, timeout)
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https":
        return HTTPConnection(host, parts.port or 80, timeout=timeout)
    return HTTPSConnection(host, parts.port or 443, timeout=timeout, context=_tls(cacert, insecure))


def _tls(cacert: str | None, insecure: bool) -> SSLContext:
    """The system's certificates, and those that were named beside them."""
    context = create_default_context()
    if cacert:
        failures.check_ca_file(cacert)
        try:
            context.load_verify_locations(cacert)
        except SSLError as error:
            raise failures.CaFileError("the --cacert file holds no certificate that can be read") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = CERT_NONE
    return context


def connect(connection: HTTPConnection) -> None:
    """Tells a server that is not there from one that breaks off."""
    try:
        connection.connect()
    except (SSLError, TimeoutError):
        raise
    except (OSError, UnicodeError) as error:  # the latter: a label of the host name is empty or too long
        raise failures.NotConnectedError from error
