"""A captured file or standard input: a JSON document, metrics, a command line, what nvidia-smi wrote, or a log; only it
can tell which.
"""

from __future__ import annotations

import re
import sys
from datetime import datetime, timezone
from typing import Any, BinaryIO

from ..evidence import Argv, Content, Document, Evidence, Failure, Gpus, Log, Origin
from ..masking import Masker
from . import body, json_lines, json_text, metrics_text, shell
from .file_kinds import unopened, unreadable
from .handles import TooMuchError, readable
from .log_choice import together
from .log_file import LogScan, read_log
from .log_starts import last_start
from .prefixes import strip

_HEAD = 65536
_LARGEST_DOCUMENT = 32 * 2**20
_LARGEST_COMMAND = 65536
_JSON_LIKE = re.compile(r"""\s*(?:\{|[\[(]\s*[\[({"'])""")
_PART_OF_JSON = re.compile(r"""\s*(?:[\[\]{}"',]|$)""")
_NOT_BLANK = re.compile(r"\S")
_NEXT_DOCUMENT = re.compile(r"^[{\[]", re.MULTILINE)
_MOST_ANSWERS = 64
_TIMED = re.compile(
    r"\W{0,2}\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d\b|\d+\.\d\d\.\d{3}\.\d{3} [A-Z] "
    r"|(?:\(\w+ pid=\d+\) )?(?:INFO|WARNING|ERROR|DEBUG)\b"
)
_OF_GPUS = re.compile(
    r"\A\s*(?:NVIDIA-SMI has failed|No devices were found|Failed to initialize NVML)"
    r"|<nvidia_smi_log|\| NVIDIA-SMI |\| Processes: |NVSMI LOG"
    r"|^[^\n]*\b(?:memory\.(?:total|used|free)|used_gpu_memory|used_memory)\b"
    r"|^\d+, [^\n]*, \d+ MiB"
)
_LINE_OF_GPUS = re.compile(r"\s*[<|+]|.*, *\d+(?: MiB)?$")
# What llama.cpp prints has no time in builds before 2026; in a terminal's text it stands under its command line.
_SAID = re.compile(rb"^(?:(?:llama_\w+|llm_load_\w+|print_info|load_tensors): |(?:srv|slot) +\w+: )", re.MULTILINE)


def read_file(path: str, scan: LogScan, masker: Masker, commands: re.Pattern[str]) -> list[Evidence]:
    """`path` "-" is standard input. `commands` finds the programs whose command lines are of interest."""
    reader = _Reader(path, scan, masker, commands)
    if "\0" in path:
        return [reader.evidence(Failure("missing", "no such file"))]
    try:
        if path == "-":
            return reader.read(sys.stdin.buffer)
        with open(path, "rb") as handle:
            return reader.read(handle)
    except OSError as error:
        return [reader.evidence(unopened(error))]
    except TooMuchError as error:
        return [reader.evidence(Failure("too large", str(error), "unpack it, and name the part that matters"))]


def argv_of(text: str, masker: Masker) -> Evidence:
    """The words of `--flags "..."`. Raises UsageError where the quotes do not pair up."""
    content = shell.flags(text).masked(masker)
    return Evidence(Origin("--flags"), "--flags", "", datetime.now(timezone.utc), content)


class _Reader:
    def __init__(self, path: str, scan: LogScan, masker: Masker, commands: re.Pattern[str]) -> None:
        self.scan, self.masker, self.commands = scan, masker, commands
        self.name = "standard input" if path == "-" else masker.text(path)
        self.read_at = datetime.now(timezone.utc)

    def evidence(self, content: Content, stream: str = "", pid: int | None = None) -> Evidence:
        return Evidence(Origin(self.name, stream, pid=pid), self.name, "", self.read_at, content)

    def read(self, opened: BinaryIO) -> list[Evidence]:
        with readable(opened) as handle:
            size = handle.seek(0, 2)
            handle.seek(0)
            head = handle.read(_HEAD)
            handle.seek(max(0, size - _HEAD))
            failure = unreadable(head, handle.read(_HEAD))
            if failure:
                return [self.evidence(failure)]
            if gpus := self._gpus(handle, head, size):
                return gpus
            short = self._short(handle, head, size)
            if short and not (isinstance(short[0].content, Argv) and _SAID.search(head)):
                return short
            return [*(short if len(short) == 1 else ()), *self._log(handle)]

    def _log(self, handle: BinaryIO) -> list[Evidence]:
        return read_log(handle, self.name, self.scan, self.masker, self.read_at)

    def _gpus(self, handle: BinaryIO, head: bytes, size: int) -> list[Evidence]:
        """What nvidia-smi wrote (of many GPUs it is longer than a head); with the log of the server that a job started
        after it.
        """
        from .gpu import before_start, of_text

        if size > _LARGEST_DOCUMENT or not _OF_GPUS.search(head.decode("utf-8", errors="replace")):
            return []
        handle.seek(0)
        text = handle.read()
        content = of_text(text.decode("utf-8", errors="replace"), self.masker)
        if content is None:
            return []
        logs = [item for item in self._log(handle) if _holds_more_than_gpus(item.content)]
        if isinstance(content, Gpus) and logs and self._begin(handle, logs) > _last_gpus(text):
            content = before_start(content)
        return [self.evidence(content), *logs]

    def _begin(self, handle: BinaryIO, logs: list[Evidence]) -> int:
        """Where the last start begins, or the first line of a log without one."""
        size = handle.seek(0, 2)
        start = last_start(handle, size, together(self.scan.kinds).starts)
        if start is not None:
            return start
        first = min(line.number for item in logs if isinstance(item.content, Log) for line in item.content.lines)
        handle.seek(0)
        return sum(len(handle.readline()) for _ in range(first - 1))

    def _short(self, handle: BinaryIO, head: bytes, size: int) -> list[Evidence]:
        """Everything but a log; [] for a log."""
        text = body.without_headers(head.decode("utf-8", errors="replace"))
        if body.looks_like_html(text):
            return [self.evidence(Failure("html", "a web page, not a log, JSON or metrics"))]
        if size > _LARGEST_DOCUMENT:
            return []
        if size > _HEAD and (text.lstrip()[:1] in "{[(" or metrics_text.looks_like_metrics(text)):
            handle.seek(0)
            text = body.without_headers(handle.read().decode("utf-8", errors="replace"))
        return self._json(text) or self._metrics(text) or self._commands(text, size)

    def _json(self, text: str) -> list[Evidence]:
        if text.lstrip()[:1] not in ("{", "[", "("):
            return []
        try:
            return self._document(json_text.load(text))
        except ValueError:
            if not _JSON_LIKE.match(text):
                return []
            content = body.document(text, self.masker)
        if isinstance(content, Document) or not (_is_log(text) or self._speaks(text)):
            return self._answers(text) or [self.evidence(content)]
        return []

    def _answers(self, text: str) -> list[Evidence]:
        """Those of several endpoints, saved one after the other. [] where anything else stands among them."""
        items: list[Evidence] = []
        place = 0
        while begun := _NOT_BLANK.search(text, place):
            place = begun.start()
            if len(items) > _MOST_ANSWERS:
                return []
            if text[place] in "{[":
                try:
                    data, place = json_text.first(text, place)
                except ValueError:
                    return []
                items.append(self.evidence(Document(self.masker.document(data))))
                continue
            found = _NEXT_DOCUMENT.search(text, place)
            page, place = text[place : found.start() if found else len(text)], found.start() if found else len(text)
            if not metrics_text.looks_like_metrics(page):
                return []
            items.append(self.evidence(metrics_text.parse(page, self.masker)))
        return items

    def _speaks(self, text: str) -> bool:
        """Is a line that is no JSON one of a log that is looked for?"""
        lines = [line.encode() for line in text[:_HEAD].splitlines() if not _PART_OF_JSON.match(line)]
        return any(kind.keep.search(line) for line in lines for kind in self.scan.kinds)

    def _document(self, data: Any) -> list[Evidence]:
        if json_lines.is_certain(data):
            return []
        command = shell.of_json(data)
        return [self.evidence(command.masked(self.masker) if command else Document(self.masker.document(data)))]

    def _metrics(self, text: str) -> list[Evidence]:
        if not metrics_text.looks_like_metrics(text):
            return []
        several = self._answers(text) if _NEXT_DOCUMENT.search(text) else []
        return several or [self.evidence(metrics_text.parse(text, self.masker))]

    def _commands(self, text: str, size: int) -> list[Evidence]:
        if size > _LARGEST_COMMAND:
            return []
        if "\0" in text:
            words = text.rstrip("\0").split("\0")
            found = [shell.of_words(words)] if self.commands.search(" ".join(words)) else []
        else:
            found = [] if _FENCE in text or _has_log_line(text) else shell.commands_in(text, self.commands)
        several = len(found) > 1
        return [
            self.evidence(command.masked(self.masker), f"command {number}" if several else "", command.pid)
            for number, command in enumerate(found, 1)
        ]


_FENCE = "```"  # a document quotes commands; nobody runs them


def _holds_more_than_gpus(content: Content) -> bool:
    """The names of processes there can look like an engine's lines."""
    return isinstance(content, Log) and any(not _LINE_OF_GPUS.match(line.text) for line in content.lines)


def _last_gpus(text: bytes) -> int:
    """Where the last thing that nvidia-smi wrote begins."""
    found = _OF_GPUS.finditer(text.decode("latin-1"))  # where a byte is a letter
    return max((match.start() for match in found), default=-1)


def _is_log(text: str) -> bool:
    """Of a text that starts like JSON and is none: JSON records line by line, or lines with a time."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return json_lines.record_of(first) is not None or _has_log_line(text[:_HEAD])


def _has_log_line(text: str) -> bool:
    """A line with a time, or a collector's name before every line (in a script, one word can stand before a pipe)."""
    found = [strip(line) for line in text.splitlines() if line.strip()]
    return any(line.time or _TIMED.match(line.rest) for line in found) or all(line.stream for line in found)
