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
        held = used.count + evictable.count + reserved.count
        left = [max(0, whole - held) for whole in (size.count, int(size.least), int(size.most))]
        free = derived("free", left[0], size.unit, parts, "size - used - evictable - reserved").between(*left[1:])
    return Level(pool, size, used, evictable, reserved, free, share)


_LABELS = ("size", "use", "evictable cache", "what is kept back")
