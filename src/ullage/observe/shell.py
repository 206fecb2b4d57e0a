"""Command lines as people save them: from a terminal, a script, `ps`, /proc; word by word, with their environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..errors import UsageError
from ..evidence import Argv
from ..masking import Masker

_PROMPT = re.compile(r"^\s*(?:(?:[\w.-]+@[\w.-]+:\S*)?[$#>] +|ExecStart=[-@:+!]*)")
_UNIT_ENVIRONMENT = re.compile(r"^\s*Environment=")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_PROGRAM = re.compile(r"[\w./~$@-]")
_WORDS = re.compile(r"(?i)(?:argv|cmd|cmdline|command)(?:_|line|$)")  # the key of a command line in a JSON document
_SEPARATOR = re.compile(r"\|\|?|&&?|;;?")
_WINDOWS_PATH = re.compile(r"(?<!\S)(?:[A-Za-z]:|\.{1,2})\\[^\s\"']*")  # its backslashes escape nothing
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_REDIRECT = re.compile(r"(?:\d*|&)>{1,2}(?:&?\S+)?|<\S*")
_PS = re.compile(
    r"\S+ +(?P<aux>\d+) +[\d.]+ +[\d.]+ +\d+ +\d+ +\S+ +\S+ +\S+ +\d+:\d\d +"  # ps aux
    r"|\S+ +(?P<ef>\d+) +\d+ +\d+ +\S+ +\S+ +\d\d:\d\d:\d\d +"  # ps -ef
    r"|[\s│├└─|`-]*(?P<args>\d+) +(?:\w{3} \w{3} +\d+ [\d:]{8} \d{4} +)?(?=\S*[/a-zA-Z])"  # ps -eo pid,lstart,args
)


class Command(NamedTuple):
    words: tuple[str, ...]
    environment: dict[str, str]
    pid: int | None = None

    def masked(self, masker: Masker) -> Argv:
        return Argv(masker.words(self.words), masker.environment(self.environment))


def of_words(words: list[str]) -> Command:
    """Leading assignments are environment; `env`, `nohup`, `sudo` and `exec` stay words."""
    environment: dict[str, str] = {}
    for word in words:
        if _ASSIGNMENT.match(word) is None:
            break
        name, _, value = word.partition("=")
        environment[name] = value
    return Command(tuple(words[len(environment) :]), environment)


def of_json(data: Any) -> Command | None:
    """`["word", ...]`, or `{"argv": ["word", ...], "env": {...}}`, whatever the words are called."""
    argv = _words_of(data) if isinstance(data, dict) else data
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        return None
    env = data.get("env") if isinstance(data, dict) else None
    stated = {name: str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    command = of_words(argv)
    return command._replace(environment=stated | command.environment)


def _words_of(data: dict[str, Any]) -> Any:
    named = [key for key in data if isinstance(key, str) and _WORDS.match(key)]
    return next((data[key] for key in ("argv", *named) if isinstance(data.get(key), list)), None)


def flags(text: str) -> Command:
    """The words of one command: of several in a shell line, the first with flags. Raises UsageError where the quotes do
    not pair up.
    """
    try:
        parts = _parts(_split(_joined(text)))
        return of_words(next((part for part in parts if any(w.startswith("--") for w in part)), (parts or [[]])[0]))
    except ValueError as error:
        raise UsageError(f"--flags cannot be read: {str(error).lower()}", "check its quotes") from None


def commands_in(text: str, programs: re.Pattern[str]) -> list[Command]:
    """The commands that start one of the programs. Variables exported before one count as its environment."""
    lines = [line for line in _joined(text).splitlines() if line.strip()]
    found = _commands([line for line in lines if not line.lstrip().startswith("#")], programs)
    return _once(found or _commands([line for line in lines if line.lstrip().startswith("# ")], programs))


def _once(commands: list[Command]) -> list[Command]:
    """A process that is listed twice, by two tools, is one; so is a command that is repeated."""
    known = {(command.pid or command.words): command for command in reversed(commands)}
    return list(reversed(known.values()))


def _commands(lines: list[str], programs: re.Pattern[str]) -> list[Command]:
    found: list[Command] = []
    exported: dict[str, str] = {}
    unit = any(line.strip() == "[Service]" for line in lines)  # where `Name=value` is a directive, not a variable
    for line in lines:
        for command in _on_line(line):
            text = " ".join(command.words)
            if programs.search(text) and _starts_it(text, programs):
                found.append(_with(command, exported))
            elif command.words[:1] == ("export",):
                exported |= of_words(list(command.words[1:])).environment
            elif not command.words and not unit:
                exported |= command.environment
    return found


def _with(command: Command, known: dict[str, str]) -> Command:
    """With the variables that the lines before it set; what they do not set stays as it is written."""
    plain = Masker().environment(known)  # a secret's own name masks it, which that of the flag may not
    words = (_VARIABLE.sub(lambda name: plain.get(name[1] or name[2], name[0]), word) for word in command.words)
    return command._replace(words=tuple(words), environment=known | command.environment)


def _on_line(line: str) -> list[Command]:
    head = _PS.match(line)
    pid = next((int(group) for group in head.groups() if group), None) if head else None
    text = line[head.end() :] if head else _UNIT_ENVIRONMENT.sub("export ", _PROMPT.sub("", line, count=1))
    try:
        words = _split(text)
    except ValueError:
        words = text.split() if head else []
    return [of_words(part)._replace(pid=pid) for part in _parts(words)]


def _split(text: str) -> list[str]:
    return shlex.split(_WINDOWS_PATH.sub(lambda path: path[0].replace("\\", "\\\\"), text))


def _parts(words: list[str]) -> list[list[str]]:
    """The single commands of a shell line, without redirections and comments."""
    parts: list[list[str]] = [[]]
    redirected = False
    for word in _without_groups(words):
        if word.startswith("#"):
            break
        if _SEPARATOR.fullmatch(word):
            parts.append([])
        elif _REDIRECT.fullmatch(word):
            redirected = word.endswith((">", "<"))
            continue
        elif not redirected:
            parts[-1].append(word.removesuffix(";"))
            if word.endswith(";"):
                parts.append([])
        redirected = False
    return [part for part in parts if part]


def _without_groups(words: Iterable[str]) -> Iterator[str]:
    """`( a & b ) >> log` is two commands, and what stands behind their group is none of theirs."""
    depth, at_start = 0, True
    for word in words:
        while at_start and word.startswith("("):
            depth, word = depth + 1, word[1:]
        closes = False
        while depth and word.endswith(")"):
            depth, word, closes = depth - 1, word[:-1], True
        if word:
            yield word
        if closes:
            yield ";"
        at_start = not word or _SEPARATOR.fullmatch(word) is not None or word.endswith(";")


def _starts_it(text: str, programs: re.Pattern[str]) -> bool:
    """Not a sentence about it, as in a log (`[INFO] Spawning: /opt/bin/server`), nor a search for it."""
    match = programs.search(text)
    before = text[: match.start()].split() if match else []
    if before[:1] == ["grep"] or not _PROGRAM.match(text):
        return False
    return not any(word.startswith("[") or word.endswith((":", ",")) for word in before)


def _joined(text: str) -> str:
    return re.sub(r"\\\r?\n", " ", text)
