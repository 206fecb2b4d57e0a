from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ullage.evidence import Evidence, Log
from ullage.masking import Masker
from ullage.observe.log_choice import LogWords
from ullage.observe.log_file import LogScan, read_log

NOW = datetime(2026, 11, 29, tzinfo=timezone.utc)
STRONG, WEAK = b"args=Args(", b"Load begin"
KEEP = re.compile(rb"args=|Load|pool=|batch|Traceback|token is")
WORDS = LogWords((STRONG, WEAK), KEEP)
SCAN = LogScan((WORDS,))
NOISE = b'INFO: 127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK\n'


def small(**changes: int) -> LogScan:
    """The limits of a large file, for a file that is quickly made."""
    limits = {"whole_bytes": 1000, "start_bytes": 5000, "tail_bytes": 2000, "history_bytes": 50_000, **changes}
    return LogScan((WORDS,), **limits)


def read(data: bytes, scan: LogScan = SCAN) -> list[Evidence]:
    return read_log(io.BytesIO(data), "x.log", scan, Masker(), NOW)


def log(data: bytes, scan: LogScan = SCAN) -> Log:
    (found,) = read(data, scan)
    assert isinstance(found.content, Log)
    return found.content


def texts(data: bytes, scan: LogScan = SCAN) -> list[str]:
    return [line.text for line in log(data, scan).lines]


def test_only_wanted_lines_with_their_numbers() -> None:
    found = log(NOISE + b"args=Args(a=1)\n" + NOISE * 2 + b"pool=7")
    assert [(line.number, line.text) for line in found.lines] == [(2, "args=Args(a=1)"), (5, "pool=7")]
    assert found.numbered
    assert found.gaps == ()


def test_a_log_without_a_wanted_line_is_an_empty_log() -> None:
    (found,) = read(NOISE)
    assert (found.origin.target, found.place, found.topic, found.read_at) == ("x.log", "x.log", "", NOW)
    assert found.content == Log(())


def test_secrets_are_masked() -> None:
    assert texts(b"args=Args(api_key='hunter2-hunter2', n=1)\n") == ["args=Args(api_key='***', n=1)"]


@pytest.mark.parametrize("coding", ["utf-16", "utf-8-sig", "latin-1"])
def test_other_codings(coding: str) -> None:
    found = texts("pool=7 Größe\r\nLoad begin\r\n".encode(coding))
    assert [text.encode("ascii", "replace")[:8] for text in found] == [b"pool=7 G", b"Load beg"]


def test_the_last_start_of_a_large_file_its_end_and_an_earlier_start() -> None:
    old = b"args=Args(old=1)\npool=1\n"
    new = b"args=Args(new=1)\n" + NOISE + b"Load begin\npool=2\n"
    data = NOISE * 50_000 + old + NOISE * 20_000 + b"Traceback\n" + new + NOISE * 50_000 + b"last batch\n"
    found = log(data, small(history_bytes=8 * 2**20))
    assert [line.text for line in found.lines] == [
        "args=Args(old=1)",
        "pool=1",
        "Traceback",
        "args=Args(new=1)",
        "Load begin",
        "pool=2",
        "last batch",
    ]
    assert not found.numbered
    assert data[found.lines[3].number :].startswith(b"args=Args(new")
    assert any("between the start and the end not read" in gap for gap in found.gaps)


def test_a_weaker_marker_leads_to_the_stronger_one_of_the_same_start() -> None:
    data = b"args=Args(1)\n" + NOISE * 50_000 + b"Load begin\n" + NOISE * 50_000
    assert texts(data, small(start_bytes=100))[0] == "args=Args(1)"


def test_a_weaker_marker_alone_is_a_start() -> None:
    data = NOISE * 50_000 + b"Load begin\n" + NOISE * 50_000
    assert texts(data, small()) == ["Load begin"]


@pytest.mark.parametrize("shift", range(-12, 3))
def test_a_marker_across_two_blocks_is_found(shift: int) -> None:
    from ullage.observe.log_starts import BLOCK, last_start

    data = b"x" * (BLOCK + 50 + shift) + STRONG + b"y" * (BLOCK - 50)
    assert last_start(io.BytesIO(data), len(data), (STRONG, WEAK)) == BLOCK + 50 + shift


def test_without_a_start_the_begin_and_the_end_are_read() -> None:
    found = log(b"pool=1\n" + NOISE * 1000 + b"pool=2\n" + NOISE * 1000 + b"pool=3\n", small())
    assert [line.text for line in found.lines] == ["pool=1", "pool=3"]
    assert found.gaps == ("93021 bytes in the middle not read",)


def test_of_very_many_lines_of_a_kind_the_first_and_the_last_are_kept() -> None:
    lines = b"".join(b"batch %05d\n" % n for n in range(20_000))
    scan = LogScan((LogWords((STRONG,), KEEP),), tail_bytes=12_007, lines_per_kind=100)
    found = log(b"args=Args(1)\n" + lines + b"pool=1\n", scan)
    kept = [line.text for line in found.lines]
    assert kept[:3] == ["args=Args(1)", "batch 00000", "batch 00001"]
    assert kept[-3:] == ["batch 19998", "batch 19999", "pool=1"]
    assert len(kept) == 202
    assert found.gaps == ("19,800 more lines like 'batch' left out",)
    assert found.lines[-1].number == 20_002


def test_a_line_longer_than_the_limit_is_cut_and_the_next_one_is_read() -> None:
    data = b"args=Args(" + b"x" * 9_000_000 + b"\npool=1\n"
    found = log(data, LogScan((LogWords((STRONG,), KEEP),), line_bytes=1000))
    assert [(line.number, len(line.text)) for line in found.lines] == [(1, 1000), (2, 6)]


def test_progress_bars_without_line_feeds_do_not_hide_what_follows() -> None:
    data = b"".join(b"\r %d%%|## |" % n for n in range(400_000)) + b"\r[2026-02-27 14:33:48 TP0] pool=1\nLoad begin\n"
    found = log(data)
    bar, load = found.lines
    assert (bar.number, bar.text) == (1, "[2026-02-27 14:33:48 TP0] pool=1")
    assert (load.number, load.text) == (2, "Load begin")


def test_colours_do_not_hide_a_marker() -> None:
    data = NOISE + b"x\n\x1b[2mpo\x1b[0mol=\x1b[1m1\x1b[0m\n" + NOISE + b"Load begin\n"
    found = log(data)
    assert [(line.number, line.text) for line in found.lines] == [(3, "pool=1"), (5, "Load begin")]


def test_glued_records_are_told_apart() -> None:
    data = b"80%|## | 4/5[2026-02-27 14:33:48 TP0] pool=1[2026-02-27 14:33:48 TP1] nothing\n"
    assert texts(data) == ["[2026-02-27 14:33:48 TP0] pool=1"]


@pytest.mark.parametrize("space", [b"", b" "])
def test_an_indented_line_is_joined_to_the_one_it_continues(space: bytes) -> None:
    first, second = b"[22:54:04 DP28] batch, usage: 1.00," + space, b"                pre: 0.88, pool=3"
    data = b"\n".join((first, second, b"[22:54:05 DP28] batch\n"))
    assert texts(data) == ["[22:54:04 DP28] batch, usage: 1.00, pre: 0.88, pool=3", "[22:54:05 DP28] batch"]


def test_streams_of_a_compose_log() -> None:
    found = read(b"prefill-1  | pool=1\ndecode-1   | pool=2\nprefill-1  | Load begin\n")
    assert {
        item.origin.stream: [line.text for line in item.content.lines]
        for item in found
        if isinstance(item.content, Log)
    } == {"prefill-1": ["pool=1", "Load begin"], "decode-1": ["pool=2"]}


JOURNAL = b"""-- Boot 0123456789abcdef --
Feb 22 00:53:22 h systemd[1]: Started x.service - X.
Feb 22 00:53:23 h env[3210]: pool=1
Feb 22 00:53:23 h env[3210]: nothing
Feb 22 00:53:24 h systemd[1]: x.service: Main process exited, code=killed, status=9/KILL
Feb 22 00:53:25 h env[4000]: Load begin
"""


def test_what_systemd_says_of_the_only_service_belongs_to_it() -> None:
    (found,) = read(JOURNAL)
    assert (found.origin.stream, found.origin.pid) == ("env", 4000)
    assert isinstance(found.content, Log)
    assert [line.text for line in found.content.lines] == [
        "-- Boot 0123456789abcdef --",
        "systemd[1]: Started x.service - X.",
        "pool=1",
        "systemd[1]: x.service: Main process exited, code=killed, status=9/KILL",
        "Load begin",
    ]
    assert found.content.lines[2].time == "Feb 22 00:53:23"


def test_what_systemd_says_of_several_services_stands_apart() -> None:
    found = read(JOURNAL + b"Feb 22 00:53:25 h other[5]: Load begin\n")
    assert {item.origin.stream for item in found} == {"systemd", "env", "other"}


WITH_UNIT = b"""Mon 2026-11-30 12:55:20 UTC h init.scope[1]: Started x.service - X.
Mon 2026-11-30 12:55:20 UTC h x.service[376]: pool=1
Mon 2026-11-30 12:55:20 UTC h x.service[376]: Starting nothing
-- Reboot --
"""


def test_the_journal_with_units() -> None:
    (found,) = read(WITH_UNIT)
    assert (found.origin.stream, found.origin.pid) == ("x.service", 376)
    assert isinstance(found.content, Log)
    assert [line.text for line in found.content.lines] == [
        "systemd[1]: Started x.service - X.",
        "pool=1",
        "-- Reboot --",
    ]


def test_the_journal_without_tags() -> None:
    said = ["Starting x.service - X...", "Started x.service - X.", "Stopping x.service...", "Stopped x.service."]
    for lines in ([*said, "pool=1", *said], ["pool=1", *said]):
        noise = ["Started server process [7]", "Starting up", "Stats of x.service"]
        assert texts("\n".join([*noise, *lines, *noise]).encode()) == lines
        assert texts("\n".join([*lines, *noise]).encode()) == lines


def test_journald_as_json() -> None:
    def entry(message: object, unit: str, identifier: str) -> str:
        return json.dumps({"MESSAGE": message, "_SYSTEMD_UNIT": unit, "SYSLOG_IDENTIFIER": identifier, "_PID": "7"})

    lines = [
        entry(list(b"\x1b[1mpool=1\x1b[0m"), "x.service", "env"),
        entry(list(b"\x1b[1mnothing\x1b[0m"), "x.service", "env"),
        entry("Load \x1b[1mbegin", "x.service", "env"),
        entry("Started x.", "init.scope", "systemd"),
    ]
    (found,) = read("\n".join(lines).encode())
    assert (found.origin.stream, found.origin.pid) == ("x", 7)
    assert isinstance(found.content, Log)
    assert [line.text for line in found.content.lines] == ["pool=1", "Load begin", "systemd[7]: Started x."]


def test_a_large_log_is_read_within_its_memory(tmp_path: Path) -> None:
    """The real thing at a fifth of its size; a gigabyte differs in time only."""
    path = tmp_path / "big.log"
    with path.open("wb") as file:
        file.write(b"args=Args(1)\n")
        for _ in range(50):
            file.write(b"[2026-02-27 14:33:22 TP0] batch 1\n" * 120_000)
        file.write(b"z" * 30_000_000)
    code = (
        "import re, sys, time\n"
        "from ullage.observe.log_choice import LogWords\n"
        "from ullage.observe.log_file import *\n"
        "from ullage.masking import Masker\n"
        "scan = LogScan((LogWords((b'args=Args(',), re.compile(rb'args=|batch')),))\n"
        "(e,) = read_log(open(sys.argv[1], 'rb'), 'x', scan, Masker(), time)\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
        "print(e.content.lines[0].text, peak)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    text, kib = run.stdout.split()
    assert text == "args=Args(1)"
    assert int(kib) < 150 * 1024
