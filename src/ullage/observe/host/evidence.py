"""A server on this host as evidence: masked, so that it may be shown."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Sequence
from datetime import datetime, timezone

from ...evidence import EMBEDDED, LEFTOVER, Evidence, Failure, Member, Origin, Process
from ...masking import Masker
from .net_tables import network_of, own_addresses
from .proc import started_at
from .reach import shown
from .running import Found, Output, Proc, Running, Unreadable

_TITLE = 80  # letters of a process' title that are shown


def process_of(running: Running, remarks: Sequence[str], masker: Masker) -> Process:
    """Without its unit and its container, which are not read from the process table."""
    main = running.main
    return Process(
        main.pid,
        running.program,
        started_at(main.start_ticks, datetime.now(timezone.utc)),
        main.user,
        tuple(Member(m.pid, _title(m.words, m.title, masker)) for m in running.members),
        tuple(map(shown, running.listens)),
        tuple(p.pid for p in (main, *running.members) if p.stopped),
        any("not readable" in remark for remark in running.remarks),
        _hosts(),
        masker.text(main.cwd),
        network=f"network namespace {network_of('/proc', main.pid)}" if running.foreign else "",
        output=_output(running.output, masker),
        remarks=tuple(map(masker.text, (*running.remarks, *remarks))),
    )


def not_readable(found: Found, told: Collection[int]) -> list[Evidence]:
    """One line where one command would fix it all. `told`: pids whose flags are known from their units."""
    lines = [line for line in found.unreadable if not (_is_of_flags(line) and _pid_in(line.what) in told)]
    alike: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        alike.setdefault((line.reason, line.fix), []).append(line.what)
    now = datetime.now(timezone.utc)
    return [
        Evidence(Origin(place), place, "", now, Failure("no rights", *why))
        for why, what in alike.items()
        for place in [_in_one(what)]
    ]


def _in_one(what: Sequence[str]) -> str:
    """`flags of pid 1 (vLLM), pid 2 (vLLM); output of pid 3 (SGLang)`: what was not read once, and all whose it is."""
    whose: dict[str, list[str]] = {}
    for text in what:
        kind, of, process = text.partition(" of pid ")
        whose.setdefault(kind, []).extend([f"pid {process}"] if of else [])
    return "; ".join(f"{kind} of {', '.join(of)}" if of else kind for kind, of in whose.items())


def of_no_server(found: Found, masker: Masker) -> list[Evidence]:
    """Processes whose server is gone, and engines inside other programs."""
    gone = [_family(f.program, f.processes[0], f.processes[1:], LEFTOVER, masker) for f in found.leftovers]
    return gone + [_family(f.program, f.parent, f.processes, EMBEDDED, masker) for f in found.embedded]


def _family(program: str, first: Proc, others: Sequence[Proc], topic: str, masker: Masker) -> Evidence:
    now = datetime.now(timezone.utc)
    members = tuple(Member(p.pid, _title(p.words, p.title, masker)) for p in others)
    title = _title(first.words, first.title, masker)
    process = Process(first.pid, program, started_at(first.start_ticks, now), first.user, members, title=title)
    return Evidence(Origin(f"pid {first.pid}"), f"pid {first.pid}", topic, now, process)


def _is_of_flags(line: Unreadable) -> bool:
    return line.what.startswith("the flags")


def _pid_in(text: str) -> int:
    match = re.search(r"\bpid (\d+)", text)
    return int(match[1]) if match else 0


def _title(words: Sequence[str], title: str, masker: Masker) -> str:
    text = " ".join(masker.words(words)) or masker.text(title)
    return text if len(text) <= _TITLE else f"{text[: _TITLE - 3]}..."


def _output(output: Output, masker: Masker) -> str:
    words = {"journal": "the journal", "null": "/dev/null", "unknown": masker.text(output.path)}
    told = words.get(output.kind, masker.text(output.path) or f"a {output.kind}")
    return f"{told} ({output.remark})" if told and output.remark else told or output.remark


def _hosts() -> tuple[str, ...]:
    """Under which names a server that listens on all addresses is reached."""
    names = ("localhost", "127.0.0.1", "::1", socket.gethostname().lower())
    return tuple(dict.fromkeys((*names, *own_addresses(_text("/proc/net/fib_trie")))))


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""
