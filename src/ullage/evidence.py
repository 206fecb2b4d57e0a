"""Evidence: what was read, of whom, where and when. Secrets are masked before one of these is made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

# Topics of evidence that is not an endpoint's answer.
CONFIGURED = "configured"  # the command line that stands in a unit's files
INTENDED = "intended"  # the flags that an ullage.toml says a target is to run with
LEFTOVER = "leftover"  # processes whose server is gone
EMBEDDED = "embedded"  # an engine inside a program that is no server
DOWN = "down"  # a unit whose server does not run
MAXIMA = "maxima"  # the highest values of a window, not those of a moment


class Origin(NamedTuple):
    """Whose evidence it is. Items of one owner, or with equal origin, belong to one server; items of two owners never
    do; others are joined by what they say.
    """

    target: str  # the URL, file or "--flags" that was named; "pid 4242" of a process that answers at no URL
    stream: str = ""  # a container, unit or process tag inside the target
    host: str = ""
    pid: int | None = None
    owner: str = ""  # the process on this host that it was read of: its pid and when it began ("4242@189301")


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
    collected: bool = False  # by a journal or a container's driver, where a line has a time and no number


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


class Member(NamedTuple):
    """A process that belongs to a server."""

    pid: int
    title: str  # its command line or the title it gave itself, masked and shortened


class Process(NamedTuple):
    """A server on this host as the process table has it: its first process, and those that belong to it."""

    pid: int
    program: str  # "SGLang", "vLLM", "llama.cpp", "sglang-router"
    started_at: datetime | None  # reckoned by the boot clock, so that a clock that was set does not move it
    user: str
    members: tuple[Member, ...] = ()
    listens: tuple[str, ...] = ()  # "0.0.0.0:30000", "[::1]:30000", "unix:/run/vllm.sock", as seen from the server
    stopped: tuple[int, ...] = ()  # processes of it that were stopped (SIGSTOP, Ctrl-Z, a debugger)
    sockets_hidden: bool = False  # True where it could not be read what it listens on
    hosts: tuple[str, ...] = ()  # names and addresses of this host, under which one that listens on all is reached
    cwd: str = ""
    unit: str = ""  # the systemd unit that it is in, "sglang.service"
    manager: str = ""  # of that unit: "system", "user op"
    container: str = ""  # "docker 3f2a9c...", "podman vllm"
    network: str = ""  # why its addresses are not this host's: "a network namespace of its own"
    title: str = ""  # the beginning of its command line, of a program that is no server
    output: str = ""  # where its standard output goes: "the journal", "/var/log/sglang.log", "a terminal (/dev/pts/3)"
    remarks: tuple[str, ...] = ()


class ConfigFile(NamedTuple):
    """A file that decides how a unit starts: the unit itself, a drop-in, an environment file, a script."""

    path: str
    changed_at: datetime | None


class Unit(NamedTuple):
    """A systemd unit as its manager has it loaded. What its files say now is an Argv item with topic "configured"."""

    name: str
    manager: str  # "system", "user op"
    state: str  # "active (running)", "activating (auto-restart)"
    invocation: str = ""
    since: datetime | None = None  # when it entered that state, as the manager wrote it down
    restarts: int | None = None
    result: str = ""  # "success", "exit-code", "oom-kill", "timeout"
    reload_pending: bool = False  # its files changed, and the manager has not read them
    files: tuple[ConfigFile, ...] = ()
    clock_moved_s: float | None = None  # how far the wall clock was set since then; None where that is not known
    gone: bool = False  # its file is no more


class GpuProcess(NamedTuple):
    pid: int
    name: str
    used_bytes: int | None  # None where the driver does not tell (containers, WSL, MIG)


class Gpu(NamedTuple):
    """One GPU. `reserved_bytes`: what the driver keeps (told apart since R510); None where it is not told."""

    number: int  # as the driver counts them: nvidia-smi's and NVML's index
    name: str
    uuid: str
    total_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None
    reserved_bytes: int | None = None
    processes: tuple[GpuProcess, ...] | None = None  # None where they were not asked for, or are not told
    mig: str = ""  # of a slice: its instance and profile


class Gpus(NamedTuple):
    """The GPUs of a host. `step_bytes`: what the figures are rounded to (nvidia-smi prints MiB; NVML bytes)."""

    gpus: tuple[Gpu, ...]
    driver: str = ""
    step_bytes: int = 1
    taken_at: str = ""  # as a captured file says
    remark: str = ""  # what of it is of another time, in words


class Failure(NamedTuple):
    """What could not be read: a status word, one line of reason, one line of what to do."""

    status: str  # "timeout", "refused", "401", "404", "not json", ...
    reason: str
    advice: str = ""


Content = Log | Document | Samples | Argv | Process | Unit | Gpus | Failure


class Evidence(NamedTuple):
    """One item. `topic` says which endpoint it answers ("server_info"), or is "" where only the content can tell."""

    origin: Origin
    place: str  # the full URL or path
    topic: str
    read_at: datetime
    content: Content
    remark: str = ""  # how it was read, where that bears on whether it can be believed
    again: bool = False  # asked once more, to see whether the same server answers
    dated: bool = False  # it says itself when it was taken, and that is `read_at`

    @property
    def observed_at(self) -> str | None:
        """When the server said it. What a file holds was captured at a time that it does not tell."""
        live = self.origin.target.startswith("http") or isinstance(self.content, Process | Unit)
        return self.read_at.isoformat(timespec="seconds") if live or self.dated else None

    @property
    def failed(self) -> bool:
        return isinstance(self.content, Failure)
