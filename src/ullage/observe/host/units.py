"""systemd's units as their managers have them loaded: one `systemctl show` a manager, whatever the number of units."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from ...evidence import ConfigFile, Content, Evidence, Failure, Origin, Unit
from ...masking import Masker
from .rights import sudo

TIMEOUT_S = 2.0
_MOST_MANAGERS = 8  # of users, asked for units that fail
_CLOCK_SET_S = 2.0  # systemctl prints whole seconds
_USER_MANAGER = re.compile(r"user@(\d+)\.service")
_CONTAINER = re.compile(r"[0-9a-f]{64}")
_PROPERTIES = (
    "Id LoadState ActiveState SubState InvocationID NeedDaemonReload FragmentPath DropInPaths EnvironmentFiles"
    " NRestarts Result ActiveEnterTimestamp ActiveEnterTimestampMonotonic StateChangeTimestamp"
    " StateChangeTimestampMonotonic StandardOutput"
).split()
_FAILING = "activating,failed,reloading,auto-restart"

Properties = Mapping[str, Sequence[str]]


class UnitName(NamedTuple):
    """A service, and whose manager runs it."""

    name: str  # "sglang.service"
    uid: int | None = None  # None: the system's manager

    @property
    def manager(self) -> str:
        return "system" if self.uid is None else f"user {user_name(self.uid)}"


class Said(NamedTuple):
    status: int
    out: str
    err: str


class Clocks(NamedTuple):
    """Seconds: since 1970, since boot without and with the time that the host slept."""

    wall: float
    monotonic: float
    boot: float


Run = Callable[[Sequence[str], int | None], Said]  # words, and as which other user; raises OSError, TimeoutError


def unit_of(cgroup: str) -> UnitName | None:
    """The service that a process is in. None for sessions, for containers, and for what systemd did not start."""
    parts = [part.removeprefix("_") for part in cgroup.split("/") if part and not part.endswith(".slice")]
    if not parts:
        return None
    manager = _USER_MANAGER.fullmatch(parts[0])
    if manager:
        return _service(parts[1:], int(manager[1]))
    return _service(parts, None)


def _service(parts: list[str], uid: int | None) -> UnitName | None:
    if not parts or not parts[0].endswith(".service") or parts[0].startswith("systemd-nspawn@"):
        return None
    return None if any(_CONTAINER.search(part) for part in parts[1:]) else UnitName(parts[0], uid)


def read_units(names: Iterable[UnitName], masker: Masker, run: Run | None = None) -> dict[UnitName, Evidence]:
    """What the managers have loaded under these names. Empty where no systemd runs."""
    found: dict[UnitName, Evidence] = {}
    for uid, units in _by_manager(names).items():
        words = ["show", f"--property={','.join(_PROPERTIES)}", "--", *(unit.name for unit in units)]
        told = _ask(words, uid, run or run_systemctl)
        if isinstance(told, Failure):
            found |= {unit: _evidence(unit, told, masker) for unit in units}
            continue
        clocks = clocks_now()
        for unit, properties in zip(units, told, strict=False):
            if _one(properties, "LoadState") != "not-found" or _one(properties, "ActiveState") != "inactive":
                found[unit] = _loaded(unit, properties, masker, clocks)
    return found


def units_naming(
    commands: re.Pattern[str], masker: Masker, uids: Iterable[int] = (), run: Run | None = None
) -> dict[UnitName, Evidence]:
    """Units that start, fail or are started again and again, and would run one of the programs: a server that ends as
    soon as it began is in no process table. Asks the system's manager, and that of each user given.
    """
    found: dict[UnitName, Evidence] = {}
    words = ["show", "--type=service", f"--state={_FAILING}", f"--property={','.join([*_PROPERTIES, 'ExecStart'])}"]
    for uid in [None, *list(uids)[:_MOST_MANAGERS]]:
        told = _ask([*words, "--", "*"], uid, run or run_systemctl)
        clocks = clocks_now()
        for properties in [] if isinstance(told, Failure) else told:
            unit = UnitName(_one(properties, "Id"), uid)
            if unit.name and _names_one(unit, properties, commands):
                found[unit] = _loaded(unit, properties, masker, clocks)
    return found


def _names_one(unit: UnitName, properties: Properties, commands: re.Pattern[str]) -> bool:
    """In its command, or in the script that it runs."""
    if any(commands.search(command) for command in properties.get("ExecStart", ())):
        return True
    from .unit_files import read_unit_files

    read = read_unit_files(unit, [*properties.get("FragmentPath", ())], commands, Masker())
    return any(not item.failed for item in read.evidence)


def managers() -> list[int]:
    """Users whose managers run and may be asked: all of them by root, one's own by anybody else."""
    mine = os.geteuid()
    try:
        uids = [int(name) for name in os.listdir("/run/user") if name.isdigit()]
    except OSError:
        return []
    return [uid for uid in sorted(uids) if mine in (0, uid) and os.path.exists(f"/run/user/{uid}/systemd/private")]


def user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def changed(path: str) -> ConfigFile:
    try:
        return ConfigFile(path, datetime.fromtimestamp(os.stat(path).st_mtime, timezone.utc))
    except OSError:
        return ConfigFile(path, None)


def clocks_now() -> Clocks:
    return Clocks(time.time(), time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))


def run_systemctl(words: Sequence[str], uid: int | None) -> Said:
    """As the user, where it is to reach another user's manager: that lets nobody else in, not even root."""
    import subprocess

    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", "SYSTEMD_COLORS": "0"}
    if uid is not None:
        environment["XDG_RUNTIME_DIR"] = f"/run/user/{uid}"
    other = uid if uid is not None and uid != os.geteuid() else None
    try:
        done = subprocess.run(
            ["systemctl", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=TIMEOUT_S,
            user=other,
            group=other if other is None else _group(other),
            extra_groups=None if other is None else [],
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return Said(done.returncode, *(text.decode("utf-8", errors="replace") for text in (done.stdout, done.stderr)))


def _group(uid: int) -> int:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _by_manager(names: Iterable[UnitName]) -> dict[int | None, list[UnitName]]:
    managers: dict[int | None, list[UnitName]] = {}
    for unit in dict.fromkeys(names):
        managers.setdefault(unit.uid, []).append(unit)
    return managers


def _ask(words: Sequence[str], uid: int | None, run: Run) -> list[dict[str, list[str]]] | Failure:
    """The properties of each unit. [] where no systemd runs that could be asked."""
    if run is run_systemctl and not os.path.isdir("/run/systemd/system"):
        return []
    if uid is not None and os.geteuid() not in (0, uid):
        return Failure("no rights", f"it is a unit of {user_name(uid)}, whose manager tells nobody else", sudo())
    try:
        said = run(words if uid is None else ["--user", *words], uid)
    except TimeoutError:
        return Failure("timeout", f"systemctl gave no answer within {TIMEOUT_S:g} s", "look at: systemctl status")
    except OSError:
        return []
    if said.status and not said.out.strip():
        return [] if uid is None else Failure("unreachable", _first_line(said.err), "is the user's manager running?")
    return _parsed(said.out)


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "systemctl failed")[:200]


def _parsed(text: str) -> list[dict[str, list[str]]]:
    """`Name=value` lines, a block a unit with an empty line between. A name can come more than once."""
    units: list[dict[str, list[str]]] = []
    for block in re.split(r"\n{2,}", text.strip("\n")):
        properties: dict[str, list[str]] = {}
        for line in block.splitlines():
            name, equals, value = line.partition("=")
            if equals and value:
                properties.setdefault(name, []).append(value)
        units.append(properties)
    return units


def _one(properties: Properties, name: str) -> str:
    return next(iter(properties.get(name, ())), "")


def _loaded(unit: UnitName, properties: Properties, masker: Masker, clocks: Clocks) -> Evidence:
    stamp = "ActiveEnterTimestamp" if _one(properties, "ActiveState") == "active" else "StateChangeTimestamp"
    since = _time(_one(properties, stamp))
    restarts = _one(properties, "NRestarts")
    content = Unit(
        name=masker.text(unit.name),
        manager=unit.manager,
        state=f"{_one(properties, 'ActiveState')} ({_one(properties, 'SubState')})",
        invocation=_one(properties, "InvocationID"),
        since=since,
        restarts=int(restarts) if restarts.isdigit() else None,
        result=_one(properties, "Result"),
        reload_pending=_one(properties, "NeedDaemonReload") == "yes",
        files=tuple(changed(path)._replace(path=masker.text(path)) for path in _paths(properties)),
        clock_moved_s=clock_moved(since, _one(properties, f"{stamp}Monotonic"), clocks),
        gone=_one(properties, "LoadState") == "not-found" or _is_no_more(_one(properties, "FragmentPath")),
    )
    return _evidence(unit, content, masker)._replace(remark=_output(_one(properties, "StandardOutput")))


def _evidence(unit: UnitName, content: Content, masker: Masker) -> Evidence:
    place = f"systemctl{'' if unit.uid is None else ' --user'} show {masker.text(unit.name)}"
    return Evidence(Origin(place), place, "unit", datetime.now(timezone.utc), content)


def _output(kind: str) -> str:
    """Where it is not the journal, the log is to be looked for elsewhere."""
    return "" if not kind or kind.startswith("journal") else f"its output does not go to the journal ({kind})"


def _paths(properties: Properties) -> list[str]:
    """The unit, its drop-ins, its environment files, each once. "/a/b (ignore_errors=no)" is such a file."""
    dropins = [path for value in properties.get("DropInPaths", ()) for path in value.split()]
    environment = [value.rpartition(" (")[0] or value for value in properties.get("EnvironmentFiles", ())]
    return list(dict.fromkeys([*properties.get("FragmentPath", ()), *dropins, *environment]))


def _is_no_more(path: str) -> bool:
    """False where that cannot be seen."""
    try:
        os.stat(path or "/")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _time(text: str) -> datetime | None:
    """ "Mon 2026-11-30 09:54:37 UTC"."""
    try:
        _, day, clock, _ = text.split()
        return datetime.fromisoformat(f"{day}T{clock}+00:00")
    except ValueError:
        return None


def clock_moved(since: datetime | None, monotonic_us: str, clocks: Clocks) -> float | None:
    """How far the wall clock was set since a moment that systemd stamped with both clocks: what it counted since then,
    less what the monotonic clock did. 0 below what whole seconds can tell. The time that the host slept since its boot
    passed on the wall alone, and may lie before that moment or after it.
    """
    if since is None or not monotonic_us.isdigit() or monotonic_us == "0":
        return None
    by_wall = clocks.wall - since.timestamp() - 0.5
    moved = by_wall - (clocks.monotonic - int(monotonic_us) / 1e6)
    slept = clocks.boot - clocks.monotonic
    if moved > slept:
        moved -= slept
    elif moved > 0:
        moved = 0.0
    return round(moved, 1) if abs(moved) > _CLOCK_SET_S else 0.0
