"""The syntax of unit files and of environment files as systemd reads it (systemd.syntax(7), systemd.service(5),
systemd.exec(5)). Pure text functions.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|[abfnrtvs\\\"'])", re.DOTALL)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|\\\Z|"(?:[^"\\]|\\.)*(?:"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z))+""", re.DOTALL)
_PIECE = re.compile(r""""((?:[^"\\]|\\.)*)(?:"|\Z)|'((?:[^'\\]|\\.)*)(?:'|\Z)|((?:[^"'\\]|\\.|\\\Z)+)""", re.DOTALL)
_SPECIFIER = re.compile(r"%(.)")
_BRACED = re.compile(r"\$(?:\{(\w+)\}|(\$))", re.ASCII)
_SIGNS = "@-:+!|"
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_IN_QUOTES = re.compile(r'\\(["\\`$\n])')
_QUOTED = re.compile(r"""'[^']*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)""", re.DOTALL)
_ENTRY = re.compile(
    rf"""[ \t\r\n]*(?:[#;](?:\\.|[^\\\n])*"""
    rf"""|(?P<name>[^=\n]*)(?:=(?P<quoted>(?:[ \t\r]*(?:{_QUOTED.pattern}))*)[ \t\r]*(?P<rest>(?:\\.|[^\\\n])*))?)"""
    rf"""(?:\n|\\?\Z)""",
    re.DOTALL,
)


def settings(text: str) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of each setting. A line that ends with a backslash goes on, past comments."""
    section = ""
    for line in _logical(text):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        name, equals, value = line.partition("=")
        if equals:
            yield section, name.strip(), value.strip()


def _logical(text: str) -> Iterator[str]:
    begun = ""
    for raw in text.splitlines():
        if not raw.strip() or raw.lstrip()[0] in "#;":
            if begun and not raw.strip():
                yield begun.strip()
                begun = ""
            continue
        line = begun + raw
        goes_on = (len(raw) - len(raw.rstrip("\\"))) % 2 == 1
        begun = f"{line[:-1]} " if goes_on else ""
        if not goes_on:
            yield line.strip()
    if begun.strip():
        yield begun.strip()


def words(value: str) -> list[str]:
    """Split at white space outside of quotes, which are taken off; C's escapes stand for what they do in C."""
    return [_unquoted(match[0]) for match in _WORD.finditer(value)]


def commands(value: str) -> list[tuple[str, list[str]]]:
    """The commands in a line of ExecStart=, each with the signs before its program."""
    found: list[list[str]] = [[]]
    for word in _WORD.findall(value):
        if word == ";":
            found.append([])
        else:
            found[-1].append(";" if word == "\\;" else _unquoted(word))
    return [_without_signs(words) for words in found if words]


def _without_signs(words: list[str]) -> tuple[str, list[str]]:
    program = words[0].lstrip(_SIGNS)
    return words[0].removesuffix(program) if program else words[0], [program, *words[1:]]


def _unquoted(word: str) -> str:
    return "".join(_unescaped(next(p for p in piece.groups() if p is not None)) for piece in _PIECE.finditer(word))


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda escape: _character(escape[1]), text) if "\\" in text else text


def _character(code: str) -> str:
    if code[0] in "xuU":
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else "\N{REPLACEMENT CHARACTER}"
    return chr(int(code, 8)) if code.isdigit() else _PLAIN.get(code, code)


def specifiers(text: str, values: Mapping[str, str]) -> str:
    """%i, %n and so on; one that is not known stays as it is written."""
    return _SPECIFIER.sub(lambda match: "%" if match[1] == "%" else values.get(match[1], match[0]), text)


def name_values(name: str) -> dict[str, str]:
    """What the specifiers stand for that are made of the unit's name: "sglang@decode.service"."""
    whole = name.rpartition(".")[0]
    prefix, _, instance = whole.partition("@")
    last = prefix.rpartition("-")[2]
    unescaped = _path(instance)
    return {
        "n": name, "N": whole, "p": prefix, "P": _path(prefix), "i": instance, "I": unescaped,
        "j": last, "J": _path(last), "f": f"/{unescaped or _path(prefix)}",
    }  # fmt: skip


def _path(escaped: str) -> str:
    """As systemd-escape --unescape: a dash is a slash, \\x2d a dash."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda code: chr(int(code[1], 16)), escaped.replace("-", "/"))


def expanded(
    command: Sequence[str], environment: Mapping[str, str], *, complete: bool = True, inherited: Container[str] = ()
) -> list[str]:
    """A command with its variables: ${NAME} anywhere in a word, $NAME as a word of its own, which is split. The program
    stays. Where the environment is not `complete`, a variable that is not known stays as it is written; so does one
    that is `inherited` from elsewhere.
    """
    out = list(command[:1])
    for word in command[1:]:
        name = word[1:]
        if not word.startswith("$") or name.startswith(("{", "$")):
            out.append(_BRACED.sub(lambda found: _value(found, environment, complete, inherited), word))
        elif name in environment or (complete and name not in inherited):
            out += words(environment.get(name, ""))
        else:
            out.append(word)
    return out


def _value(found: re.Match[str], environment: Mapping[str, str], complete: bool, inherited: Container[str]) -> str:
    empty = complete and found[1] not in inherited
    return "$" if found[2] else environment.get(found[1], "" if empty else found[0])


def environment_file(text: str) -> dict[str, str]:
    """`NAME=value`, with quotes before the value but no variables; what is no such line is passed over."""
    found: dict[str, str] = {}
    for entry in _ENTRY.finditer(text):
        name = (entry["name"] or "").strip()
        if entry["rest"] is not None and _NAME.fullmatch(name):
            found[name] = "".join(map(_dequoted, _QUOTED.findall(entry["quoted"]))) + _bare(entry["rest"])
    return found


def _dequoted(quoted: str) -> str:
    """Within double quotes a backslash escapes what a shell would read otherwise, and joins lines."""
    inner = quoted[1:-1] if len(quoted) > 1 and quoted[-1] == quoted[0] else quoted[1:]
    return inner if quoted[0] == "'" else _IN_QUOTES.sub(lambda escape: escape[1].strip("\n"), inner)


def _bare(text: str) -> str:
    """White space at the end does not count, but where it is escaped; a backslash joins lines."""
    stripped = text.rstrip(" \t\r")
    if (len(stripped) - len(stripped.rstrip("\\"))) % 2 == 1:
        stripped = text[: len(stripped) + 1]
    return re.sub(r"\\(.?)", lambda escape: escape[1].strip("\n"), stripped, flags=re.DOTALL)
