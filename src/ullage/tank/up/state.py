"""What runs, as a file under the user's XDG state folder: read by `status` and `down`, whoever started it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import UllageError
from .process import Identity, boot_id, lives

SCHEMA = "ullage.tank-state/1"
STARTING, SERVING = "starting", "serving"


class Place(NamedTuple):
    """The folder of a user's tank. Only its owner may look."""

    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def own_log(self) -> Path:
        return self.logs / "supervisor.log"


class Running(NamedTuple):
    """A child: the process that it is now, or was last."""

    name: str
    role: str
    url: str
    log: str
    pid: int
    start_ticks: int
    began: float  # Unix time
    restarts: int = 0
    last_end: str = ""

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start_ticks)


class State(NamedTuple):
    phase: str
    began: float  # Unix time
    url: str
    metrics_url: str
    model: str
    key_env: str | None
    supervisor: Identity
    parts: tuple[Running, ...] = ()

    def living(self) -> tuple[Running, ...]:
        return tuple(part for part in self.parts if lives(part.identity))


def the_place() -> Place:
    base = os.environ.get("XDG_STATE_HOME", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    return Place(home / "ullage" / "tank")


def read_state(at: Place) -> State | None:
    """What was written last in this boot. A file that is not ours to understand is no reason to end anything."""
    try:
        data = json.loads(at.state.read_bytes())
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        return _state(data) if data["boot"] == boot_id() else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UllageError(f"{at.state} cannot be read: {error}", "end what it names by hand, then remove it") from None


def _state(data: dict[str, Any]) -> State:
    parts = tuple(Running(**part) for part in data["parts"])
    fields = {name: data[name] for name in State._fields}
    return State(**{**fields, "supervisor": Identity(*data["supervisor"]), "parts": parts})


def write_state(at: Place, state: State) -> None:
    """Whole or not at all."""
    data = {"schema": SCHEMA, "boot": boot_id(), **state._asdict(), "parts": [p._asdict() for p in state.parts]}
    handle, beside = tempfile.mkstemp(prefix=".state.", dir=at.folder)  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
        os.replace(beside, at.state)
    except BaseException:
        os.unlink(beside)
        raise


def remove_state(at: Place) -> None:
    at.state.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(at: Place) -> Iterator[bool]:
    """Holds the place for one supervisor at a time; False where another has it. The kernel lets go with the process."""
    make_folder(at.folder)
    handle = os.open(at.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise UllageError(f"cannot make {folder}: {error.strerror}", "XDG_STATE_HOME names another place") from None


def fresh_logs(at: Place) -> None:
    """An empty folder of logs. Those of the run before are kept beside it."""
    before = at.folder / "logs.before"
    shutil.rmtree(before, ignore_errors=True)
    if at.logs.exists():
        at.logs.rename(before)
    make_folder(at.logs)


def open_log(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
