"""`make demo`: a prefill/decode deployment that answers on loopback with recorded evidence, and `ullage limits` on it.

Nothing runs behind it: every answer stands in demo_data, with the figures of one operator's deployment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_DATA = Path(__file__).with_name("demo_data")
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
        """Quiet: the demo's screen is the report's."""


def deployment() -> tuple[Replay, Replay, Replay]:
    """(router, prefill, decode), started on free ports of loopback."""
    prefill, decode = Replay(_worker("prefill")), Replay(_worker("decode"))
    workers = (
        (_DATA / "router_workers.json").read_text().replace("{prefill}", prefill.url).replace("{decode}", decode.url)
    )
    router = Replay({"/workers": workers.encode()})
    return router.start(), prefill.start(), decode.start()


def _worker(role: str) -> dict[str, bytes]:
    files = {
        **_WORKER,
        "/server_info": f"{role}_server_info.json",
        "/v1/loads": f"{role}_loads.json",
        "/metrics": f"{role}_metrics.txt",
    }
    return {path: (_DATA / name).read_bytes() for path, name in files.items()}


def main() -> int:
    router, prefill, decode = deployment()
    port = router.server_address[1]
    flags = f"sglang-router --pd-disaggregation --prefill {prefill.url} 8998 --decode {decode.url} --port {port}"
    command = ["limits", router.url, "--follow", "--at", "32000", "--flags", flags]
    print(
        f"A replayed deployment answers on loopback: router {router.url}, prefill {prefill.url}, decode {decode.url}\n"
    )
    print("$ ullage " + " ".join(json.dumps(word) if " " in word else word for word in command) + "\n", flush=True)
    try:
        code = subprocess.call([sys.executable, "-m", "ullage", *command])
        _next_steps(router.url)
        if "--serve" in sys.argv[1:]:
            print("\nserving until Ctrl-C", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        return 130
    return code


def _next_steps(url: str) -> None:
    python, ullage = _here(sys.executable), _here(str(Path(sys.executable).with_name("ullage")))
    print(f"\nTo try next, while `{python} -m ullage.demo --serve` keeps a deployment answering (at the URL it names):")
    print(f"  {ullage} limits {url} --follow --request prompt=30000,output=2000,shared=8000")
    print(f"  {ullage} limits {url} --follow --html limits.html")
    print(f"  {ullage} limits {url} --follow --json")
    print(f"  {ullage} limits {url} --follow --sources")
    print(f"  {ullage} explain prefill-window-cap")


def _here(path: str) -> str:
    """As it is typed from the folder one stands in."""
    near = os.path.relpath(path)
    return path if near.startswith("..") else near


if __name__ == "__main__":
    sys.exit(main())
