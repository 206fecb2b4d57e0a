"""Settings that a server reads from a file as if they stood on its command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.observe.host.config_files import Settings, effective_words, inside

from .actors import Stage, free_port, look, running, stage, the_one

VLLM = ["vllm", "serve"]


@pytest.fixture
def actors(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


def test_the_file_names_the_port_and_the_command_line_outranks_it(actors: Stage) -> None:
    port = free_port()
    text = f"port: {port}\nmax-model-len: 4096\nenable-prefix-caching: true\nenforce-eager: false\n"
    (actors.folder / "c.yaml").write_text(text + "served-model-name: [a, b]\nhf-overrides: {x: 1}\ndtype: null\n")
    os.utime(actors.folder / "c.yaml", (1e9, 1e9))
    words = [str(actors.folder / "bin/vllm"), "serve", "m", "--config", "c.yaml", "--max-model-len", "8192"]
    server = the_one(actors.start(words, part={"ports": [["127.0.0.1", port]]}))
    file = ["--port", str(port), "--max-model-len", "4096", "--enable-prefix-caching", "--served-model-name", "a", "b"]
    expected = (sys.executable, *words[:3], *file, "--hf-overrides", '{"x": 1}', "--max-model-len", "8192")
    assert server.words == expected
    assert server.urls == (f"http://127.0.0.1:{port}",)
    assert server.remarks == (f"some of its settings are those of {actors.folder}/c.yaml",)


def test_a_file_that_was_changed_after_the_start(actors: Stage) -> None:
    """What it says now is no word of what runs: it only helps to find the port, which a socket then confirms."""
    port = free_port()
    (actors.folder / "c.yaml").write_text(f"tp-size: 2\nport: {port}\n")
    os.utime(actors.folder / "c.yaml", (4e9, 4e9))
    words = [sys.executable, "-m", "sglang.launch_server", "--config=c.yaml"]
    server = the_one(actors.start(words, part={"ports": [["127.0.0.1", port], ["127.0.0.1", free_port()]]}))
    assert server.words == tuple(words)
    assert server.urls == (f"http://127.0.0.1:{port}",)
    assert any("was changed after the start" in remark for remark in server.remarks)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file or directory"),
        ("a: [", "it is no YAML"),
        ("a: \xff".encode("latin-1"), "it is no YAML"),
        ("- a\n- b\n", "it holds no settings by name"),
        ("a: &x [1]\nb: *x\n", "it has aliases (*name), which are not read"),
        ("x" * 2**20 + "x", "it is no file of settings: too large, or no file"),
        ("[" * 5000, "it is no YAML"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(actors: Stage, text: str | bytes | None, reason: str) -> None:
    if text is not None:
        (actors.folder / "c.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    words = [sys.executable, "-m", "sglang.launch_server", "--config", "c.yaml", "--tp", "2"]
    process = actors.start(words)
    found = look()
    (server,) = running(found, process)
    assert server.words == (*words[:3], "--tp", "2")
    (line,) = [line for line in found.unreadable if f"pid {process.pid}" in line.what]
    assert line.what == f"{actors.folder}/c.yaml, the --config of pid {process.pid}"
    assert line.reason == reason


def test_a_fifo_is_not_waited_for(actors: Stage) -> None:
    os.mkfifo(actors.folder / "c.yaml")
    process = actors.start([sys.executable, "-m", "sglang.launch_server", "--config", "c.yaml"])
    assert len(running(look(), process)) == 1


def test_links_lead_on_inside_the_other_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/real.yaml").write_text("theirs")
    (tmp_path / "absolute").symlink_to("/etc/real.yaml")
    (tmp_path / "etc/up").symlink_to("../../../etc/real.yaml")
    (tmp_path / "folder").symlink_to("/etc")
    (tmp_path / "loop").symlink_to("/loop")
    for path in ("/absolute", "/etc/up", "/folder/real.yaml", "/etc/../folder/./real.yaml"):
        assert Path(inside(str(tmp_path), path)).read_text() == "theirs"
    with pytest.raises(OSError, match="symbolic links"):
        inside(str(tmp_path), "/loop")


WORDS = st.sampled_from(["m", "--tp", "2", "-x", "--port=3"])


@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=4), st.sampled_from([["--config", "c"], ["--config=c"]]))
def test_the_settings_stand_before_all_flags(before: list[str], after: list[str], flag: list[str]) -> None:
    words = effective_words([*VLLM, *before, *flag, *after], 2, Settings("c", ("--port", "1")))
    model = 1 if before and not before[0].startswith("-") else 0
    assert words == (*VLLM, *before[:model], "--port", "1", *before[model:], *after)
    assert effective_words([*VLLM, *before], 2, Settings()) == (*VLLM, *before)
    assert effective_words([*VLLM, *before, "--config"], 2, Settings()) == (*VLLM, *before, "--config")
