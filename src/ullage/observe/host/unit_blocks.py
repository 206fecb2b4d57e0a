"""The blocks of a shell script, line by line: what stands in one is done perhaps, or again, or never."""

from __future__ import annotations

import os
import re

_OPENS = re.compile(
    r"(?:^|[;&|(]|\b(?:then|do|else))\s*(?:if|for|while|until|case|select)\b|(?:\bfunction\s+\S+|\w\s*\(\))\s*\{|^\s*\{\s*$"
)
_CLOSES = re.compile(r"(?:^|[;&|])\s*(?:fi|done|esac)\b|^\s*\}")
_OTHERWISE = re.compile(r"(?:^|;)\s*(?:else|elif)\b")
_IF_THERE = re.compile(r"""\s*if\s+\[\[?\s+-[efrs]\s+["']?(/[^\s"'$]+)["']?\s+\]\]?\s*(?:;\s*then)?\s*""")


class Blocks:
    def __init__(self) -> None:
        self._open: list[bool] = []  # of each open block: may the shell pass it by?

    @property
    def inside(self) -> bool:
        return any(self._open)

    def after(self, text: str) -> None:
        for line in text.splitlines():
            self.perhaps(line)

    def perhaps(self, line: str) -> bool:
        """Is it not known whether the shell comes by what stands in this line? To be asked for each, in their order."""
        before = self.inside
        if there := _IF_THERE.fullmatch(line):
            self._open.append(not os.path.exists(there[1]))
        else:
            self._open += [True] * len(_OPENS.findall(line))
        if self._open and _OTHERWISE.search(line):
            self._open[-1] = True
        inside = self.inside
        for _ in _CLOSES.findall(line):
            self._open[-1:] = []
        return before or inside
