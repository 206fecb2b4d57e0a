"""The tank: SGLang's reader has read it, for it speaks as SGLang does; here is what differs.

* Its decode worker keeps what it retracts in the host's memory, and goes on with it: nothing is computed twice.
* It turns away at the door whatever its pool could never hold with what admission asks for on top, so its
  `max_req_input_len` says all; SGLang lets some of these wait for ever.
* It accounts for every byte of its memory, and says whether it keeps to a pace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...capacity.pool import Pool
from ...evidence import Document, Evidence
from ...figure import Figure, Source
from ..facts import readings
from ..server import Role, Server

ENGINE = "tank"
MARK = "ullage-tank"  # what its /server_info says under "engine"

_RESUMED = "output is not reserved: when the pool is full, the newest requests are set aside in host memory and resume"


def as_tank(server: Server) -> Server:
    """An SGLang server as the tank that it is; one that is none as it was."""
    for item in server.evidence:
        content = item.content
        if isinstance(content, Document) and isinstance(content.data, dict) and content.data.get("engine") == MARK:
            return _told(server, item, content.data)
    return server


def _told(server: Server, item: Evidence, data: Mapping[str, Any]) -> Server:
    return replace(
        server,
        engine=ENGINE,
        figures={**server.figures, **_account(item, data)},
        pools=tuple(_pool(server, pool) for pool in server.pools),
        notes=(*server.notes, *_pace(data)),
    )


def _account(item: Evidence, data: Mapping[str, Any]) -> dict[str, Figure]:
    """`weight_bytes`, `kv_cache_bytes` and so on, exact."""
    account = data.get("tank_memory")
    pairs = account.items() if isinstance(account, dict) else ()
    return readings([(name, value, Source(item.place, f"tank_memory.{name}")) for name, value in pairs])


def _pool(server: Server, pool: Pool) -> Pool:
    resumes = server.role is Role.DECODE and pool.overflow
    return replace(pool, overflow=_RESUMED) if resumes else pool


def _pace(data: Mapping[str, Any]) -> tuple[str, ...]:
    pace = data.get("pace")
    if not isinstance(pace, list) or len(pace) != 2:
        return ()
    token, step = pace
    return (f"it keeps to a pace, {token:g} s a prompt token and {step:g} s a decode step: no rate is the machine's",)
