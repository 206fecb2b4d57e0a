"""A server on this host, as its processes are found: raw, so none of it is shown before it is masked."""

from __future__ import annotations

from typing import NamedTuple


class Proc(NamedTuple):
    """One process."""

    pid: int
    ppid: int
    start_ticks: int  # clock ticks after boot (/proc/PID/stat, field 22)
    uid: int
    user: str  # the number again where no user has it
    words: tuple[str, ...]  # its command line, raw: it may hold secrets
    title: str  # the title that it set ("sglang::scheduler_TP0"), else the name of its program
    pgid: int
    session: int
    cgroup: str  # its path in the v2 hierarchy, else in that of systemd: "/system.slice/sglang.service"
    net_ns: int | None  # inode of its network namespace; None where it is not readable
    cwd: str  # "" where it is not readable
    environment: dict[str, str] | None  # the variables that bear on a server, raw; None where it is not readable
    stopped: bool = False  # by SIGSTOP, Ctrl-Z or a debugger: it does nothing until it is let go on


class Listen(NamedTuple):
    """An address that a server waits for connections on, as seen from the server."""

    host: str  # "127.0.0.1", "::", "0.0.0.0"; "" of a Unix socket
    port: int  # 0 of a Unix socket
    pid: int | None  # None where the owner is not readable
    path: str = ""  # of a Unix socket


class Output(NamedTuple):
    """Where the standard output of a server goes."""

    kind: str  # "journal", "file", "pipe", "terminal", "null", "unknown"
    path: str = ""  # where it can be read, or what is known of it
    remark: str = ""  # "the file was deleted", "through tee"


class Running(NamedTuple):
    """A server that runs on this host."""

    program: str  # "SGLang", "vLLM", "llama.cpp", "sglang-router"
    main: Proc
    members: tuple[Proc, ...] = ()  # the others of the same server
    listens: tuple[Listen, ...] = ()
    urls: tuple[str, ...] = ()  # how it is reached from here, best first; none: a remark says why
    output: Output = Output("unknown")
    remarks: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # its command line in effect, raw: with the settings of its --config file
    errors: Output | None = None  # where its standard error goes, where that is elsewhere
    foreign: bool = False  # its network is not this host's: its addresses are those of a container, or the like

    @property
    def owner(self) -> str:
        """Names the server for as long as it runs: a pid alone can be given out again."""
        return f"{self.main.pid}@{self.main.start_ticks}"


class Unreadable(NamedTuple):
    """What could not be read, and the line that would fix it."""

    what: str  # "the environment of pid 812 (vllm serve)"
    reason: str  # "it belongs to another user (root)"
    fix: str  # "sudo /opt/ullage/bin/ullage"


class Leftover(NamedTuple):
    """Processes of a server that is gone: they may hold its GPU memory and its ports."""

    program: str
    processes: tuple[Proc, ...]


class Embedded(NamedTuple):
    """An engine that another program runs inside itself: it answers at no URL, and holds GPU memory all the same."""

    program: str
    parent: Proc
    processes: tuple[Proc, ...]


class Found(NamedTuple):
    """What runs on this host."""

    servers: tuple[Running, ...]
    leftovers: tuple[Leftover, ...]
    unreadable: tuple[Unreadable, ...]
    processes_seen: int
    embedded: tuple[Embedded, ...] = ()
