"""How soon a dead child is started again."""

from __future__ import annotations

from collections.abc import Iterable

WINDOW_S = 60.0
_FIRST_S, _MOST_S = 0.5, 30.0


def delay_s(deaths: Iterable[float], now: float) -> float:
    """Twice as long with each death of the last minute: half a second at first, 30 at most: 7 starts a minute."""
    lately = sum(1 for death in deaths if now - death < WINDOW_S)
    return min(_MOST_S, _FIRST_S * 2.0 ** (max(lately, 1) - 1))
