"""The tables of a network namespace: who listens, which addresses are its own, which networks it reaches."""

from __future__ import annotations

import os
import struct
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import NamedTuple

from .proc import read

_LISTENS = b"0A"  # TCP_LISTEN, include/net/tcp_states.h
_ACCEPTS = b"00010000"  # __SO_ACCEPTCON
_MOST_BYTES = 32 * 2**20  # of a table: some 200,000 connections
_UP_AND_REJECTED = (0x1, 0x200)  # RTF_UP, RTF_REJECT


class Socket(NamedTuple):
    """A listening socket. `path`: of a Unix socket, which has no host and no port."""

    host: str
    port: int
    inode: int
    uid: int
    path: str = ""


def network_of(proc: str, pid: int | str) -> int:
    """A number that two processes in one network namespace have in common, and no other. It can be read where the
    namespace itself (/proc/PID/ns/net) may not. 0 where it cannot.
    """
    try:
        return os.stat(f"{proc}/{pid}/net/tcp").st_ino
    except OSError:
        return 0


def listening(proc: str, pid: int | str) -> tuple[Socket, ...]:
    """All listening sockets of the network namespace of a process."""
    tcp = [s for name in ("tcp", "tcp6") for s in tcp_sockets(read(f"{proc}/{pid}/net/{name}", _MOST_BYTES) or b"")]
    return (*tcp, *unix_sockets(read(f"{proc}/{pid}/net/unix", _MOST_BYTES) or b""))


def tcp_sockets(text: bytes) -> list[Socket]:
    """/proc/net/tcp and tcp6: `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode ...`."""
    lines = [line.split() for line in text.splitlines()[1:] if b" 0A " in line]
    return [s for words in lines if len(words) > 9 and words[3] == _LISTENS and (s := _tcp_socket(words))]


def _tcp_socket(words: list[bytes]) -> Socket | None:
    address, _, port = words[1].partition(b":")
    try:
        return Socket(host_of(address.decode()), int(port, 16), int(words[9]), int(words[7]))
    except ValueError:
        return None


def host_of(text: str) -> str:
    """`0100007F` -> 127.0.0.1: 32-bit words in the byte order of the machine. An IPv4 address in IPv6's dress is one of
    IPv4. Raises ValueError for what is no address.
    """
    data = bytes.fromhex(text)
    if len(data) == 4:
        return str(IPv4Address(struct.pack("!I", *struct.unpack("=I", data))))
    if len(data) != 16:
        raise ValueError(f"no address: {text!r}")
    address = IPv6Address(struct.pack("!4I", *struct.unpack("=4I", data)))
    return str(address.ipv4_mapped or address)


def unix_sockets(text: bytes) -> list[Socket]:
    """/proc/net/unix: `Num RefCount Protocol Flags Type St Inode Path`. The path is as its program gave it, and may be
    relative. Abstract sockets (`@...`) have no file.
    """
    lines = [line.split(None, 7) for line in text.splitlines()[1:] if b" 00010000 " in line]
    with_path = [words for words in lines if len(words) == 8 and not words[7].startswith(b"@") and words[6].isdigit()]
    return [
        Socket("", 0, int(words[6]), -1, words[7].decode("utf-8", "replace"))
        for words in with_path
        if words[3] == _ACCEPTS
    ]


def own_addresses(text: str) -> tuple[str, ...]:
    """/proc/net/fib_trie: the addresses that are the namespace's own, `|-- 172.17.0.2` above `/32 host LOCAL`. Without
    loopback.
    """
    found, address = [], ""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["|--"] and len(words) > 1:
            address = words[1]
        elif words == ["/32", "host", "LOCAL"] and not address.startswith("127."):
            found.append(address)
    return tuple(dict.fromkeys(found))


def networks(text: str) -> tuple[IPv4Network, ...]:
    """/proc/net/route: the networks with a route of their own. The default route is none: it leads anywhere."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        try:
            destination, flags, mask = host_of(words[1]), int(words[3], 16), host_of(words[7])
            network = IPv4Network(f"{destination}/{mask}")
        except (IndexError, ValueError):
            continue
        if network.prefixlen and flags & _UP_AND_REJECTED[0] and not flags & _UP_AND_REJECTED[1]:
            found.append(network)
    return tuple(found)
