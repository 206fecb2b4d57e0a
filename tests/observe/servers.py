"""Small servers on real sockets that misbehave on demand."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote

METRICS = '# TYPE a:b counter\na:b{x="1"} 2\n# TYPE c gauge\nc NaN\n'


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.over = Event()
        self.answering: Callable[[Handler], None] = by_path
        super().__init__((host, 0), Handler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        return connection, address or ("local", 0)  # a Unix socket's clients have none

    def handle_error(self, *_: object) -> None:
        """Clients break off here; that is the point."""


class OnSocket(Server):
    """The same on a Unix socket."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)

    @property
    def url(self) -> str:
        return f"http://unix:{self.path}:"

    def server_bind(self) -> None:
        self.address_family = socket.AF_UNIX
        self.socket.close()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.server_name, self.server_port = "localhost", 0


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.close_connection = True
        self.server.answering(self)

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_on(self, to: str, status: int = 307) -> None:
        self.answer(b"", status, Location=to)


def by_path(handler: Handler) -> None:
    PAGES.get(handler.path.split("?")[0], missing)(handler)


def missing(handler: Handler) -> None:
    handler.answer(b'{"detail":"Not Found"}', 404)


def hung(handler: Handler) -> None:
    handler.server.over.wait(10)


def dribbling(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    drip(handler)


def dribbling_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    drip(handler)


def drip(handler: Handler) -> None:
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b"1")
        handler.wfile.flush()


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b"[" + b"1," * 32768)


def slow_endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b"1," * 100)


def events(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
    handler.end_headers()
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b'data: {"a": 1}\n\n')


def chunked(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b"6\r\na:b 1\n\r\n")


def endless_trailers(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"0\r\n")
    while not handler.server.over.is_set():
        handler.wfile.write(b"X-More: 1\r\n" * 100)


def endless_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.over.is_set():
        handler.wfile.write(b"X-More: 1\r\n" * 100)


def endless_header(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not handler.server.over.is_set():
        handler.wfile.write(b"1" * 65536)


def endless_interim(handler: Handler) -> None:
    while not handler.server.over.is_set():
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


OK = json.dumps({"ok": [1, 2]}).encode()
_RAW_DEFLATE = zlib.compressobj(wbits=-zlib.MAX_WBITS)
PACKED = {
    "gzip": gzip.compress(OK),
    "x-gzip": gzip.compress(OK),
    "GZIP": gzip.compress(OK[:5]) + gzip.compress(OK[5:]),  # two that were put together
    "gzip ": gzip.compress(OK) + b"\0" * 512,
    "deflate": zlib.compress(OK),
    "Deflate": _RAW_DEFLATE.compress(OK) + _RAW_DEFLATE.flush(),
    "identity": OK,
}


def packed_as(encoding: str) -> Callable[[Handler], None]:
    return lambda handler: handler.answer(PACKED[encoding], Content_Encoding=encoding)


def bomb(handler: Handler) -> None:
    """A gigabyte of zeros in a megabyte."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    begin = packer.compress(bytes(2**24)) + packer.flush(zlib.Z_FULL_FLUSH)
    onward = packer.compress(bytes(2**24)) + packer.flush(zlib.Z_FULL_FLUSH)
    handler.answer(begin + onward * 63, Content_Encoding="gzip")


def endless_behind_gzip(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.end_headers()
    handler.wfile.write(PACKED["gzip"])
    while not handler.server.over.is_set():
        handler.wfile.write(bytes(65536))


def badly_packed(handler: Handler) -> None:
    handler.answer(b"no gzip at all", Content_Encoding="gzip")


def keyed(handler: Handler) -> None:
    if handler.headers.get("Authorization") == "Bearer hunter2-key":
        handler.answer(b'{"in": true}')
    else:
        handler.answer(b'{"error":"Unauthorized"}', 401)


def broken_off(handler: Handler) -> None:
    handler.answer(b'a:b{x="1"} 2\nc 3\nd{y="', Content_Length="5000")


def fixed(body: str, status: int = 200) -> Callable[[Handler], None]:
    return lambda handler: handler.answer(body.encode(), status)


PAGES: dict[str, Callable[[Handler], None]] = {
    "/json": fixed('{"a": 1, "nan": NaN, "inf": -Infinity, "api_key": "hunter2-hunter2"}'),
    "/repr": fixed("{'model': 'it\\'s', 'flag': True, 'none': None, 'pair': (1, 2.5,), 'x': nan}"),
    "/metrics": fixed(METRICS),
    "/hung": hung,
    "/dribbling": dribbling,
    "/dribbling-headers": dribbling_headers,
    "/endless": endless,
    "/slow-endless": slow_endless,
    "/events": events,
    "/chunked": chunked,
    "/endless-trailers": endless_trailers,
    "/endless-headers": endless_headers,
    "/endless-header": endless_header,
    "/endless-interim": endless_interim,
    **{f"/packed/{quote(encoding)}": packed_as(encoding) for encoding in PACKED},
    "/brotli": lambda handler: handler.answer(b"\x8b\x02\x80{}\x03", Content_Encoding="br"),
    "/behind-gzip": endless_behind_gzip,
    "/bomb": bomb,
    "/bad-gzip": badly_packed,
    "/keyed": keyed,
    "/broken-off": broken_off,
    "/half": fixed('{"a": [1, 2'),
    "/deep": fixed("[" * 200_000),
    "/html": fixed("<!DOCTYPE html><html><body>Log in</body></html>"),
    "/empty": fixed(""),
    "/words": fixed("I'm a teapot"),
    "/starting": fixed('{"error":{"message":"Loading model"}}', 503),
    "/old": fixed('{"old": true}'),
    "/redirect": lambda handler: handler.send_on("/keyed"),
    "/loop": lambda handler: handler.send_on("/loop"),
    "/away": lambda handler: handler.send_on("http://127.0.0.2:1/keyed"),
}


@contextmanager
def running(host: str = "127.0.0.1", tls: tuple[Path, Path] | None = None) -> Iterator[Server]:
    """`host` is an address, or the path of a Unix socket."""
    server = OnSocket(host) if host.startswith("/") else Server(host)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def timed(most: float) -> Iterator[None]:
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < most
