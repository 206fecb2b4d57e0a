"""What the loops ask of a transfer, and what it tells them. Calls come from the engine's thread, events from the
thread of the event loop.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int64]


class Arrived(NamedTuple):
    """All KV of a prompt is here, and the first token."""

    token: int
    cached_tokens: int
    bytes: int
    seconds: float


class Sender(Protocol):
    """On a prefill worker. Of every room that is expected, `sent` or `failed` is told once."""

    def expect(self, room: int) -> None:
        """A request for this room is here."""

    def refuse(self, room: int, why: str) -> None:
        """There will be none: who asks for it gets to know why."""

    def send(self, room: int, slots: Slots, token: int, cached_tokens: int) -> None:
        """The KV in these slots; they must stay as they are until `sent` or `failed`."""

    def drop(self, room: int, why: str) -> None:
        """Gives up; `failed` follows."""


class SenderEvents(Protocol):
    def claimed(self, room: int) -> None: ...
    def sent(self, room: int, bytes: int, seconds: float) -> None: ...
    def failed(self, room: int, why: str) -> None: ...


class Receiver(Protocol):
    """On a decode worker. Of every room that is opened, `arrived` or `failed` is told once."""

    def open(self, room: int, host: str, port: int) -> None: ...

    def claim(self, room: int, slots: Slots) -> None:
        """Here the KV goes; the slots are the transfer's until `arrived` or `failed`."""

    def drop(self, room: int, why: str) -> None:
        """Gives up; `failed` follows."""

    def decline(self, room: int, host: str, port: int, why: str) -> None:
        """The request was turned away here: prefill need not wait."""


class ReceiverEvents(Protocol):
    def opened(self, room: int) -> None:
        """The prefill worker is there."""

    def arrived(self, room: int, arrived: Arrived) -> None: ...
    def failed(self, room: int, why: str) -> None: ...
