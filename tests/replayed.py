"""A prefill/decode deployment that answers on loopback with recorded evidence: the figures of one operator's deployment
stand in data/deployment.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_DATA = Path(__file__).parent / "data" / "deployment"
_WORKER = {"/model_info": "model_info.json", "/v1/models": "models.json"}


class Replay(ThreadingHTTPServer):
    """One server of the deployment: `pages` are its answers by path."""

    daemon_threads = True

    def __init__(self, pages: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages = pages

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> Replay:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self


class _Handler(BaseHTTPRequestHandler):
    server: Replay

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path)
        self.send_response(404 if page is None else 200)
        kind = "text/plain" if self.path == "/metrics" else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(page or b"")))
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def deployment() -> Iterator[tuple[Replay, Replay, Replay]]:
    """(router, prefill, decode), on free ports of loopback."""
    prefill, decode = Replay(_worker("prefill")), Replay(_worker("decode"))
    routed = (_DATA / "router_workers.json").read_text()
    routed = routed.replace("{prefill}", prefill.url).replace("{decode}", decode.url)
    servers = Replay({"/workers": routed.encode()}), prefill, decode
    try:
        yield servers[0].start(), prefill.start(), decode.start()
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def _worker(role: str) -> dict[str, bytes]:
    files = {
        **_WORKER,
        "/server_info": f"{role}_server_info.json",
        "/v1/loads": f"{role}_loads.json",
        "/metrics": f"{role}_metrics.txt",
    }
    return {path: (_DATA / name).read_bytes() for path, name in files.items()}
