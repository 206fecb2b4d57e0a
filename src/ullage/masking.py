"""Secrets are masked where evidence is read, so that no later layer can leak them: API keys, tokens, passwords, URLs
with users. Where it cannot be told how long a secret is, rather too much is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

MASK = "***"
_MOST_KEYS = 4096

# A name that ends like this guards a secret ("hf_token", "--admin-api-key", "AWS_SECRET_ACCESS_KEY"); "max_tokens" does
# not. Under the lesser ones a number is a count ("#new-token: 64").
_SURE = (
    r"(?:(?:(?:api|access|private)[-_ ]?key|secret(?:[-_]?key)?|passw(?:or)?d|passphrase|credential|[-_](?:pwd|auth))s?"
    r"(?:[-_]?[0-9]+)?|(?<=[?&])key(?==))"
)
_HEADER = r"(?:authorization|cookie)"
_LESSER = r"""(?:token|[-_]key|(?<=["'])key(?=\\*["']))"""
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?%?"
_NOTHING = r"(?:none|null|true|false|auto|nan|\[\]|\{\}|\*{3,})"
_END = r"""(?:[\s"'\\,;)}\]&]|\Z)"""
_COUNT = rf"""(?:\\*["'])?{_NUMBER}{_END}"""
_WORD = rf"""(?:{_SURE}|{_HEADER}|{_LESSER}(?!\\*["']?\s*(?:[=:]\s*)?{_COUNT}))"""

# What stands after the name: nothing (`None`, `""`), or the secret in quotes, in a list, in a call, escaped, or bare.
_UNSET = (
    rf"""(?:(?P<slashes>\\*)(?P<mark>["']){_NOTHING}?(?P=slashes)(?P=mark)(?![\w"'])"""
    rf"""|{_NOTHING}{_END}|[\s,;)}}\]&]|\Z)"""
)
_TEXT = r"""(?:"(?:\\.|[^"\\\n])*\\?(?:"|(?=\n)|\Z)|'(?:\\.|[^'\\\n])*\\?(?:'|(?=\n)|\Z))"""
_QUOTED = (
    rf"""b?{_TEXT}(?:{_TEXT}|[\w.+/=-]+)*"""  # a shell joins 'pieces'"that touch"
    rf"""|[\[({{]\s*b?{_TEXT}(?:\s*,\s*b?{_TEXT})*\s*[\])}}]?"""
    rf"""|\w+\(\s*b?{_TEXT}\)?"""
    r"""|(?P<slash>\\+)(?P<quote>["']).*?(?:(?<!\\)(?P=slash)(?P=quote)|(?=\n)|\Z)"""
    r"""|\[\s*(?P<many>\\+)(?P<each>["']).*?(?:(?<!\\)(?P=many)(?P=each)\s*\]|(?=\n)|\Z)"""
)
_VALUE = rf"""(?!{_UNSET})(?P<value>{_QUOTED}|(?P<bare>[^\s"'\\]+))"""
# The long patterns are compiled when a text first asks for one: most never do.
_ASSIGNED = rf"""(?i)(?P<head>{_WORD}\\*["']?\s*(?:=>|:=|[=:]|,(?=\s*\\*["']))\s*){_VALUE}"""
_FLAG = rf"(?i)(?P<head>--(?:(?!--)[\w-])*?{_WORD}\s+)(?!--){_VALUE}"
_LINE = rf"""(?i)(?P<head>{_HEADER}\\*["']?\s*[=:]\s*)(?!{_UNSET})(?P<value>{_QUOTED}|(?P<bare>[^\n]+))"""
# Each look is cheap and comes before an expensive one: of most lines of a log, only the first is ever needed.
_MAY_ASSIGN = re.compile(  # of a text in lower case
    r"""(?:(?:key|secret|passw(?:or)?d|passphrase|credential|pwd|auth)s?(?:[-_]?[0-9]+)?|authorization|cookie"""
    rf"""|token(?!\\*["']?\s*[=:]\s*{_COUNT}))\\*["']?\s*(?:[=:]|,\s*\\*["'])"""
)
_MAY_FLAG = re.compile(
    r"(?:key|secret|passw(?:or)?d|passphrase|credential|pwd|auth|authorization|cookie|token)s?[-_0-9]*\s"
)
_PREFIXES = ("hf_", "sk-", "k_live", "k_test", "ghp_", "gho_", "ghs_", "pat-", "pat_", "nvapi-", "xox")
_SHAPES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("bearer",), r"""(?i)\b(bearer)\s+(?!\*)[^\s"'\\]{4,}""", rf"\1 {MASK}"),
    (("basic",), r"(?i)\b(basic)\s+(?!\*)[A-Za-z0-9+/=_-]{4,}", rf"\1 {MASK}"),
    (
        _PREFIXES,
        r"\b(?:hf_(?=[a-z0-9]*[0-9A-Z])[A-Za-z0-9]{8,}|(?:ghp|gho|ghs)_[A-Za-z0-9]{8,}"
        r"|(?:sk-(?=[A-Za-z_-]*[0-9])|(?:sk|pk|rk)_(?:live|test)_)[A-Za-z0-9_-]{12,}"
        r"|(?:glpat-|nvapi-|xox[abp]-|github_pat_)[A-Za-z0-9_-]{8,})",
        MASK,
    ),
    (("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b", MASK),
    (("eyj",), r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*", MASK),
    (("@",), r"://[^/\s'\"]+@", f"://{MASK}@"),
)
_MAY_HAVE_SHAPE = re.compile("|".join(re.escape(hint) for hints, *_ in _SHAPES for hint in hints))
_SECRET_NAME = re.compile(rf"(?:.*(?:{_SURE}|{_HEADER}|token|[-_]key)|key)", re.IGNORECASE)
_SURE_NAME = re.compile(rf".*(?:{_SURE}|{_HEADER})", re.IGNORECASE)
_KEYS_FLAG = re.compile(r".*api[-_]?keys?", re.IGNORECASE)
_IS_NOTHING = re.compile(rf"{_NOTHING}?", re.IGNORECASE)
_IS_NUMBER = re.compile(_NUMBER)
_OPENING = re.compile(r"""b?(\\*["'])""")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name.lstrip("-")) is not None


@lru_cache(maxsize=4096)
def _is_sure(name: str) -> bool:
    return _SURE_NAME.fullmatch(name) is not None


class Masker:
    """Masks by name and by shape, and besides every value it was told is a secret (the key in use, for one)."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        spelled = {spelling for secret in known if len(secret) >= 4 for spelling in _spellings(secret)}
        self._known = tuple(sorted(spelled, key=len, reverse=True))
        self._keys: dict[str, str] = {}  # of documents, masked: servers of one kind have the same

    def text(self, text: str) -> str:
        for secret in self._known:
            text = text.replace(secret, MASK)
        lowered = text.lower()
        if _MAY_HAVE_SHAPE.search(lowered):
            for hints, pattern, replacement in _SHAPES:
                if any(hint in lowered for hint in hints):
                    text = _compiled(pattern).sub(replacement, text)
        if _MAY_ASSIGN.search(lowered):
            text = _compiled(_ASSIGNED).sub(_masked, _compiled(_LINE).sub(_masked, text))
        if "--" in text and _MAY_FLAG.search(lowered):
            text = _compiled(_FLAG).sub(_masked, text)
        return text

    def value(self, name: str, value: str) -> str:
        """The value of a named setting: hidden whole where the name guards a secret."""
        if not is_secret_name(name) or _IS_NOTHING.fullmatch(value):
            return self.text(value)
        return value if _IS_NUMBER.fullmatch(value) and not _is_sure(name) else MASK

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        """A command line: the value of `--api-key K`, of `--api-key=K`, of `API_KEY=K`, and what looks like one."""
        masked: list[str] = []
        guarded, several = "", False
        for word in words:
            if guarded and not word.startswith("-" if several else "--"):
                masked.append(self.value(guarded, word))
                several = _KEYS_FLAG.fullmatch(guarded) is not None
                guarded = guarded if several else ""
                continue
            name, equals, value = word.partition("=")
            if equals and (name.startswith("-") or is_secret_name(name)):
                masked.append(f"{name}={self.value(name, value)}")
            else:
                masked.append(self.text(word))
            guarded, several = (word if word.startswith("-") and is_secret_name(word) else ""), False
        return tuple(masked)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {name: self.value(name, value) for name, value in variables.items()}

    def document(self, data: Any, name: str = "") -> Any:
        """A JSON document, its strings masked by the name they stand under and by their shape."""
        if isinstance(data, dict):
            named = data.get("name")  # {"name": "API_KEY", "value": "..."}
            guard = named if isinstance(named, str) and is_secret_name(named) else ""
            return {
                self._key(str(key)): self.document(value, _guard(name, guard if key == "value" else str(key)))
                for key, value in data.items()
            }
        if isinstance(data, list):
            if data and all(isinstance(item, str) for item in data):
                return [self.value(name, word) for word in self.words(data)]
            return [self.document(item, name) for item in data]
        if isinstance(data, str):
            return self.value(name, data)
        is_number = isinstance(data, (int, float)) and not isinstance(data, bool)
        return MASK if is_number and _is_sure(name) else data

    def _key(self, key: str) -> str:
        masked = self._keys.get(key)
        if masked is None:
            masked = self.text(key)
            if len(self._keys) < _MOST_KEYS:
                self._keys[key] = masked
        return masked


def _guard(outer: str, inner: str) -> str:
    """All that stands below a name that is sure to guard a secret is one."""
    return outer if _is_sure(outer) else inner


def _spellings(secret: str) -> Iterator[str]:
    """A secret as it is, and as it is written in JSON, in a Python literal, and in a URL."""
    import json
    from urllib.parse import quote

    yield from (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (repr(secret)[1:-1], quote(secret), quote(secret, safe=""))


def _masked(match: re.Match[str]) -> str:
    opening = _OPENING.match(match["value"])
    if opening:
        return f"{match['head']}{opening[1]}{MASK}{opening[1]}"
    bare = match["bare"] or ""
    return f"{match['head']}{MASK}{bare[len(bare.rstrip(',;)}]&')) :]}"
