"""What a line of systemd in the log of a server says of a unit."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

from .events import Value


class Word(IntEnum):
    """In the order in which they are said of one start."""

    RESTARTING = 1
    STARTING = 2
    STARTED = 3
    ENDED = 4
    BOOT = 5  # of the machine


class Told(NamedTuple):
    word: Word
    unit: str = ""  # its name, or its description where systemd says no more
    said: str = ""  # "sglang.service - SGLang server"
    restarts: str = ""  # as the unit's counter has it

    @property
    def is_named(self) -> bool:
        return _NAME.fullmatch(self.unit) is not None

    @property
    def values(self) -> dict[str, Value]:
        if self.word in (Word.STARTING, Word.STARTED):
            return {"unit": self.said}
        return {"restart_counter": int(self.restarts)} if self.restarts else {}


_ENDS = r"(?i:main process exited)|Deactivated successfully|Succeeded|Failed with result|systemd-oomd killed|Consumed "
# The group that matches has the name of the word. A line without a tag (`journalctl -o cat`) has to name a service.
_SAYS = re.compile(
    r"(?:systemd\[\d+\]: |(?=(?:Start|Stopp)(?:ed|ing) \S+\.service\b|\S+\.service: ))(?:"
    r"Starting (?P<STARTING>.+?)\.*|Started (?P<STARTED>.+?)\.*|(?:Stopping|Stopped) (?P<ENDED>.+?)\.*"
    r"|(?P<RESTARTING>\S+): Scheduled restart job.*?(?:counter is at (?P<restarts>\d+)\.)?"
    rf"|(?P<ENDED_>\S+): (?:{_ENDS}).*)"
    r"|-- (?P<BOOT>Boot|Reboot)\b.*"
)
_NAME = re.compile(r"\S+\.(?:service|scope)")
_OTHERS = re.compile(
    r"\S+\.(?:timer|socket|target|mount|automount|path|slice|swap|device)(?: - .*)?"  # that run nothing
    r"|session-\S+\.scope(?: - .*)?|Session \S+ of [Uu]ser \S+"
)


def told(text: str) -> Told | None:
    """None of a line that is not systemd's, or says nothing of the start or the end of what can be a server."""
    match = _SAYS.fullmatch(text)
    found = {name: words for name, words in match.groupdict().items() if words} if match else {}
    restarts = found.pop("restarts", "")
    for name, said in found.items():
        if name == "BOOT":
            return Told(Word.BOOT)
        if not _OTHERS.fullmatch(said):
            return Told(Word[name.rstrip("_")], said.partition(" - ")[0] if _NAME.match(said) else said, said, restarts)
    return None
