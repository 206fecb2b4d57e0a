"""Single files of /proc."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.observe.host.environment import variables
from ullage.observe.host.proc import Stat, Table, cgroup_of, inode_of, link, processes, read, runs, split, stat, whole
from ullage.observe.host.rights import hidden, sudo

HYBRID = "9:name=systemd:/system.slice/sglang.service\n4:memory:/system.slice\n0::/\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("0::/system.slice/sglang.service\n", "/system.slice/sglang.service"),
        (HYBRID, "/system.slice/sglang.service"),
        ("1:name=systemd:/a.scope\n0::/b.scope\n", "/b.scope"),
        ("4:memory:/docker/3f\n", "/docker/3f"),
        ("0::/odd:name:with:colons\n", "/odd:name:with:colons"),
        ("", ""),
    ],
)
def test_the_cgroup_that_tells_the_unit(text: str, path: str) -> None:
    assert cgroup_of(text) == path


@given(st.text())
def test_no_cgroup_raises(text: str) -> None:
    cgroup_of(text)
    inode_of(text)


def test_a_name_with_parentheses_and_spaces(tmp_path: Path) -> None:
    own = Path("/proc/self/stat").read_text()
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (a) ) S (b c) R 1 2 3" + " 0" * 15 + " 9000 1 2\n")
    assert stat(str(tmp_path), 7) == Stat(7, "a) ) S (b c", "R", 1, 2, 3, 9000)
    found = stat("/proc", os.getpid())
    assert found is not None
    assert (found.ppid, found.pgid, found.session) == (os.getppid(), os.getpgrp(), os.getsid(0))
    assert str(found.start_ticks) in own.split()


@given(st.binary(max_size=80))
def test_no_stat_raises(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    folder = tmp_path_factory.mktemp("proc")
    (folder / "7").mkdir()
    (folder / "7/stat").write_bytes(b"7 (" + text)
    found = Table(str(folder), (7,)).get(7)
    assert found is None or found.pid == 7
    split(text)


def test_the_table_reads_what_it_is_asked_for() -> None:
    """At first what may matter; another process by its pid; all where it must be; what is gone is not there."""
    own, parent = os.getpid(), os.getppid()
    table = Table("/proc", (own, 2**22 + 1))
    assert [*table] == [own]
    assert table[own].ppid == parent
    assert table.get(parent) is not None
    assert {own, parent} <= {found.pid for found in table.every()}
    assert 2**22 + 1 not in table
    assert len(table) == len([*table])


def test_a_title_leaves_nuls_behind() -> None:
    assert split(b"sglang::router\0\0\0\0") == ("sglang::router",)
    assert split(b"a\0\0b\0") == ("a", "", "b")
    assert split(b"\xff\0") == ("\ufffd",)
    assert split(b"") == split(b"\0\0") == ()


def test_what_is_gone_is_nothing() -> None:
    assert read("/proc/0/cmdline") is None
    assert read("/proc/self/mem") is None, "it opens, and does not read"
    assert link("/proc/0/cwd") == ""
    assert stat("/proc", 0) is None
    assert read("/proc/self/maps", 10) == Path("/proc/self/maps").read_bytes()[:10]


def test_own_process_is_seen() -> None:
    words = dict(processes("/proc"))[os.getpid()]
    assert words == tuple(Path("/proc/self/cmdline").read_text("utf-8", "replace").rstrip("\0").split("\0"))


def test_an_environment_under_a_title_is_not_an_empty_one(tmp_path: Path) -> None:
    import re

    every = re.compile("")
    (tmp_path / "7").mkdir()
    for data, expected in ((b"A=1\0B=x=y\0C\0", {"A": "1", "B": "x=y"}), (b"", {}), (b"\0\0\0", None)):
        (tmp_path / "7/environ").write_bytes(data)
        assert variables(str(tmp_path), 7, every) == expected
    assert variables(str(tmp_path), 8, every) is None


def test_the_line_that_reads_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "ullage"
    script.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(script), "memory"])
    assert sudo() == f"sudo {script}"
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert sudo() == f"sudo {sys.executable} -m ullage"


def test_a_proc_that_hides_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    mounts = tmp_path / "self/mounts"
    mounts.write_text(f"proc {tmp_path} proc rw,nosuid,hidepid=invisible 0 0\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (line,) = hidden(str(tmp_path), "sudo u")
    assert line == ("the processes of other users", "/proc does not show them (hidepid)", "sudo u")
    mounts.write_text(f"proc {tmp_path} proc rw,nosuid 0 0\n")
    assert hidden(str(tmp_path), "sudo u") == ()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    mounts.write_text(f"proc {tmp_path} proc rw,hidepid=2 0 0\n")
    assert hidden(str(tmp_path), "sudo u") == ()


def test_one_that_has_ended_runs_no_more() -> None:
    import subprocess

    process = subprocess.Popen(["sleep", "100"])
    found = whole("/proc", process.pid)
    assert found is not None
    assert runs(found)
    assert not runs(found._replace(start_ticks=found.start_ticks - 1))  # whose pid was given to another
    process.kill()
    while (now := stat("/proc", process.pid)) and now.state != "Z":
        pass
    assert not runs(found)  # not waited for yet
    process.wait()
    assert not runs(found)
