"""Where a server's log goes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.observe.host.running import Output

from .actors import Stage, stage, the_one, wait_for

WORDS = [sys.executable, "-m", "sglang.launch_server"]


@pytest.fixture
def actors(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


def test_a_file_and_a_file_that_was_deleted(actors: Stage) -> None:
    log = actors.folder / "server.log"
    with log.open("wb") as handle:
        process = actors.start(WORDS, stdout=handle, stderr=handle)
        handle.write(b"it writes here\n")
    server = the_one(process)
    assert (server.output, server.errors) == (Output("file", str(log)), None)
    log.unlink()
    output = the_one(process).output
    assert output == Output("file", f"/proc/{process.pid}/fd/1", f"the file was deleted: {log}")
    assert Path(output.path).read_text() == "it writes here\n"


def test_its_errors_elsewhere(actors: Stage) -> None:
    with (actors.folder / "err.log").open("wb") as handle:
        server = the_one(actors.start(WORDS, stdout=subprocess.DEVNULL, stderr=handle))
    assert server.output == Output("null", "/dev/null")
    assert server.errors == Output("file", str(actors.folder / "err.log"))


def test_a_terminal(actors: Stage) -> None:
    ours, theirs = os.openpty()
    try:
        server = the_one(actors.start(WORDS, stdout=theirs, stderr=theirs))
        assert server.output == Output("terminal", os.ttyname(theirs))
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_pipe_and_who_reads_it(actors: Stage) -> None:
    script = f"{' '.join(WORDS)} 2>&1 | "
    log = actors.folder / "tee.log"
    server = the_one(actors.start(["bash", "-c", f"{script} tee -a tee.log"]))
    assert (server.output.kind, server.output.path) == ("file", str(log))
    assert server.output.remark.startswith("through tee (pid ")
    assert server.errors is None
    other = the_one(actors.start(["bash", "-c", f"{script} cat > /dev/null"]))
    assert other.output.kind == "pipe"
    assert other.output.remark.endswith("(cat)")
    ours = the_one(actors.start(WORDS, stdout=subprocess.PIPE))
    assert ours.output.kind == "pipe"
    assert ours.output.path == ""


def test_the_journal_is_the_socket_that_systemd_named(actors: Stage) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        status = os.fstat(theirs.fileno())
        named = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert the_one(actors.start(WORDS, stdout=theirs, env=named)).output == Output("journal")
        other = {"JOURNAL_STREAM": f"{status.st_dev}:1"}
        assert the_one(actors.start(WORDS, stdout=theirs, env=other)).output.kind == "unknown"


def test_a_closed_output(actors: Stage) -> None:
    process = actors.start(["bash", "-c", f"exec {' '.join(WORDS)} >&-"])
    wait_for(lambda: not os.path.lexists(f"/proc/{process.pid}/fd/1"))
    assert the_one(process).output.kind == "unknown"


def test_one_that_is_closed_writes_nowhere(actors: Stage) -> None:
    command = ["bash", "-c", f"exec {' '.join(WORDS)} 0</dev/null 1>&- 2>/dev/null"]
    server = the_one(actors.start(command))
    assert server.output == Output("unknown", remark="nothing, for it is closed")
