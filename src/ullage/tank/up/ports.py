"""Which ports are taken, and by whom, as far as one may look."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...errors import UllageError
from .plan import Part

_LISTENS = "0A"


def require_free(plan: Iterable[Part]) -> None:
    for part in plan:
        for port in part.ports:
            _require(part, port)


def _require(part: Part, port: int) -> None:
    family = socket.AF_INET6 if ":" in part.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((part.host, port))
            trial.listen(1)
        except OSError as error:
            who = f"taken{_by_whom(port)}" if error.errno == errno.EADDRINUSE else f"not to be had: {error.strerror}"
            raise UllageError(f"port {port}, for {part.name}, is {who}", _ADVICE) from None


_ADVICE = "--port, --base-port, --bootstrap-port and --metrics-port name others"


def _by_whom(port: int) -> str:
    wanted = {f"socket:[{inode}]" for inode in _listening(port)}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(_target(handle) in wanted for handle in (folder / "fd").iterdir()):
                return f" by pid {folder.name} ({(folder / 'comm').read_text().strip()})"
    return ""


def _target(handle: Path) -> str:
    try:
        return os.readlink(handle)
    except OSError:
        return ""


def _listening(port: int) -> Iterator[str]:
    """The inodes of the sockets that listen on it."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]
