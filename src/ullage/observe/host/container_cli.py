"""`docker` and `podman`, asked of one container: bounded in time and output, and never of another host."""

from __future__ import annotations

import os
import shutil
import time
from signal import SIGKILL
from typing import Any, NamedTuple

from ...evidence import Failure
from .container_ref import ContainerRef
from .rights import sudo
from .units import user_name

_CHUNK = 65536
_DOWN = ("cannot connect to the docker daemon", "failed to connect to the docker api", "connection refused")
_SHOWN = 200


class Printed(NamedTuple):
    output: bytes
    errors: bytes
    code: int | None  # None: it was ended, as it printed too much or took too long
    late: bool = False


def ask(ref: ContainerRef, *words: str, time_limit_s: float, most_bytes: int) -> Printed | Failure:
    """What `docker WORDS...` prints, of both streams as far as the limits allow."""
    refused = not_ours(ref)
    program = shutil.which(ref.runtime)
    if refused or program is None:
        return refused or Failure("missing", f"{ref} cannot be asked: no {ref.runtime} on the PATH", "install it")
    from subprocess import Popen

    deadline = time.monotonic() + time_limit_s
    try:
        process = Popen([program, *words], **_how(ref))
    except OSError as error:
        return Failure("failed", f"{ref} cannot be asked: {program}: {error.strerror}")
    with process:
        printed = _read(process, deadline, most_bytes)
        if process.poll() is None:
            os.killpg(process.pid, SIGKILL)
    return printed


def not_ours(ref: ContainerRef) -> Failure | None:
    """Podman's containers belong to one user each, and no other sees them."""
    own, owner = os.geteuid(), ref.uid or 0
    if own == 0 or (ref.runtime == "docker" and ref.uid is None) or own == owner:
        return None
    return Failure("no rights", f"{ref} belongs to another user ({user_name(owner)})", sudo())


def socket_of(ref: ContainerRef) -> str:
    """Docker's, on this host: a DOCKER_HOST elsewhere does not know what runs here."""
    if ref.uid is not None:
        return f"unix:///run/user/{ref.uid}/docker.sock"
    named = os.environ.get("DOCKER_HOST", "")
    return named if named.startswith("unix://") else "unix:///var/run/docker.sock"


def failure(ref: ContainerRef, said: str, masked: str) -> Failure:
    """By what the program said; `masked` is what may be shown of it."""
    lowered = said.lower()
    if "permission denied" in lowered:
        return _no_rights(ref)
    if any(words in lowered for words in _DOWN):
        why = f"{ref} cannot be asked: the {ref.runtime} daemon does not answer"
        return Failure("down", why, "sudo systemctl start docker")
    if "no such" in lowered:
        return Failure("missing", f"{ref.runtime} knows no container {ref.id[:12]}", f"{ref.runtime} ps --all")
    words = " ".join(masked.split())[:_SHOWN]
    return Failure("failed", f"{ref.runtime} says: {words or 'nothing'}", f"{ref.runtime} inspect {ref.id[:12]}")


def late(ref: ContainerRef, time_limit_s: float) -> Failure:
    reason = f"{ref.runtime} did not answer within {time_limit_s:g} s"
    return Failure("timeout", reason, f"does `{ref.runtime} ps` answer?")


def _no_rights(ref: ContainerRef) -> Failure:
    user = user_name(os.geteuid())
    group = (
        "" if ref.runtime != "docker" or ref.uid else f", or add {user} to the group: sudo usermod -aG docker {user}"
    )
    return Failure("no rights", f"{user} may not ask {ref.runtime} of {ref}", f"{sudo()}{group}")


def _how(ref: ContainerRef) -> dict[str, Any]:
    """How the program is started. Times are in UTC, so that they stand in order as strings; messages in English. Root
    asks for a user's podman as that user.
    """
    from subprocess import DEVNULL, PIPE

    environment = os.environ | {"LC_ALL": "C", "TZ": "UTC"}
    as_user: dict[str, Any] = {}
    if ref.runtime == "docker":
        environment["DOCKER_HOST"] = socket_of(ref)
    elif ref.uid is not None and ref.uid != os.geteuid():
        environment |= {"HOME": _home(ref.uid), "XDG_RUNTIME_DIR": f"/run/user/{ref.uid}"}
        as_user = {"user": ref.uid, "group": _group(ref.uid), "extra_groups": [], "cwd": "/"}
    streams = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE, "start_new_session": True}
    return {**streams, "env": environment, **as_user}


def _home(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def _group(uid: int) -> int:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _read(process: Any, deadline: float, most_bytes: int) -> Printed:
    from selectors import EVENT_READ, DefaultSelector

    output, errors = bytearray(), bytearray()
    with DefaultSelector() as selector:
        selector.register(process.stdout, EVENT_READ, output)
        selector.register(process.stderr, EVENT_READ, errors)
        while selector.get_map() and len(output) + len(errors) < most_bytes:
            left = deadline - time.monotonic()
            if left <= 0:
                return Printed(bytes(output), bytes(errors), None, late=True)
            for key, _ in selector.select(left):
                data = os.read(key.fd, _CHUNK)
                key.data.extend(data)
                if not data:
                    selector.unregister(key.fileobj)
        ended = not selector.get_map()
    code = _code(process, deadline) if ended else None
    return Printed(bytes(output), bytes(errors), code, late=ended and code is None)


def _code(process: Any, deadline: float) -> int | None:
    from subprocess import TimeoutExpired

    try:
        return int(process.wait(max(0.0, deadline - time.monotonic())))
    except TimeoutExpired:
        return None
