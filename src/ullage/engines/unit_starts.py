"""With which lines of systemd a start of the server begins.

"Started" comes at once, or where systemd waits (Type=notify, ExecStartPost=) only after all that the server prints of
its start. So it begins a start only where its unit has ended since the server's first line, or had one already.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from .events import Event
from .unit_lines import Told, Word, told

Lines = Sequence[tuple[Event, Told | None]]

_FRACTION = re.compile(r"[.,](\d+)")
_AT_ONCE_S = 0.1
_COMES = (Word.STARTING, Word.STARTED)
_ENGINES = re.compile(r"(?!.*router).*(?:sglang|vllm|llama)", re.IGNORECASE)


def by_starts(events: Sequence[Event], unit: Enum, begins: Collection[Enum]) -> Iterator[tuple[Event, bool]]:
    """The events without what systemd says of other units; with each, whether systemd begins a start with it.

    `unit`: the step of its lines. `begins`: steps with which a start begins by itself.
    """
    lines = _in_order([(event, told(event.line.text) if event.step is unit else None) for event in events], begins)
    names = _names(lines, unit, begins)
    course = _Course()
    for event, said in lines:
        name = names.get(said.unit) if said else None
        if said and name is not None and not course.holds(name, said.word, event):
            yield event, course.begins(name, said.word)
        elif said is None:
            yield event, False
            if event.step is not unit:
                course.goes_on(event.step in begins)
            if event.step in begins:
                yield from ((other, False) for other in course.held())


def _in_order(lines: Lines, begins: Collection[Enum]) -> Lines:
    """systemd says "Starting" a moment after the process was made, and journald can note the lines of a server before
    what systemd said earlier. So of a unit that was down, what is said in the second in which a start begins stands
    before that, up to where the unit comes; where fractions of it are told, what is said up to 0.1 s later.
    """
    placed: list[tuple[Event, Told | None]] = []
    began, place, over = "", 0, False
    up: set[str] = set()
    came: set[str] = set()  # were up when the start began, or have come since
    for event, said in lines:
        time = event.line.time
        if said is None:
            if event.step in begins and (over or _second(time) != _second(began)):
                began, place, came, over = time, len(placed), set(up), False
            placed.append((event, said))
            continue
        at_once = time != "" and _second(time) == _second(began) and _fraction(time) - _fraction(began) <= _AT_ONCE_S
        early = at_once and said.unit not in came
        placed.insert(place if early else len(placed), (event, said))
        place += early
        if said.word in _COMES:
            up.add(said.unit)
            came.add(said.unit)
        else:
            over = over or said.unit in up
            up = set() if said.word is Word.BOOT else up - {said.unit}
    return placed


def _second(time: str) -> str:
    """Of a time as a collector prints it."""
    return _FRACTION.sub("", time)


def _fraction(time: str) -> float:
    found = _FRACTION.search(time)
    return float(f"0.{found[1]}") if found else 0.0


class _Course:
    """The last word on each unit, and whether the server has printed a line since its start began.

    What is said of a unit that comes while another's server runs is held: its own server's lines follow.
    """

    def __init__(self) -> None:
        self._last: dict[str, Word] = {}
        self._runs = False
        self._held: dict[str, list[tuple[Word, Event]]] = {}

    def goes_on(self, begins: bool) -> None:
        """By a line of the server. What was said of an end before the first line is said of the start before."""
        if begins or not self._runs:
            self._last = {unit: word for unit, word in self._last.items() if word is not Word.ENDED}
        self._runs = True

    def holds(self, unit: str, word: Word, event: Event) -> bool:
        comes = self._runs and word in _COMES and bool(self._last) and unit not in self._last
        if comes or unit in self._held:
            self._held.setdefault(unit, []).append((word, event))
        return unit in self._held

    def held(self) -> list[Event]:
        """They are no longer."""
        events = [event for told in self._held.values() for _, event in told]
        self._last |= {unit: told[-1][0] for unit, told in self._held.items()}
        self._held = {}
        return events

    def begins(self, unit: str, word: Word) -> bool:
        again = word is not Word.ENDED and word <= self._last.get(unit, 0)
        anew = self._runs and (again or word is Word.BOOT)
        self._runs = self._runs and not anew
        self._last[unit] = word
        if word is Word.BOOT:
            self._last, self._held = {}, {}
        return anew


def _names(lines: Lines, unit: Enum, begins: Collection[Enum]) -> Mapping[str, str]:
    """The units that are servers': all, as one, where they may be one by its name and by its description. Of several
    those in whose lives most starts begin, by their names those of engines; but none that came while a server went on.
    """
    every = {said.unit: said.is_named for _, said in lines if said}
    if sum(every.values()) <= 1 and sum(name != "" and not named for name, named in every.items()) <= 1:
        return dict.fromkeys(every, "")
    lives = list(_lives(lines, unit, begins))
    others = {life.unit for life in lives if life.printed and not life.begun}
    began = Counter(life.unit for life in lives if life.begun and life.unit not in others)
    engines = {said.unit for _, said in lines if said and _ENGINES.match(said.said)} - others
    most = {name for name, count in began.items() if count == max(began.values())}
    servers = (began.keys() & engines) or (most | engines)
    return {name: name for name in ("", *servers)}


class _Life(NamedTuple):
    """From where a unit comes up to where it ends: lines of the server, and those of them that begin a start."""

    unit: str
    word: Word
    printed: int
    begun: int


def _lives(lines: Lines, unit: Enum, begins: Collection[Enum]) -> Iterator[_Life]:
    printed = begun = 0
    since: dict[str, _Life] = {}
    for event, said in lines:
        if said is None:
            printed += event.step is not unit
            begun += event.step in begins
            continue
        for name in [*since] if said.word is Word.BOOT else [said.unit]:
            life = since.pop(name, None)
            if life and life.word < said.word <= Word.STARTED:
                since[name] = life._replace(word=said.word)
                continue
            if life:
                yield life._replace(printed=printed - life.printed, begun=begun - life.begun)
            if said.word in _COMES:
                since[name] = _Life(name, said.word, printed, begun)
    for life in since.values():
        yield life._replace(printed=printed - life.printed, begun=begun - life.begun)
