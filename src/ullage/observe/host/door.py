"""Where a server answers, as it was told: what the readers of a host ask of `engines.programs`."""

from __future__ import annotations

from typing import Protocol


class Door(Protocol):
    """See `engines.programs.Door`."""

    @property
    def ports(self) -> tuple[int, ...]: ...

    @property
    def named(self) -> bool: ...

    @property
    def tls(self) -> bool: ...

    @property
    def socket(self) -> str: ...

    @property
    def others(self) -> frozenset[int]: ...

    @property
    def all_http(self) -> bool: ...
