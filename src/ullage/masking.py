"""Secrets are masked where evidence is read, so that no later layer can leak them: API keys, tokens, passwords, URLs
with users.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

MASK = "***"

# A name that ends like this guards a secret ("hf_token", "--admin-api-key", "AWS_SECRET_ACCESS_KEY"); "max_tokens" does
# not.
_WORD = (
    r"(?:api[-_]?key|access[-_]?key|private[-_]?key|secret(?:[-_]?key)?|passw(?:or)?d|passphrase|credentials?"
    r"|authorization|cookie|token|[-_]key)"
)
_SECRET_NAME = re.compile(rf"(?:^|.*[^a-zA-Z]|.*[a-z](?=[A-Z])){_WORD}$|^key$", re.IGNORECASE)
_HARMLESS = re.compile(r"(?:|none|null|true|false|auto|-?[0-9]+(?:\.[0-9]+)?|\*\*\*)$", re.IGNORECASE)

_QUOTED = r"""\\?(?P<quote>["'])(?P<inside>(?:\\.|(?!(?P=quote)).)*)(?P=quote)"""
_BARE = r"""(?P<bare>[^\s"'\\,;)}\]&]+)"""
_ASSIGNED = re.compile(
    rf"""(?P<head>{_WORD}\\?["']?\s*(?:[=:]|,(?=\s*\\?["']))\s*)(?:b?{_QUOTED}|{_BARE})""",
    re.IGNORECASE,
)
_FLAG = re.compile(rf"(?P<head>--(?:(?!--)[\w-])*?{_WORD}\s+)(?!-){_BARE}", re.IGNORECASE)
# Each look is cheap and comes before an expensive one: of most lines of a log, only the first is ever needed.
_NAME = r"(?:key|secret|passw(?:or)?d|passphrase|credentials?|authorization|cookie|token)"
_NUMBER = r"""-?[0-9]+(?:\.[0-9]+)?(?:[\s"'\\,;)}\]&]|$)"""
_MAY_ASSIGN = re.compile(rf"""{_NAME}\\?["']?\s*(?:[=:]\s*(?!{_NUMBER})\S|,\s*\\?["'])""")  # of a text in lower case
_MAY_FLAG = re.compile(rf"{_NAME}\s+[^\s-]")
_KEYS = ("hf", "sk", "pk", "rk", "ghp", "gho", "ghs", "pat", "nvapi", "xoxa", "xoxb", "xoxp")
_PREFIXES = tuple(f"{key}{dash}" for key in _KEYS for dash in "-_")
_SHAPES: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (
        ("bearer", "basic"),
        re.compile(r"\b(bearer|basic)\s+(?!\*)[A-Za-z0-9._~+/=-]{4,}", re.IGNORECASE),
        rf"\1 {MASK}",
    ),
    (
        _PREFIXES,
        re.compile(r"\b(?:hf|sk|pk|rk|ghp|gho|ghs|glpat|nvapi|xox[abp]|github_pat)[-_][A-Za-z0-9_-]{8,}"),
        MASK,
    ),
    (("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"), MASK),
    (("eyj",), re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), MASK),
    (("@",), re.compile(r"://[^/\s@'\"<>]+@"), f"://{MASK}@"),
)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    return _SECRET_NAME.match(name.lstrip("-")) is not None


class Masker:
    """Masks by name and by shape, and besides every value it was told is a secret (the key in use, for one)."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = tuple(sorted((k for k in known if len(k) >= 4), key=len, reverse=True))

    def text(self, text: str) -> str:
        for secret in self._known:
            text = text.replace(secret, MASK)
        lowered = text.lower()
        for hints, pattern, replacement in _SHAPES:
            if any(hint in lowered for hint in hints):
                text = pattern.sub(replacement, text)
        if _MAY_ASSIGN.search(lowered):
            text = _ASSIGNED.sub(_masked, text)
        if "--" in text and _MAY_FLAG.search(lowered):
            text = _FLAG.sub(_masked, text)
        return text

    def value(self, name: str, value: str) -> str:
        """The value of a named setting: hidden whole where the name guards a secret."""
        if is_secret_name(name) and _HARMLESS.match(value) is None:
            return MASK
        return self.text(value)

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        """A command line: the value of `--api-key K`, of `--api-key=K`, and whatever looks like a secret elsewhere."""
        masked: list[str] = []
        guarded = ""
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name.startswith("-"):
                masked.append(f"{name}={self.value(name, value)}")
            elif guarded and not word.startswith("--"):
                masked.append(self.value(guarded, word))
            else:
                masked.append(self.text(word))
            guarded = word if word.startswith("-") and is_secret_name(word) else ""
        return tuple(masked)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {name: self.value(name, value) for name, value in variables.items()}

    def document(self, data: Any, name: str = "") -> Any:
        """A JSON document, its strings masked by the name they stand under and by their shape."""
        if isinstance(data, dict):
            return {self.text(str(key)): self.document(value, str(key)) for key, value in data.items()}
        if isinstance(data, list):
            if data and all(isinstance(item, str) for item in data):
                return [self.value(name, word) for word in self.words(data)]
            return [self.document(item, name) for item in data]
        return self.value(name, data) if isinstance(data, str) else data


def _masked(match: re.Match[str]) -> str:
    groups = match.groupdict()
    inside, bare = groups.get("inside"), groups.get("bare")
    if _HARMLESS.match(inside if inside is not None else bare or ""):
        return match[0]
    quote = groups.get("quote") or ""
    return f"{match['head']}{quote}{MASK}{quote}"
