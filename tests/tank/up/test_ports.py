"""A port that is taken is named, with who has it."""

from __future__ import annotations

import os
import socket

import pytest

from ullage.errors import UllageError
from ullage.tank.up.plan import Part
from ullage.tank.up.ports import require_free


def part(port: int, host: str = "127.0.0.1") -> Part:
    return Part("decode", "decode", f"http://{host}:{port}", (), (port,), host)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_taken_port_is_told_with_its_holder(host: str) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as holder:
        holder.bind((host, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(UllageError, match=f"port {port}, for decode, is taken by pid {os.getpid()} "):
            require_free([part(port, host)])


def test_a_port_that_was_just_let_go_is_free() -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, holder.accept()[0] as server:
            server.close()
            client.close()
    require_free([part(port)])


def test_an_address_that_is_not_ours_is_told() -> None:
    with pytest.raises(UllageError, match="is not to be had"):
        require_free([part(8000, "192.0.2.1")])
