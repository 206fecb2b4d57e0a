"""The syntax of unit files and of environment files as systemd reads it (systemd.syntax(7), systemd.service(5),
systemd.exec(5)). Pure text functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|[abfnrtvs\\\"'])", re.DOTALL)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|\\\Z|"(?:[^"\\]|\\.)*(?:"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z))+""", re.DOTALL)
_PIECE = re.compile(r""""((?:[^"\\]|\\.)*)(?:"|\Z)|'((?:[^'\\]|\\.)*)(?:'|\Z)|((?:[^"'\\]|\\.|\\\Z)+)""", re.DOTALL)
_SPECIFIER = re.compile(r"%(.)")
_BRACED = re.compile(r"\$(?:\{(\w+)\}|(\$))", re.ASCII)
_BARE = re.compile(r"\$([A-Za-z_]\w*)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_IN_QUOTES = re.compile(r'\\(["\\`$])')
_VALUE = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<bare>(?:[^'"\\]|\\.)+)|(?P<odd>.)""", re.DOTALL
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


def expanded(command: Sequence[str], environment: Mapping[str, str], *, complete: bool = True) -> list[str]:
    """A command with its variables: ${NAME} anywhere in a word, $NAME as a word of its own, which is split. The program
    stays. Where the environment is not `complete`, a variable that is not known stays as it is written.
    """
    out = list(command[:1])
    for word in command[1:]:
        bare = _BARE.fullmatch(word)
        if bare is None:
            out.append(_BRACED.sub(lambda found: _value(found, environment, complete), word))
        elif complete or bare[1] in environment:
            out += words(environment.get(bare[1], ""))
        else:
            out.append(word)
    return out


def _value(found: re.Match[str], environment: Mapping[str, str], complete: bool) -> str:
    return "$" if found[2] else environment.get(found[1], "" if complete else found[0])


def environment_file(text: str) -> dict[str, str]:
    """`NAME=value` lines, with a shell's quotes but without its variables; what is no such line is passed over."""
    found: dict[str, str] = {}
    for line in _assignments(text):
        name, equals, value = line.partition("=")
        if equals and _NAME.fullmatch(name.strip()):
            found[name.strip()] = _shell_value(value)
    return found


def _assignments(text: str) -> Iterator[str]:
    """Logical lines: a backslash and an open quote go on to the next one."""
    begun = ""
    for raw in text.splitlines():
        if not begun and (not raw.strip() or raw.lstrip()[0] in "#;"):
            continue
        line = begun + raw
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            begun = line[:-1]
        elif _open_quote(line.partition("=")[2].strip()):
            begun = f"{line}\n"
        else:
            begun = ""
            yield line
    if begun:
        yield begun


def _open_quote(value: str) -> bool:
    return any(piece["odd"] in ("'", '"') for piece in _VALUE.finditer(value))


def _shell_value(value: str) -> str:
    out = ""
    for piece in _VALUE.finditer(value.strip()):
        if piece["double"] is not None:
            out += _IN_QUOTES.sub(r"\1", piece["double"])
        elif piece["single"] is not None:
            out += piece["single"]
        else:
            out += re.sub(r"\\(.)", r"\1", piece["bare"] or "", flags=re.DOTALL)
    return out
