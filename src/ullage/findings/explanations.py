"""One text for everything that a page names: findings apart, figures, labels, and how a figure is known."""

from __future__ import annotations

from functools import cache

from .glossary import GLOSSARY
from .labels import KINDS, PARTS, PREFIXES, SETTINGS, SUFFIXES, WORDS


def names() -> dict[str, str]:
    """Everything that has a text of its own, by its name as it is printed."""
    kinds = {kind.value: f"{text[0].upper()}{text[1:]}." for kind, text in KINDS.items()}
    rows = {label: _of_row(figures) for label, figures in SETTINGS.items() if label not in GLOSSARY}
    return {**rows, **WORDS, **kinds, **GLOSSARY}


def explanation(name: str) -> str | None:
    """The text of a name, whatever its case; of one that is put together, what its parts mean."""
    bare = name.strip()
    return _own(bare) or _of_part(bare) or _with_prefix(bare) or _with_suffix(bare) or _in_bytes(bare)


def _own(name: str) -> str | None:
    return _by_lower_case().get(name.lower())


def _of_part(name: str) -> str | None:
    """`compute_mib CUDA0`, `graph_gib_decode`, `responses 503`."""
    figure, space, device = name.partition(" ")
    if space and figure.endswith("_mib"):
        return _here(explanation(figure), "device", device)
    for whole, kind in PARTS.items():
        if name.startswith((f"{whole}_", f"{whole} ")):
            return _here(_own(whole), kind, name[len(whole) + 1 :])
    return None


def _here(text: str | None, kind: str, part: str) -> str | None:
    return f"{text} Here of the {kind} {part}." if text else None


def _with_prefix(name: str) -> str | None:
    for prefix, text in PREFIXES.items():
        if name.lower().startswith(prefix):
            quantity = explanation(name[len(prefix) :])
            return f"{text} {quantity}" if quantity else text if prefix.endswith(" ") else None
    return None


def _with_suffix(name: str) -> str | None:
    for suffix, text in SUFFIXES.items():
        if name.lower().endswith(suffix):
            quantity = explanation(name[: -len(suffix)])
            return f"{text} {quantity}" if quantity else None
    return None


def _in_bytes(name: str) -> str | None:
    """A printed size is reckoned with under its name without the unit."""
    figure, space, device = name.partition(" ")
    text = _own(f"{figure}_gib") or _own(f"{figure}_mib")
    in_bytes = f"{text} In bytes, with the range that its rounding leaves." if text else None
    return _here(in_bytes, "device", device) if space else in_bytes


@cache
def _by_lower_case() -> dict[str, str]:
    return {name.lower(): text for name, text in names().items()}


def _of_row(figures: tuple[str, ...]) -> str:
    """What the figures of a row mean, each under its name."""
    return "\n\n".join(f"{figure}: {GLOSSARY[figure]}" for figure in figures)
