"""The three roles: what links a worker of each has to others, and which loop it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .config import ServerArgs
from .scheduler.decode import Decode
from .scheduler.prefill import Prefill
from .scheduler.room import Room
from .scheduler.unified import Unified
from .transfer.backends import mover_of
from .transfer.peers import Arrived
from .transfer.receiver import TcpReceiver
from .transfer.sender import CLAIM_S, TcpSender

if TYPE_CHECKING:
    from .engine import Loop

Post = Callable[..., None]


class Links:
    """The transfers of a worker: none, those that leave it, or those that come in. What they tell goes to the loop."""

    def __init__(self, post: Post, room: Room) -> None:
        self._post = post
        self._loop: Any = None
        self.sender: TcpSender | None = None
        self.receiver: TcpReceiver | None = None
        if room.facts.role == "unified":
            return
        kv = room.pool.kv
        mover, layout = mover_of(room.args.disaggregation_transfer_backend, kv), [kv.shape[0], *kv.shape[3:]]
        if room.facts.role == "prefill":
            claim_s = min(CLAIM_S, room.args.bootstrap_timeout_s)
            self.sender = TcpSender(self, mover, layout, room.facts.kv_bytes_per_token, claim_s)
        else:
            self.receiver = TcpReceiver(self, mover, layout)

    def attach(self, loop: Loop) -> None:
        self._loop = loop

    async def start(self, args: ServerArgs) -> None:
        if self.sender:
            await self.sender.start(args.host, args.disaggregation_bootstrap_port)
        if self.receiver:
            await self.receiver.start()

    async def stop(self) -> None:
        for link in (self.sender, self.receiver):
            if link is not None:
                await link.stop()

    def claimed(self, room: int) -> None:
        self._post(self._loop.claimed, room)

    def sent(self, room: int, bytes: int, seconds: float) -> None:
        self._post(self._loop.sent, room, bytes, seconds)

    def opened(self, room: int) -> None:
        self._post(self._loop.opened, room)

    def arrived(self, room: int, arrived: Arrived) -> None:
        self._post(self._loop.arrived, room, arrived)

    def failed(self, room: int, why: str) -> None:
        self._post(self._loop.failed, room, why)


def role_of(room: Room, links: Links) -> Loop:
    loop: Loop
    if links.sender is not None:
        loop = Prefill(room, links.sender)
    elif links.receiver is not None:
        loop = Decode(room, links.receiver)
    else:
        loop = Unified(room)
    links.attach(loop)
    return loop
