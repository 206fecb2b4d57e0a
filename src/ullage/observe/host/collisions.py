"""Two servers on one port: it is said of both, as an answer on that port may be the other's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .door import Door
from .net_tables import Socket
from .running import Listen, Running


class Placed(NamedTuple):
    """A server, where it was told to answer, and all that listens in its network."""

    running: Running
    door: Door
    network: int
    sockets: tuple[Socket, ...]


def with_collisions(server: Placed, every: Sequence[Placed]) -> Running:
    """With a remark for every port that is another's too."""
    remarks = list(filter(None, (_remark(server, every, port) for port in server.door.ports)))
    return server.running._replace(remarks=(*server.running.remarks, *remarks[:1]))


def _remark(server: Placed, every: Sequence[Placed], port: int) -> str:
    own = _on(server.running, port)
    near = [other for other in every if other is not server and other.network == server.network]
    others = [other.running for other in near if _on(other.running, port)]
    names = " and ".join(f"pid {running.main.pid} ({running.program})" for running in others)
    if own:
        hosts = {listen.host for listen in own}
        meet = any(listen.host in hosts for running in others for listen in _on(running, port))
        unseen = any(listen.pid is None for running in (server.running, *others) for listen in _on(running, port))
        whose = "whose it is cannot be read" if unseen else "a request reaches either of them"
        return f"port {port} is that of {names} too: {whose}" if meet else ""
    if server.running.urls or server.door.socket:
        return ""
    taken = any(socket.port == port for socket in server.sockets)
    told = f"port {port}, which its flags name," if server.door.named else f"port {port}, which it takes by itself,"
    return f"{told} is taken by {names or 'a process that is none of its own'}" if taken else ""


def _on(running: Running, port: int) -> list[Listen]:
    return [listen for listen in running.listens if listen.port == port]
