"""How full a pool is: what is left once its parts are known."""

from __future__ import annotations

from ..figure import Figure, derived, missing
from .server import Level


def level_of(
    pool: str, size: Figure, used: Figure, evictable: Figure, reserved: Figure, share: Figure | None = None
) -> Level:
    """A level whose free part no engine states: size - used - evictable - reserved, where all of them are known."""
    parts = (size, used, evictable, reserved)
    unknown = [f"{label} is not known ({f.note})" for label, f in zip(_LABELS, parts, strict=True) if not f.known]
    if unknown:
        free = missing("free", size.unit, "; ".join(unknown))
    else:
        left = size.count - used.count - evictable.count - reserved.count
        free = derived("free", max(0, left), size.unit, parts, "size - used - evictable - reserved")
    return Level(pool, size, used, evictable, reserved, free, share)


_LABELS = ("size", "use", "evictable cache", "what is kept back")
