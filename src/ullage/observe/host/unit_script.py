"""The command in the shell script that a unit runs: its variables, arrays and arguments put in. Nothing is executed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...masking import Masker
from ..shell import Command, commands_in
from .unit_blocks import Blocks

LARGEST = 262144
_DEEPEST = 3  # a file that is sourced can source another
_SHELLS = frozenset("sh bash dash zsh ksh ash".split())
_SHEBANG = re.compile(rb"#!\s*\S*?(?:/env\s+(?:-S\s+)?)?(?:\S*/)?(?:sh|bash|dash|zsh|ksh|ash)\b")
_SOURCE = re.compile(r"^[ \t]*(?:\.|source)[ \t]+(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]+).*$", re.MULTILINE)
_ARRAY = re.compile(r"^[ \t]*(?:(?:declare|local|readonly)\s+(?:-\w+\s+)*)?(\w+)(\+?)=\(", re.MULTILINE)
_ASSIGNED = re.compile(
    r"\s*(?P<how>(?:export|declare|local|readonly)\s+(?:-\w+\s+)*)?(?P<words>[A-Za-z_]\w*.*)", re.ASCII
)
_EXPORTS_ALL = re.compile(r"\s*set\s+(?:-\w*a\w*|-o\s+allexport)\b")
_COMMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'[^']*'|\\.)|(?:^|(?<=[\s;]))#[^\n]*""", re.DOTALL | re.MULTILINE)
_VARIABLE = re.compile(
    r"\$(?:\{(?P<braced>\w+|@|\*)(?P<all>\[[@*]\])?(?::?[-=](?P<default>[^{}]*))?\}|(?P<bare>[A-Za-z_]\w*|\d|@|\*))",
    re.ASCII,
)
_SHIFT = re.compile(r"\s*shift(?:[ \t]+(\d+))?[\s;]*", re.ASCII)
_WITHIN = re.compile(
    r"((?:^|[;&|)]|\b(?:then|do|else))\s*)(?:(?:export|local|declare|readonly)\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)\+?=",
    re.ASCII,
)
_ALONE = re.compile(
    _WITHIN.pattern + r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\$\([^()]*\)|`[^`]*`|[^\s;&|"'`])*\s*(?=$|[;&|)])""", re.ASCII
)
_ALL_QUOTED = re.compile(r'"(\$(?:@|\{@\}|\{\w+\[@\]\}))"')  # as many words as there are, each as it is


class Script(NamedTuple):
    path: str  # "" of a command in a line of the unit
    text: str
    arguments: tuple[str, ...] = ()


def find_script(words: Sequence[str]) -> Script | None:
    """The shell script in a command line: `bash -c TEXT`, `bash FILE`, or a FILE that names a shell on its first line.
    None where there is none. Raises OSError where it cannot be read.
    """
    for place, word in enumerate(words):
        if os.path.basename(word) in _SHELLS:
            return _of_shell(words[place + 1 :])
        if os.path.isabs(word) and os.path.isfile(word) and _SHEBANG.match(_head(word)):
            return Script(word, _read(word), tuple(words[place + 1 :]))
    return None


def _of_shell(words: Sequence[str]) -> Script | None:
    inline = False
    for place, word in enumerate(words):
        if word.startswith("-") and len(word) > 1:
            inline = inline or (not word.startswith("--") and "c" in word)
        elif inline:
            return Script("", word, tuple(words[place + 2 :]))
        elif word not in ("pipefail", "errexit", "nounset"):  # the value of -o
            return Script(word, _read(word), tuple(words[place + 1 :]))
    return None


def _head(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(128)


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(LARGEST).decode("utf-8", errors="replace")


def script_commands(
    script: Script, environment: Mapping[str, str], folder: str, programs: re.Pattern[str]
) -> tuple[list[Command], list[str]]:
    """The commands in it that start one of the programs, and the files that it sources. `folder`: where it runs."""
    sourced: list[str] = []
    text = _joined(script.text)
    base = os.path.dirname(script.path) or folder
    text = _with_sourced(text, environment, base, sourced, _DEEPEST)
    expander = _Expander(environment, script)
    found = commands_in(expander.expanded(text), programs)
    return [command._replace(environment=expander.exported | command.environment) for command in found], sourced


def _joined(text: str) -> str:
    """Without comments, and with lines that go on as one."""
    return _COMMENT.sub(lambda found: found[1] or "", re.sub(r"\\\r?\n", " ", text))


def _with_sourced(text: str, environment: Mapping[str, str], folder: str, sourced: list[str], deeper: int) -> str:
    """With the text of each file in place of the line that sources it; the line itself where that is not readable."""

    def there(line: re.Match[str]) -> str:
        path = _VARIABLE.sub(
            lambda name: environment.get(name["braced"] or name["bare"], name[0]), line[1].strip("\"'")
        )
        path = os.path.join(folder, path)
        if deeper == 0 or path in sourced:
            return line[0]
        sourced.append(path)
        try:
            return _with_sourced(_joined(_read(path)), environment, folder, sourced, deeper - 1)
        except OSError:
            return line[0]

    return _SOURCE.sub(there, text)


class _Expander:
    """Puts the values of variables into a text, as far as its own assignments and the environment tell them. Those of
    secrets are masked: the name of the flag they end up behind may not show that they are.
    """

    def __init__(self, environment: Mapping[str, str], script: Script) -> None:
        self._values = dict(environment)
        self._unknown: set[str] = set()  # that were assigned where it is not known whether the shell comes by
        self._arguments: tuple[str, ...] | None = script.arguments
        self._arrays: dict[str, str] = {}
        self._masker = Masker()
        self.exported: dict[str, str] = {}
        self._exports_all = False

    def expanded(self, text: str) -> str:
        text = _ALL_QUOTED.sub(r"\1", self._without_arrays(text))
        blocks = Blocks()
        return "\n".join(self._line(line, perhaps=blocks.perhaps(line)) for line in text.splitlines())

    def _without_arrays(self, text: str) -> str:
        out, done, perhaps, blocks = "", 0, set[str](), Blocks()
        for match in _ARRAY.finditer(text):
            end = text.find(")", match.end())
            if end < 0 or match.start() < done:
                continue
            name, words, before = match[1], " ".join(text[match.end() : end].split("\n")), text[done : match.start()]
            blocks.after(before)
            if blocks.inside or (match[2] and name in perhaps):
                perhaps.add(name)
            else:
                perhaps.discard(name)
            self._arrays[name] = f"{self._arrays.get(name, '') if match[2] else ''} {words}".strip()
            out, done = out + before, end + 1
        self._arrays = {name: words for name, words in self._arrays.items() if name not in perhaps}
        return out + text[done:]

    def _line(self, line: str, *, perhaps: bool) -> str:
        """Without what it assigns, if it does nothing else: its variables are put in here."""
        self._exports_all = self._exports_all or _EXPORTS_ALL.match(line) is not None
        if shifted := _SHIFT.fullmatch(line):
            self._arguments = None if perhaps or self._arguments is None else self._arguments[int(shifted[1] or 1) :]
            return ""
        line = self._put(line)
        assigned = None if perhaps else _ASSIGNED.fullmatch(line)
        if assigned and self._assign(assigned["words"], assigned["how"] or ""):
            return ""
        for _, name in _WITHIN.findall(line):
            self._unknown.add(name)
            self.exported.pop(name, None)
        return _ALONE.sub(r"\1:", line)

    def _assign(self, text: str, how: str) -> bool:
        pieces = shlex.shlex(text, posix=True, punctuation_chars=True)
        pieces.whitespace_split = True
        try:
            pairs = [word.partition("=") for word in pieces if word not in (";", ";;")]
        except ValueError:
            return False
        if not all((equals or how) and re.fullmatch(r"\w+\+?", name) for name, equals, _ in pairs):
            return False
        for word, equals, value in pairs:
            name = word.removesuffix("+")
            if equals and not (word.endswith("+") and name in self._unknown):
                before = self._values.get(name, "") if word.endswith("+") else ""
                self._values[name] = before + value
                self._unknown.discard(name)
            exports = self._exports_all or name in self.exported
            if exports or how.startswith("export") or "x" in how.partition("-")[2]:
                self.exported[name] = self._values.get(name, "")
        return True

    def _put(self, text: str, deeper: int = 2) -> str:
        """Outside of quotes a value is split into words like the text around it; within them it stays one."""
        out, quote, place = "", "", 0
        while place < len(text):
            character = text[place]
            found = _VARIABLE.match(text, place) if character == "$" and quote != "'" else None
            if found:
                out += self._value(found, quote, deeper)
                place = found.end()
                continue
            if character == "\\" and quote != "'":
                literal = quote and text[place + 1 : place + 2] in ("$", "`")  # which shlex would not take for escaped
                out, place = out + text[place + bool(literal) : place + 2], place + 2
                continue
            if character in "\"'" and quote in ("", character):
                quote = "" if quote else character
            out, place = out + character, place + 1
        return out

    def _value(self, found: re.Match[str], quote: str, deeper: int) -> str:
        name = found["braced"] or found["bare"]
        if found["all"] or name in ("@", "*"):
            return self._several(found, name, deeper)
        if name in self._unknown:
            return found[0]
        if name.isdigit() and self._arguments and 0 < int(name) <= len(self._arguments):
            value: str | None = self._arguments[int(name) - 1]
        else:
            value = self._values.get(name, found["default"])
        if value is None:
            return found[0]
        value = self._masker.value(name, value)
        if quote:
            return re.sub(r'(["\\`$])', r"\\\1", value)
        return " ".join(map(shlex.quote, value.split()))

    def _several(self, found: re.Match[str], name: str, deeper: int) -> str:
        """All of an array, or of the script's arguments."""
        if name in ("@", "*"):
            return found[0] if self._arguments is None else shlex.join(self._arguments)
        return self._put(self._arrays[name], deeper - 1) if name in self._arrays and deeper else found[0]
