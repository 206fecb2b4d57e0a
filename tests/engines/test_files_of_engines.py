"""Captured files by their content: a log that names its engine is no command line, and a command line is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.cli.gather import Options, gather
from ullage.evidence import Argv, Log


@pytest.mark.parametrize(
    "line", ["sglang is using nccl==2.27.3", "Starting sglang behind the router", "vllm is not used"]
)
def test_a_log_without_tags_that_names_an_engine_is_a_log(tmp_path: Path, line: str) -> None:
    path = tmp_path / "captured"
    path.write_text(f"{line}\nLoad weight begin. avail mem=77.43 GB\nmax_total_num_tokens=9, context_len=4\n")
    [item] = gather([str(path)], [], Options())
    assert isinstance(item.content, Log)
    assert len(item.content.lines) == 2


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m sglang.launch_server --model-path /m",
        "/opt/venv/bin/python /src/sglang/launch_server.py --model-path /m",
        "sglang serve --model-path /m",
        "python -m sglang_router.launch_router --pd-disaggregation",
        "sglang-router --worker-urls http://a:1",
        "sgl-model-gateway --worker-urls http://a:1",
        "/usr/local/bin/smg launch --worker-urls http://a:1",
        "vllm serve /m",
        "python -m vllm.entrypoints.openai.api_server --model /m",
        "./llama-server -m /m.gguf",
    ],
)
def test_a_command_that_launches_an_engine_is_a_command(tmp_path: Path, command: str) -> None:
    path = tmp_path / "captured"
    path.write_text(f"#!/bin/sh\nexport A=1\nexec {command}\n")
    [item] = gather([str(path)], [], Options())
    assert isinstance(item.content, Argv)
