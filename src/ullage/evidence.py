"""Evidence: what was read, of whom, where and when. Secrets are masked before one of these is made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple


class Origin(NamedTuple):
    """Whose evidence it is. Items with equal origin belong to one server; others are joined by what they say."""

    target: str  # the URL, file or "--flags" that was named
    stream: str = ""  # a container, unit or process tag inside the target
    host: str = ""
    pid: int | None = None


class LogLine(NamedTuple):
    """One record of a log, without the prefixes of journald, containers and terminals."""

    number: int  # line number where known, else byte offset (see `Log.numbered`)
    text: str
    time: str = ""  # as the collector printed it, if it printed one


class Log(NamedTuple):
    """The part of a log that was kept: around its last start, its end, and earlier starts within reach."""

    lines: tuple[LogLine, ...]
    numbered: bool = True  # False: `LogLine.number` is a byte offset, for a file too large to count lines in
    gaps: tuple[str, ...] = ()  # what was passed over, in words


class Document(NamedTuple):
    """A JSON document."""

    data: Any


class Sample(NamedTuple):
    """One Prometheus sample; NaN and infinities stay as they were sent."""

    name: str
    labels: Mapping[str, str]
    value: float


class Samples(NamedTuple):
    """A metrics page."""

    samples: tuple[Sample, ...]
    problems: tuple[str, ...] = ()  # lines that are no metrics, duplicated series


class Argv(NamedTuple):
    """A command line, word by word, and the environment that was stated with it."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = MappingProxyType({})


class Failure(NamedTuple):
    """What could not be read: a status word, one line of reason, one line of what to do."""

    status: str  # "timeout", "refused", "401", "404", "not json", ...
    reason: str
    advice: str = ""


Content = Log | Document | Samples | Argv | Failure


class Evidence(NamedTuple):
    """One item. `topic` says which endpoint it answers ("server_info"), or is "" where only the content can tell."""

    origin: Origin
    place: str  # the full URL or path
    topic: str
    read_at: datetime
    content: Content
    remark: str = ""  # how it was read, where that bears on whether it can be believed
    again: bool = False  # asked once more, to see whether the same server answers

    @property
    def observed_at(self) -> str | None:
        """When the server said it. What a file holds was captured at a time that it does not tell."""
        live = self.origin.target.startswith("http")
        return self.read_at.isoformat(timespec="seconds") if live else None

    @property
    def failed(self) -> bool:
        return isinstance(self.content, Failure)
