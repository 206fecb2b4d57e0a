"""The tank accounts for every byte of its --memory: nothing is rounded, and nothing is unaccounted for."""

from __future__ import annotations

from dataclasses import replace

from ...capacity.ledger import Ledger, Part, ledger
from ...figure import Figure, missing
from ..server import Server

_PARTS = (
    ("weight_bytes", "weights", ""),
    ("kv_cache_bytes", "KV pool", ""),
    ("request_table_bytes", "request table", "grows with --context-length and --max-running-requests"),
    ("scratch_bytes", "scratch of a forward pass", "grows with --chunked-prefill-size"),
)


def ledgers(server: Server) -> list[Ledger]:
    whole = server.figure("memory_bytes", "bytes")
    if not whole.known:
        whole = missing("memory_bytes", "bytes", "the tank's /server_info states it")
    parts = [_part(server.figure(key), name, why) for key, name, why in _PARTS]
    left = _part(server.figure("available_bytes"), "idle", "", free=True)
    return [replace(ledger("the tank's --memory", whole, [*parts, left]), server=server.name, usable=whole)]


def _part(figure: Figure, name: str, why: str, *, free: bool = False) -> Part | None:
    return Part(name, figure, free=free, why=why) if figure.known else None
