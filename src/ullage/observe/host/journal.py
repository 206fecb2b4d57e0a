"""What a unit wrote to the journal since its current start: the start-up lines and the last ones, never all of it.

Every question names fields that the journal has an index of, so its size does not matter.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from glob import glob
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from ...evidence import Content, Evidence, Failure, Log, Origin
from ...masking import Masker
from .. import json_lines
from ..log_file import LogScan, read_log
from ..prefixes import SYSTEMD
from .rights import sudo
from .units import UnitName, user_name

if TYPE_CHECKING:
    from subprocess import Popen

TIMEOUT_S = 4.0  # for all that is asked of one unit
MIB = 2**20
HEAD_LINES, HEAD_BYTES = 1200, 8 * MIB
TAIL_LINES, TAIL_BYTES = 400, 4 * MIB
EARLIER, EARLIER_LINES, EARLIER_BYTES = 20, 1000, MIB
_START_WITHIN = 50  # systemd's line about a start can come after the first ones of the program
_FIELDS = (
    "MESSAGE,_PID,SYSLOG_IDENTIFIER,_SYSTEMD_UNIT,_SYSTEMD_USER_UNIT,MESSAGE_ID,INVOCATION_ID,USER_INVOCATION_ID"
    ",N_DROPPED,__REALTIME_TIMESTAMP"
)
_STARTED, _STARTING = "39f53479d3a045ac8e11786248231fbf", "7d4958e842da4a758f6c1cdc7b36dcc5"
_START_FAILED, _DROPPED = "be02cf6855d2428ba40df7e9d022f03d", "a596d6fe7bfa4994828e72309e95d61e"
_NO_TAG = re.compile(r"[\s:\[\]]")


class _Entry(NamedTuple):
    cursor: str  # what journald calls it by
    at_us: int  # microseconds since 1970
    kind: str  # its MESSAGE_ID
    invocation: str  # that systemd speaks of
    dropped: int  # lines that journald did not take
    text: str  # as `journalctl -o short-iso` prints it, a line for each of the message


class _NotReadError(Exception):
    """Why the journal was not read."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


@dataclass
class _Taken:
    entries: list[_Entry]
    whole: bool  # there are no more
    said: str = ""  # on standard error
    late: bool = False


def read_journal(
    unit: UnitName, invocation: str, pids: Sequence[int], scan: LogScan, masker: Masker, *, history: bool
) -> list[Evidence]:
    """One log, of the invocation; with `history` the start-up lines of earlier ones before it. `pids`: the processes of
    the server, where the unit holds others besides; none: every line of the unit is the server's.
    """
    reader = _Reader(unit, invocation, pids, masker)
    read_at = datetime.now(timezone.utc)
    try:
        entries = reader.entries(history)
    except _NotReadError as error:
        return [Evidence(Origin(reader.place), reader.place, "", read_at, error.failure)]
    found = read_log(
        BytesIO("".join(entry.text for entry in entries).encode(errors="replace")), reader.place, scan, masker, read_at
    )
    return [item._replace(content=_with_gaps(item.content, reader.gaps)) for item in found]


def _with_gaps(content: Content, gaps: Sequence[str]) -> Content:
    return content._replace(gaps=(*gaps, *content.gaps), collected=True) if isinstance(content, Log) else content


class _Reader:
    def __init__(self, unit: UnitName, invocation: str, pids: Sequence[int], masker: Masker) -> None:
        self.unit, self.invocation, self.pids, self.masker = unit, invocation, pids, masker
        self.place = f"journal of {masker.text(unit.name)}, invocation {invocation[:8]}"
        self.gaps: list[str] = []
        self._tag = _NO_TAG.sub("_", unit.name.removesuffix(".service"))
        self._deadline = time.monotonic() + TIMEOUT_S

    def entries(self, history: bool) -> list[_Entry]:
        entries = self._current()
        if self.pids:
            told = ", ".join(map(str, sorted(self.pids)))
            self.gaps.append(f"{self.unit.name} holds other programs too: only lines of the processes {told} were read")
        if history and self.pids:
            self.gaps.append("earlier starts were not read: lines of processes that ended cannot be told apart")
        earlier = self._earlier() if history and not self.pids else []
        self.place += " and those before" if earlier else ""
        return [*earlier, *entries]

    def _current(self) -> list[_Entry]:
        matches = self._matches(self.invocation, self.pids)
        head = self._take(self._begin(*matches), HEAD_LINES, HEAD_BYTES)
        tail = _Taken([], True) if head.whole else self._end(*matches)
        said = head.said or tail.said
        hidden = self.unit.uid is None and _hidden()
        if not head.entries:
            _refuse(said, hidden)
        self._remark(head.entries, said, hidden)
        known = {entry.cursor for entry in head.entries}
        further = [entry for entry in reversed(tail.entries) if entry.cursor not in known]
        if not head.whole and further and len(further) == len(tail.entries):
            self.gaps.append(f"lines from {_time(head.entries[-1])} to {_time(further[0])} were not read")
        if head.late or tail.late:
            self.gaps.append(f"the journal gave no more within {TIMEOUT_S:g} s")
        return _start_first(self._without_dropped([*head.entries, *further]))

    def _end(self, *matches: str) -> _Taken:
        return self._take(self._begin("--reverse", f"--lines={TAIL_LINES}", *matches), TAIL_LINES, TAIL_BYTES)

    def _remark(self, entries: list[_Entry], said: str, hidden: bool) -> None:
        if hidden:
            self.gaps.append(f"what systemd wrote of the unit is not readable for {user_name(os.geteuid())}")
        elif not any(entry.kind in (_STARTED, _STARTING) for entry in entries[:_START_WITHIN]):
            self.gaps.append(self._gone(entries))
        if entries and said.strip():
            self.gaps.append(f"journalctl: {self.masker.text(said.strip().splitlines()[0])[:200]}")

    def _gone(self, entries: list[_Entry]) -> str:
        """The begin of the invocation is not there: since when it is, and how far the journal goes back."""
        oldest = self._take(self._begin(), 1, MIB).entries
        reach = f"the journal goes back to {_time(oldest[0])} only" if oldest else "the journal is empty"
        what = (
            f"lines of this start before {_time(entries[0])} are gone" if entries else "no line of this start is left"
        )
        return f"{what}: {reach}{_volatile()}"

    def _without_dropped(self, entries: list[_Entry]) -> list[_Entry]:
        """journald's own records of what it did not take become a gap."""
        dropped = [entry for entry in entries if entry.kind == _DROPPED]
        if dropped:
            times = " to ".join(dict.fromkeys((_time(dropped[0]), _time(dropped[-1]))))
            count = sum(entry.dropped for entry in dropped)
            self.gaps.append(f"journald dropped {count:,} lines, more than it takes at a time ({times})")
        return [entry for entry in entries if entry.kind != _DROPPED]

    def _earlier(self) -> list[_Entry]:
        """The start-up lines of the invocations before, the oldest first."""
        kinds = [f"MESSAGE_ID={kind}" for kind in (_STARTED, _STARTING, _START_FAILED)]
        most = 3 * EARLIER
        unit = f"UNIT={self.unit.name}" if self.unit.uid is None else f"USER_UNIT={self.unit.name}"
        told = self._take(self._begin("--reverse", f"--lines={most}", *kinds, unit, self._by_manager()), most, MIB)
        found = dict.fromkeys(entry.invocation for entry in told.entries)
        earlier = [name for name in found if name not in ("", self.invocation)][:EARLIER]
        if not earlier:
            self.gaps.append(f"no earlier start is in the journal{_volatile()}")
        entries: list[_Entry] = []
        for name in reversed(earlier):
            taken = self._take(self._begin(*self._matches(name, ())), EARLIER_LINES, EARLIER_BYTES)
            entries += _start_first([entry for entry in taken.entries if entry.kind != _DROPPED])
            if taken.late:
                self.gaps.append("not all earlier starts were read: the journal took too long")
                break
        return entries

    def _by_manager(self) -> str:
        """What its manager wrote. Fields with an underscore are journald's: nobody else can set them."""
        return "_PID=1" if self.unit.uid is None else f"_UID={self.unit.uid}"

    def _matches(self, invocation: str, pids: Sequence[int]) -> list[str]:
        """The program's lines, or the manager's, or journald's of lines that it dropped. Every field more has to be
        looked up in every file.
        """
        of_user = [] if self.unit.uid is None else [f"_UID={self.unit.uid}"]
        own = [f"_SYSTEMD_INVOCATION_ID={invocation}", *of_user, *(f"_PID={pid}" for pid in pids)]
        name = "INVOCATION_ID" if self.unit.uid is None else "USER_INVOCATION_ID"
        dropped = [f"MESSAGE_ID={_DROPPED}", f"OBJECT_SYSTEMD_INVOCATION_ID={invocation}"]
        return [*own, "+", f"{name}={invocation}", self._by_manager(), "+", *dropped]

    def _begin(self, *words: str) -> Popen[bytes]:
        from subprocess import DEVNULL, PIPE, Popen

        command = ["journalctl", "--no-pager", "--output=json", "--all", f"--output-fields={_FIELDS}", *words]
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        try:
            return Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment)
        except OSError as error:
            advice = "install systemd's journalctl, or name the server's log file"
            raise _NotReadError(Failure("missing", f"journalctl: {error.strerror}", advice)) from None

    def _take(self, process: Popen[bytes], most_lines: int, most_bytes: int) -> _Taken:
        """The first lines that it prints, then it is ended; also when the time is over."""
        from threading import Timer

        timer = Timer(max(0.0, self._deadline - time.monotonic()), process.kill)
        timer.start()
        entries: list[_Entry | None] = []
        size = 0
        with process:
            assert process.stdout
            assert process.stderr
            while len(entries) < most_lines and size < most_bytes and (line := process.stdout.readline(most_bytes)):
                entries.append(self._entry(line))
                size += len(line)
            whole = len(entries) < most_lines and size < most_bytes
            if not whole:
                process.kill()
            said = process.stderr.read(65536).decode("utf-8", errors="replace")
        late = whole and time.monotonic() >= self._deadline
        timer.cancel()
        return _Taken([entry for entry in entries if entry], whole and not late, said, late)

    def _entry(self, line: bytes) -> _Entry | None:
        """None of a line that was cut."""
        try:
            data = json.loads(line)
        except ValueError:
            return None
        told = json_lines.record(data)
        if told is None:
            return None
        word = {name: str(data.get(name) or "") for name in ("MESSAGE_ID", "N_DROPPED", "__REALTIME_TIMESTAMP")}
        about = str(data.get("INVOCATION_ID") or data.get("USER_INVOCATION_ID") or "")
        head = f"{told.time} {self._tag if told.stream != SYSTEMD else SYSTEMD}[{told.pid or 0}]: "
        text = "".join(f"{head}{part}\n" for part in told.message.split("\n"))
        at_us, dropped = _number(word["__REALTIME_TIMESTAMP"]), _number(word["N_DROPPED"])
        return _Entry(str(data.get("__CURSOR")), at_us, word["MESSAGE_ID"], about, dropped, text)


def _volatile() -> str:
    return "" if os.path.isdir("/var/log/journal") else ": it is kept in memory (there is no /var/log/journal)"


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _hidden() -> bool:
    """The system's journal is there and not readable. A user who has a journal of his own is not told so."""
    paths = [*glob("/var/log/journal/*/system.journal"), *glob("/run/log/journal/*/system.journal")]
    return bool(paths) and not any(os.access(path, os.R_OK) for path in paths)


def _refuse(said: str, hidden: bool) -> None:
    """Nothing was there: why. (Where all of it is gone, that is a gap.)"""
    if hidden or "insufficient permissions" in said:
        raise _NotReadError(_no_rights())
    if "No journal files were found" in said:
        raise _NotReadError(Failure("empty", "this host keeps no journal", "see Storage= in journald.conf(5)"))


def _start_first(entries: list[_Entry]) -> list[_Entry]:
    """An invocation is one start, wherever systemd's line about it stands: a unit of Type=notify or with an
    ExecStartPost= "started" only after the program has printed all of its own.
    """
    return sorted(entries, key=lambda entry: entry.kind not in (_STARTED, _STARTING))


def _no_rights() -> Failure:
    user = user_name(os.geteuid())
    advice = f"{sudo()}, or add {user} to the group: sudo usermod -aG systemd-journal {user}"
    return Failure("no rights", f"user {user} may not read the journal of the system", advice)


def _time(entry: _Entry) -> str:
    return f"{datetime.fromtimestamp(entry.at_us / 1e6, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
