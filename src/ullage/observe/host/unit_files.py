"""What the files of a unit say now: the command line and the environment that its next start would have. The manager is
not asked, for it knows what it has read, not what stands there since. Nothing is executed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from glob import glob
from typing import NamedTuple

from ...evidence import CONFIGURED, Argv, ConfigFile, Content, Evidence, Failure, Origin
from ...masking import Masker
from . import unit_syntax
from .rights import sudo
from .unit_script import LARGEST, Script, find_script, script_commands
from .units import UnitName, changed, user_name

_SYSTEM = (
    "/etc/systemd/system.control /run/systemd/system.control /run/systemd/transient /run/systemd/generator.early"
    " /etc/systemd/system /etc/systemd/system.attached /run/systemd/system /run/systemd/system.attached"
    " /run/systemd/generator /usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system"
    " /run/systemd/generator.late"
).split()
_USER = (
    "{home}/.config/systemd/user.control {run}/systemd/user.control {run}/systemd/transient"
    " {run}/systemd/generator.early {home}/.config/systemd/user /etc/systemd/user {run}/systemd/user /run/systemd/user"
    " {run}/systemd/generator {home}/.local/share/systemd/user /usr/local/share/systemd/user /usr/share/systemd/user"
    " /usr/local/lib/systemd/user /usr/lib/systemd/user {run}/systemd/generator.late"
).split()


class UnitFiles(NamedTuple):
    """`evidence`: an Argv for each server that the unit would start, or why there is none. `files`: all that decide."""

    evidence: tuple[Evidence, ...]
    files: tuple[ConfigFile, ...] = ()


class Line(NamedTuple):
    value: str
    path: str


@dataclass
class _Service:
    """The settings of [Service] that bear on the command line, after all drop-ins."""

    commands: list[Line] = field(default_factory=list)
    assignments: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    unset: list[str] = field(default_factory=list)
    one: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: str, path: str) -> None:
        lists = {"Environment": self.assignments, "EnvironmentFile": self.files, "UnsetEnvironment": self.unset}
        if name == "ExecStart":
            self.commands = [*self.commands, Line(value, path)] if value else []
        elif name in ("User", "WorkingDirectory", "RootDirectory"):
            self.one[name] = value
        elif name in lists:
            lists[name][:] = [*lists[name], value] if value else []


class Start(NamedTuple):
    """What a start of the unit had: `variables` by their names, which may come from elsewhere than from its files."""

    at: datetime
    variables: frozenset[str]


def read_unit_files(
    unit: UnitName, loaded: Iterable[str], commands: re.Pattern[str], masker: Masker, start: Start | None = None
) -> UnitFiles:
    """`loaded`: the files that the manager names, for the folders they lie in. `commands` finds the servers."""
    return _Reader(unit, commands, masker, start).read(_folders(unit, loaded))


def _folders(unit: UnitName, loaded: Iterable[str]) -> list[str]:
    """Where units lie, the first outranks the others."""
    if unit.uid is None:
        known = _SYSTEM
    else:
        known = [path.format(home=_home(unit.uid), run=f"/run/user/{unit.uid}") for path in _USER]
    own = [os.path.dirname(path) for path in loaded]
    further = [os.path.dirname(path) if path.endswith(".d") else path for path in own]
    return list(dict.fromkeys([*known, *(path for path in further if path.startswith("/"))]))


def _home(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def _template(name: str) -> str:
    """ "sglang@decode.service" -> "sglang@.service"; "" of what is no instance."""
    prefix, at, rest = name.partition("@")
    return f"{prefix}@.{rest.rpartition('.')[2]}" if at and not rest.startswith(".") else ""


def _fragment(name: str, folders: list[str]) -> str:
    candidates = [os.path.join(folder, which) for which in (name, _template(name)) if which for folder in folders]
    return next((path for path in candidates if os.path.lexists(path)), "")


def _dropins(name: str, folders: list[str]) -> list[str]:
    """In the order in which they count: by file name; of one name, the folder that outranks the others."""
    kind = name.rpartition(".")[2]
    own = [which for which in (name, _template(name)) if which]
    pieces = name.rpartition(".")[0].split("@")[0].split("-")
    longer = [f"{'-'.join(pieces[:count])}-.{kind}" for count in range(len(pieces) - 1, 0, -1)]
    places = [(folder, which) for folder in folders for which in (*own, *longer)]
    found: dict[str, str] = {}
    for folder, which in [*places, *((folder, kind) for folder in folders)]:
        for path in glob(os.path.join(glob_escaped(folder), f"{glob_escaped(which)}.d", "*.conf")):
            found.setdefault(os.path.basename(path), path)
    return [found[base] for base in sorted(found) if os.path.realpath(found[base]) != os.devnull]


def glob_escaped(text: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", text)


class _Reader:
    def __init__(self, unit: UnitName, commands: re.Pattern[str], masker: Masker, start: Start | None) -> None:
        self.unit, self.commands, self.masker, self.start = unit, commands, masker, start
        self.files: dict[str, ConfigFile] = {}
        self.failures: list[Evidence] = []
        self.service = _Service()

    def read(self, folders: list[str]) -> UnitFiles:
        fragment = _fragment(self.unit.name, folders)
        if not fragment:
            return UnitFiles((self._failure(self.unit.name, Failure("missing", "the file of the unit is gone")),))
        if os.path.realpath(fragment) == os.devnull:
            return UnitFiles((self._failure(fragment, Failure("masked", "the unit is masked: it cannot be started")),))
        for path in [fragment, *_dropins(self.unit.name, folders)]:
            for section, name, value in unit_syntax.settings(self._text(path)):
                if section == "Service":
                    self.service.add(name, value, path)
        found = list(self._commands())
        return UnitFiles((*found, *self.failures), tuple(self.files.values()))

    def _commands(self) -> Iterator[Evidence]:
        environment = self._environment()
        known = self._own() | environment
        others: list[Line] = []
        for line in self.service.commands:
            for words in self._words(line.value, known):
                found = list(self._of_command(Line(" ".join(words), line.path), words, environment, known))
                yield from found
                others += [] if found else [Line(words[0], line.path)]
        if others and not self.failures:
            yield self._failure(others[-1].path, self._no_server(others[-1].value))

    def _of_command(
        self, line: Line, words: list[str], environment: Mapping[str, str], known: Mapping[str, str]
    ) -> Iterator[Evidence]:
        """The servers that a command starts, itself or by a script. A program that is neither gives nothing."""
        try:
            script = find_script(words)
        except OSError as error:
            self.failures.append(self._failure(error.filename or line.path, _unreadable(error)))
            return
        if script is not None:
            yield from self._of_script(script, line, environment, known)
        elif self.commands.search(line.value):
            yield self._found(line.path, tuple(words), environment)

    def _of_script(
        self, script: Script, line: Line, environment: Mapping[str, str], known: Mapping[str, str]
    ) -> Iterator[Evidence]:
        folder = self._specified(self.service.one.get("WorkingDirectory", "/").lstrip("-"))
        found, sourced = script_commands(script, known, folder, self.commands)
        for path in [*([script.path] if script.path else []), *sourced]:
            self._add(path)
        alone = script_commands(script._replace(arguments=()), known, folder, self.commands)[0]
        place = script.path if script.path and (alone or not found) else line.path  # one that runs what it is given
        for command in found:
            yield self._found(place, command.words, {**environment, **command.environment})
        if not found:
            yield self._failure(place, Failure("no server", "the script names no server to start"))

    def _words(self, value: str, known: Mapping[str, str]) -> Iterator[list[str]]:
        plain = Masker().environment(known)  # a secret's own name masks it, which that of a flag may not
        for signs, raw in unit_syntax.commands(value):
            words = [self._specified(word) for word in raw]
            if "@" in signs and len(words) > 1:
                del words[1]  # the name that the program is told it has
            complete, inherited = not self.failures, self._inherited()
            expanded = unit_syntax.expanded(words, plain, complete=complete, inherited=inherited)
            yield words if ":" in signs else expanded

    def _inherited(self) -> frozenset[str]:
        """Variables that no file may name and a start has all the same, from its manager (`systemctl set-environment`,
        DefaultEnvironment=). A file that was edited since may have named them then.
        """
        changes = [file.changed_at for file in self.files.values() if file.changed_at]
        edited = self.start is None or any(at > self.start.at for at in changes)
        return frozenset() if self.start is None or edited else self.start.variables

    def _environment(self) -> dict[str, str]:
        """Files outrank Environment=, and the later of two the earlier."""
        words = [self._specified(word) for value in self.service.assignments for word in unit_syntax.words(value)]
        environment = dict(word.split("=", 1) for word in words if "=" in word)
        for named in self.service.files:
            pattern = self._specified(named.lstrip("-"))
            paths = sorted(glob(pattern)) if re.search(r"[*?[]", pattern) else [pattern]
            for path in paths:
                optional = named.startswith("-") and not os.path.lexists(path)
                environment |= {} if optional else unit_syntax.environment_file(self._text(path))
        for word in (word for value in self.service.unset for word in unit_syntax.words(value)):
            name, equals, value = word.partition("=")
            if not equals or environment.get(name) == value:
                environment.pop(name, None)
        return environment

    def _own(self) -> dict[str, str]:
        """What systemd sets itself."""
        user = self._user()
        return {"USER": user, "LOGNAME": user, "HOME": self._values()["h"]} if user else {}

    def _user(self) -> str:
        return self.service.one.get("User", "") if self.unit.uid is None else user_name(self.unit.uid)

    def _values(self) -> dict[str, str]:
        """Those of a system manager are root's, whatever User= is; %u as well."""
        uid = self.unit.uid or 0
        home = _home(uid)
        system = self.unit.uid is None
        run = "/run" if system else f"/run/user/{uid}"
        folders = {
            "t": run,
            "S": "/var/lib" if system else f"{home}/.config",
            "C": "/var/cache" if system else f"{home}/.cache",
            "L": "/var/log" if system else f"{home}/.config/log",
            "E": "/etc" if system else f"{home}/.config",
            "T": "/tmp",
            "V": "/var/tmp",
        }
        host = os.uname().nodename
        who = {"u": user_name(uid), "U": str(uid), "h": home, "H": host, "l": host.partition(".")[0]}
        return {**folders, **who, **unit_syntax.name_values(self.unit.name)}

    def _specified(self, word: str) -> str:
        return unit_syntax.specifiers(word, self._values()) if "%" in word else word

    def _text(self, path: str) -> str:
        self._add(path)
        try:
            with open(path, "rb") as file:
                return file.read(LARGEST).decode("utf-8", errors="replace")
        except OSError as error:
            self.failures.append(self._failure(path, _unreadable(error)))
            return ""

    def _add(self, path: str) -> None:
        self.files.setdefault(path, changed(path)._replace(path=self.masker.text(path)))

    def _found(self, path: str, words: tuple[str, ...], environment: Mapping[str, str]) -> Evidence:
        for place, word in enumerate(words):
            name, _, value = word.partition("=")
            file = value or (words[place + 1] if place + 1 < len(words) else "")
            if name == "--config" and file:
                self._add(os.path.join(self.service.one.get("WorkingDirectory", "/"), file))
        return self._evidence(path, Argv(self.masker.words(words), self.masker.environment(environment)))

    def _no_server(self, program: str) -> Failure:
        told = self.masker.text(program)
        return Failure("no server", f"it starts {told}, which is no server that Ullage knows, and no shell script")

    def _failure(self, path: str, failure: Failure) -> Evidence:
        return self._evidence(path, failure)

    def _evidence(self, path: str, content: Content) -> Evidence:
        place = self.masker.text(path)
        return Evidence(Origin(place), place, CONFIGURED, datetime.now(timezone.utc), content)


def _unreadable(error: OSError) -> Failure:
    if isinstance(error, PermissionError):
        return Failure("no rights", "no permission to read it", sudo())
    return Failure("unreadable", error.strerror or "it cannot be read")
