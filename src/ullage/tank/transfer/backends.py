"""Transfer backends by name."""

from __future__ import annotations

from ...errors import UllageError
from .movers import Kv, Mover, TcpMover


def mover_of(name: str, kv: Kv) -> Mover:
    """Raises UllageError where a backend is not known, or not here."""
    if name == "tcp":
        return TcpMover(kv)
    if name == "nixl":
        from .nixl import NixlMover  # only who asks for it needs it

        return NixlMover(kv)
    raise UllageError(f"no transfer backend is called {name}", "--disaggregation-transfer-backend tcp")
