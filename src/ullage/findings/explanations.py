"""One text for everything that a page names: findings apart, figures, labels, and how a figure is known."""

from __future__ import annotations

from functools import cache

from .glossary import GLOSSARY
from .labels import KINDS, PREFIXES, SETTINGS, SUFFIXES, WORDS


def names() -> dict[str, str]:
    """Everything that has a text of its own, by its name as it is printed."""
    kinds = {kind.value: f"{text[0].upper()}{text[1:]}." for kind, text in KINDS.items()}
    rows = {label: _of_row(figures) for label, figures in SETTINGS.items() if label not in GLOSSARY}
    return {**rows, **WORDS, **kinds, **GLOSSARY}


def explanation(name: str) -> str | None:
    """The text of a name, whatever its case; of a figure with a prefix, that of the quantity too."""
    bare = name.strip().lower()
    if text := _by_lower_case().get(bare):
        return text
    for prefix, text in PREFIXES.items():
        if bare.startswith(prefix):
            quantity = explanation(bare.removeprefix(prefix))
            return f"{text} {quantity}" if quantity else text if prefix.endswith(" ") else None
    for suffix, text in SUFFIXES.items():
        if bare.endswith(suffix):
            pool = explanation(bare.removesuffix(suffix))
            return f"{text} {pool}" if pool else None
    return None


@cache
def _by_lower_case() -> dict[str, str]:
    return {name.lower(): text for name, text in names().items()}


def _of_row(figures: tuple[str, ...]) -> str:
    """What the figures of a row mean, each under its name."""
    return "\n\n".join(f"{figure}: {GLOSSARY[figure]}" for figure in figures)
