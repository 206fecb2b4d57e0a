"""What the tests of llama.cpp's reader share: outputs recorded from a real llama-server (build 10000 of commit
0c1e570, SmolLM2-135M, ports and paths replaced), and a server read from a few lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.evidence import log
from ullage.cli.gather import Options, gather
from ullage.engines.read import read
from ullage.engines.server import Server
from ullage.evidence import Evidence
from ullage.figure import Figure

DATA = Path(__file__).parents[1] / "data" / "llamacpp"


def recorded(*names: str) -> Server:
    """The one server that recorded files speak of."""
    [server] = all_of(gather([str(DATA / name) for name in names], [], Options()))
    return server


def all_of(items: list[Evidence]) -> list[Server]:
    servers, unclaimed = read(items)
    assert not unclaimed
    return servers


def server_of(*items: Evidence) -> Server:
    [server] = all_of(list(items))
    assert server.engine == "llama.cpp"
    return server


def logged(*lines: str) -> Server:
    return server_of(log("llama.log", *lines))


def document_of(name: str) -> Any:
    return json.loads((DATA / name).read_text("utf-8"))


def values(figures: Mapping[str, Figure]) -> dict[str, object]:
    return {name: figure.value for name, figure in figures.items()}


def pool_sizes(server: Server) -> dict[str, tuple[object, int]]:
    """Of each pool: the size of a part, and the parts."""
    return {pool.name: (pool.size.value, pool.partitions) for pool in server.pools}
