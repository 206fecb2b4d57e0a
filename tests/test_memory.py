"""`ullage memory` as a process: the screen, the JSON with its schema, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ullage

STORY = Path(__file__).parent / "data" / "story"
BEFORE, DECODE, PREFILL = (str(STORY / name) for name in ("decode-before.log", "decode.log", "prefill.log"))
SCHEMA = json.loads(Path(ullage.__file__).with_name("report").joinpath("memory.schema.json").read_text("utf-8"))
LLAMA = str(Path(__file__).parent / "data" / "llamacpp" / "divided-verbose.log")


def run(*arguments: str, columns: str = "", stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"COLUMNS": columns} if columns else {}
    command = [sys.executable, "-m", "ullage", "memory", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment, input=stdin, check=False
    )


def told(*arguments: str, columns: str = "") -> str:
    done = run(*arguments, columns=columns)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def data(*arguments: str) -> Any:
    found = json.loads(told(*arguments, "--json"))
    jsonschema.validate(found, SCHEMA, cls=jsonschema.Draft202012Validator)
    return found


def figures(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if {"name", "value", "kind"} <= value.keys():
            yield value
        for inner in value.values():
            yield from figures(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from figures(inner)


@pytest.mark.parametrize("targets", [(BEFORE,), (DECODE, PREFILL), (LLAMA,)])
def test_the_json_keeps_to_its_schema_and_sums_to_the_byte(targets: tuple[str, ...]) -> None:
    found = data(*targets)
    for device in (device for server in found["servers"] for device in server["devices"]):
        if device["whole"]["value"] is not None:
            parts = sum(part["size"]["value"] for part in device["parts"])
            assert parts + device["unaccounted"]["value"] == device["whole"]["value"]


def test_every_figure_says_where_it_comes_from() -> None:
    every = [*figures(data(DECODE, PREFILL))]
    assert len(every) > 100
    assert [f for f in every if not (f.get("source") or f.get("inputs") or f.get("note"))] == []


def test_the_idle_memory_of_the_story_and_what_it_would_buy() -> None:
    text = " ".join(told(BEFORE).split())
    assert "27.67 GiB idle" in text
    assert "0.85 2,581,248 13.62 77" in text
    assert "0.7 now 1,632,000 27.67 49" in text
    assert "(predicted)" in text
    assert "4.1 times" in text


def test_requests_of_the_shapes_that_are_asked_for() -> None:
    found = data(BEFORE, "--at", "32000", "--request", "prompt=30000,output=2000")
    [server] = found["servers"]
    now, best = (
        setting["safe_requests"] for setting in (server["on_tap"]["settings"][0], server["on_tap"]["settings"][-1])
    )
    assert list(now) == ["32,000", "30,000 + 2,000"]
    assert all(best[label]["value"] > now[label]["value"] > 0 for label in now)
    assert best["32,000"]["kind"] == "predicted"


def test_a_slot_holds_a_request_of_its_whole_context(tmp_path: Path) -> None:
    """llama-server takes prompts below the context of a slot: the rest of it is output."""
    gpus = str(Path(__file__).parent / "data" / "gpu" / "query-nounits.csv")
    on_gpu = tmp_path / "llama.log"
    on_gpu.write_text(re.sub(" CPU(?:_Mapped)?( .*buffer size)", r" CUDA0\1", Path(LLAMA).read_text("utf-8")), "utf-8")
    [server] = data(str(on_gpu), gpus)["servers"]
    [setting] = server["on_tap"]["settings"]
    assert {label: figure["value"] for label, figure in setting["safe_requests"].items()} == {"512": 3}


def test_the_memory_of_the_host_stands_below_the_gpus(tmp_path: Path) -> None:
    """Whatever is free on the GPU: of the host's memory nothing is told to be."""
    log = tmp_path / "llama.log"
    free = "0.00.400.000 I llama_prepare_model_devices: using device CUDA0 (RTX 3090) (0000:41:00.0) - 9000 MiB free"
    words = Path(LLAMA).read_text("utf-8").replace("CPU_Mapped model", "CUDA0 model", 1)
    lines = words.replace("CPU compute", "CUDA0 compute").splitlines()
    place = next(n for n, line in enumerate(lines) if "CUDA0 model buffer" in line)
    log.write_text("\n".join((*lines[:place], free, *lines[place:], "")), "utf-8")
    headings = [line for line in told(str(log)).splitlines() if line.startswith("Memory of")]
    assert headings == ["Memory of CUDA0", "Memory of the host"]


@pytest.mark.parametrize(("margin", "best"), [("1GiB", 0.98), ("5GiB", 0.94), ("28GiB", 0.69)])
def test_the_margin_decides_how_high_the_fraction_may_be(margin: str, best: float) -> None:
    assert data(BEFORE, "--margin", margin)["servers"][0]["on_tap"]["best"] == best


def test_forty_columns_are_enough() -> None:
    text = told(BEFORE, columns="40")
    assert max(map(len, text.splitlines())) <= 40
    for words in ("41.43", "27.67", "2,581,248", "unaccounted"):
        assert words in text


def test_in_a_pipe_it_is_plain_and_at_most_eighty_columns() -> None:
    text = told(DECODE, PREFILL)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert text.isascii()


def test_sources_name_the_lines() -> None:
    text = " ".join(told(BEFORE, "--sources").split())
    assert "Load weight end. elapsed=163.52" in text
    assert "free before - free after they were made" in text


def test_without_gpu_evidence_idle_is_not_told_and_the_reason_is() -> None:
    [device, *_] = data(BEFORE)["servers"][0]["devices"]
    reasons = {figure["name"]: figure["note"] for figure in device["not_known"]}
    assert "nvidia-smi" in reasons["idle now"]
    assert device["whole_is"] == "free before the weights were loaded"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((BEFORE, "--margin", "1"), 2, "--margin"),
        ((BEFORE, "--at", "0"), 2, "at least 1 token"),
        (("http://127.0.0.1:9",), 3, "nothing listens there"),
        (("-",), 3, "no server was found"),
    ],
)
def test_how_it_ends_with_nothing_to_tell(arguments: tuple[str, ...], code: int, words: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_server_whose_start_is_not_in_the_log_says_what_would_tell_it() -> None:
    text = " ".join(told("--flags", "python -m sglang.launch_server --model-path /m/small --port 30000").split())
    assert "the start-up log would tell it" in text
