"""How a server is reached from here: the URLs of what it listens on, and why there is none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, ip_address
from typing import NamedTuple

from ..targets import on_socket
from .door import Door
from .net_tables import network_of, networks, own_addresses
from .proc import link, read
from .running import Listen, Proc
from .sockets import absolute

UNREACHED = "not reachable from here"
_ANY = ("0.0.0.0", "::")


class Reach(NamedTuple):
    urls: tuple[str, ...]
    remarks: tuple[str, ...]


def reached(main: Proc, listens: Sequence[Listen], door: Door, *, sure: bool, proc: str = "/proc") -> Reach:
    """`sure`: all that could name its port was read, so that no other port is asked."""
    serving, why = serving_of(main, listens, door, sure=sure)
    if not serving:
        return Reach((), (why,))
    remarks = (why,) if why else ()
    on_sockets = list(dict.fromkeys(s.path for s in serving if s.path))
    if on_sockets:
        here = [path for path in (from_here(proc, main.pid, path) for path in on_sockets) if _is_its(proc, main, path)]
        elsewhere = f"listens on {', '.join(on_sockets)}, which is not there from here: it may see other files"
        return Reach(tuple(map(on_socket, here)), remarks if here else (*remarks, elsewhere))
    if is_ours(proc, main.pid):
        pairs = [(_here(s.host), s.port) for s in serving]
    else:
        pairs = [(a, s.port) for s in serving for a in _addresses(proc, main.pid) if s.host in (*_ANY, a)]
    if pairs:
        return Reach(_urls(pairs, "https" if door.tls else "http"), remarks)
    where = ", ".join(dict.fromkeys(shown(s) for s in serving))
    return Reach((), (*remarks, f"listens in a network namespace of its own, on {where}: {UNREACHED}"))


def serving_of(main: Proc, listens: Sequence[Listen], door: Door, *, sure: bool) -> tuple[list[Listen], str]:
    """(where its API answers, or nothing; a remark). Ports of collectives and message queues are never taken for it."""
    if door.socket:
        found = [s for s in listens if s.path and s.path == absolute(main, door.socket)]
        return found, "" if found else f"does not listen on {door.socket}"
    for port in door.ports:
        if found := [s for s in listens if s.port == port]:
            return found, ""
    wanted = f"does not listen on port {' or '.join(map(str, door.ports))}"
    if door.named or sure:
        return [], wanted
    ports = sorted({s.port for s in listens if s.port and s.pid in (main.pid, None)} - door.others)
    found = [s for port in ports for s in listens if s.port == port]
    if len(ports) == 1:
        return found, ""
    words = ", ".join(map(str, ports))
    if ports and door.all_http:
        return found, f"listens on ports {words}: each was asked, for which of them serves was not to be read"
    several = f"listens on ports {words}, and which of them serves was not to be read: name it as a target"
    return [], several if ports else wanted


def shown(listen: Listen) -> str:
    """`127.0.0.1:30000`, `[::1]:30000`, `unix:/run/vllm.sock`."""
    return f"unix:{listen.path}" if listen.path else f"{_bracketed(listen.host)}:{listen.port}"


def is_ours(proc: str, pid: int) -> bool:
    """Is a process in our network namespace?"""
    return network_of(proc, pid) == network_of(proc, "self") != 0


def _urls(pairs: Iterable[tuple[str, int]], scheme: str) -> tuple[str, ...]:
    """Loopback first, IPv4 before IPv6. A link-local address is of no use without its interface."""
    usable = [(ip_address(host), port) for host, port in pairs if not ip_address(host).is_link_local]
    usable.sort(key=lambda pair: (not pair[0].is_loopback, pair[0].version))
    return tuple(dict.fromkeys(f"{scheme}://{_bracketed(str(host))}:{port}" for host, port in usable))


def _here(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _addresses(proc: str, pid: int) -> list[str]:
    """The addresses of another network namespace that this one has a route to. One that is ours as well leads to us."""
    theirs, ours = (own_addresses(_text(f"{proc}/{of}/net/fib_trie")) for of in (pid, "self"))
    routes = networks(_text(f"{proc}/self/net/route"))
    return [a for a in theirs if a not in ours and any(IPv4Address(a) in network for network in routes)]


def _text(path: str) -> str:
    return (read(path) or b"").decode("utf-8", "replace")


def _is_its(proc: str, main: Proc, path: str) -> bool:
    """Is that its socket? Where it is not readable which files a process sees, a socket of another user is not."""
    if link(f"{proc}/{main.pid}/ns/mnt"):
        return True
    try:
        return os.stat(path).st_uid == main.uid
    except OSError as error:
        return isinstance(error, PermissionError)


def from_here(proc: str, pid: int, path: str) -> str:
    """A path as another process has it, as we can open it: through its root where that is known not to be ours."""
    root = f"{proc}/{pid}/root"
    ours = link(f"{proc}/{pid}/ns/mnt") in ("", link(f"{proc}/self/ns/mnt")) and link(root) in ("", "/")
    return path if ours else f"{root}{path}"
