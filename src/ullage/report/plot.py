"""The curve as a few lines of block characters: how high is how many requests, on two logarithmic scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

from .curve import Curve, Stretch
from .page import Part

ROWS = 10
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ADMITTED = "░"  # admitted, and more than can all finish
_STYLES = ("cyan", "yellow", "magenta", "green", "blue")
_FLOOR = 0.6  # requests at the foot of the plot, so that one request still stands out


def plot(curve: Curve, width: int) -> list[list[Part]]:
    """Lines of styled words, none wider than `width`: the plot, its two axes, and which pool binds where."""
    if curve.unknown or curve.is_flat:
        return []
    margin = len(f"{curve.most:,}") + 3
    prompts = _prompts(curve, width - margin)
    styles = style_of(curve.stretches)
    heights = [(_height(p.admits, curve.most), _height(p.safe, curve.most)) for p in map(curve.at, prompts)]
    labels = _requests(curve.most)
    lines = []
    for row in range(ROWS - 1, -1, -1):
        cells = [_cell(admits - row * 8, safe - row * 8) for admits, safe in heights]
        axis: Part = (f"{labels.get(row, ''):>{margin - 2}} {'┤' if row in labels else '│'}", "dim")
        coloured = _runs(cells, [styles[curve.at(prompt).binds] for prompt in prompts])
        lines.append([axis, *coloured])
    return [*lines, *_prompt_axis(curve, prompts, margin), *_legend(curve, styles)]


def style_of(stretches: Sequence[Stretch]) -> dict[str, str]:
    """A colour for each pool that binds somewhere."""
    names = dict.fromkeys(stretch.binds for stretch in stretches)
    return {name: _STYLES[i % len(_STYLES)] for i, name in enumerate(names)}


def _prompts(curve: Curve, columns: int) -> list[int]:
    """The prompt that each column stands for."""
    ratio = curve.last / curve.first
    return [round(curve.first * ratio ** (i / (columns - 1))) for i in range(columns)]


def _height(requests: int, most: int) -> int:
    """Eighths of a row that so many requests are high."""
    return round(8 * ROWS * log(max(requests, _FLOOR) / _FLOOR) / log(most / _FLOOR))


def _cell(admits: int, safe: int) -> str:
    """One character, by how many eighths of it, and of all below and above it, are filled."""
    if safe >= 8 or admits <= safe:
        return _EIGHTHS[min(8, max(0, safe))]
    return _ADMITTED if admits >= 4 else _EIGHTHS[max(0, safe)]


def _runs(cells: Sequence[str], styles: Sequence[str]) -> Iterator[Part]:
    """Neighbours of one style together, blank ends cut off."""
    start, end = 0, len("".join(cells).rstrip())
    for i in range(1, end + 1):
        if i == end or styles[i] != styles[start]:
            yield "".join(cells[start:i]), styles[start]
            start = i


def _requests(most: int) -> dict[int, str]:
    """Labels by row, from the foot up: the most, and powers of four where there is room."""
    found = {ROWS - 1: f"{most:,}"}
    requests = 1
    while requests < most:
        row = max(0, -(-_height(requests, most) // 8) - 1)
        if not found.keys() & {row - 1, row, row + 1}:
            found[row] = f"{requests:,}"
        requests *= 4
    return found


def _prompt_axis(curve: Curve, prompts: Sequence[int], margin: int) -> list[list[Part]]:
    """Ticks at both ends and where another pool takes over, then at powers of four where there is room."""
    ends, changes = (curve.last, curve.first), [stretch.first for stretch in curve.stretches[1:]]
    powers = [4**n for n in range(1, 16) if curve.first < 4**n < curve.last]
    ticks, words = list("─" * len(prompts)), [" "] * (len(prompts) + margin)
    for prompt in (*ends, *changes, *powers):
        at = next(i for i, other in enumerate(prompts) if other >= prompt)
        label = f"{prompt:,}"
        start = min(at + margin - len(label) // 2, len(words) - len(label))
        around = words[max(0, start - 2) : start + len(label) + 2]
        if all(letter == " " for letter in around):
            words[start : start + len(label)] = label
            ticks[at] = "┬"
    return [[(" " * (margin - 1) + "└" + "".join(ticks), "dim")], [("".join(words).rstrip(), "dim")]]


def _legend(curve: Curve, styles: dict[str, str]) -> list[list[Part]]:
    return [
        [("  █ ", styles[s.binds]), (f"{s.first:,} to {s.last:,} tokens: {s.binds}", "")] for s in curve.stretches
    ] + ([[(f"  {_ADMITTED} admitted, more than can all finish at full length", "dim")]] if _overbooked(curve) else [])


def _overbooked(curve: Curve) -> bool:
    return any(point.admits > point.safe for point in curve.points)
