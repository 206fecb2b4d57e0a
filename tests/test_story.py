"""The operator's story: what was found by hand from two journals and a command line, answered by one command.

The evidence in tests/data/story is written in the engines' formats from the operator's figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

STORY = Path(__file__).parent / "data" / "story"
PREFILL, DECODE, ROUTER = STORY / "prefill.log", STORY / "decode.log", STORY / "router.sh"
LENGTHS = ("524288", "32000", "8960", "8961")


@cache
def told(*arguments: str | Path) -> str:
    """What `ullage limits` prints into a pipe."""
    asked = [word for length in LENGTHS for word in ("--at", length)]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "ullage", "limits", *map(str, arguments), *asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def story() -> Any:
    return json.loads(told(PREFILL, DECODE, ROUTER, "--json"))


def server(story: Any, role: str) -> Any:
    [found] = [s for s in story["servers"] if s["role"] == role]
    return found


def row(story: Any, prompt: int) -> Any:
    return next(r for r in story["chain"] if r["shape"]["prompt_tokens"] == prompt)


def finding(story: Any, name: str, where: str) -> Any:
    [found] = [f for f in story["findings"] if f["id"] == name and where in f["where"]]
    return found


def values(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: figure["value"] for name, figure in figures.items()}


def test_the_files_are_read_as_one_deployment(story: Any) -> None:
    assert sorted(s["role"] for s in story["servers"]) == ["decode", "prefill", "router"]
    assert story["not_read"] == []


@pytest.mark.parametrize(
    ("prompt", "requests", "binds"),
    [
        (524_288, 4, "decode: KV pool"),
        (32_000, 75, "decode: KV pool"),
        (8_961, 252, "decode: KV pool"),
        (8_960, 256, "decode: request slots"),
        (4_096, 256, "decode: request slots"),
    ],
)
def test_how_many_parallel_requests(story: Any, prompt: int, requests: int, binds: str) -> None:
    found = row(story, prompt)
    assert (found["admits"]["value"], found["safe"]["value"], found["binds"]) == (requests, requests, binds)
    assert "prealloc queue" in found["beyond"]


def test_why_75_and_not_76(story: Any) -> None:
    assert row(story, 32_000)["why"] == (
        "decode, KV pool: each holds 32,000 and keeps 512 back; "
        "75 take 2,438,400 of 2,454,784, one more needs 2,470,912"
    )


def test_four_full_contexts_only_if_prefill_takes_them(story: Any) -> None:
    perhaps = row(story, 524_288)["perhaps_refused_by"]
    assert perhaps["tokens"]["value"] == 213_760
    assert not perhaps["certain"]
    assert perhaps["beyond"] == "refused with 400"
    assert row(story, 32_000)["perhaps_refused_by"] is None


@pytest.mark.parametrize(("role", "pool"), [("prefill", 2_138_368), ("decode", 2_454_784)])
def test_the_settings_that_are_in_effect(story: Any, role: str, pool: int) -> None:
    figures = values(server(story, role)["figures"])
    assert figures["max_total_num_tokens"] == pool
    assert figures["context_len"] == 524_288
    assert figures["max_running_requests"] == 256
    assert (figures["chunked_prefill_size"], figures["max_prefill_tokens"]) == (8192, 16384)
    assert server(story, role)["total_context"]["value"] == pool


@pytest.mark.parametrize(("role", "pool", "fraction"), [("prefill", 2_265_088, 0.80), ("decode", 2_581_248, 0.85)])
def test_another_figure_is_an_earlier_start_and_no_rank(story: Any, role: str, pool: int, fraction: float) -> None:
    found = server(story, role)
    [earlier] = found["earlier_starts"]
    figures = values(earlier["figures"])
    assert (figures["max_total_num_tokens"], figures["mem_fraction_static"]) == (pool, fraction)
    assert found["ranks"] == {}
    says = finding(story, "earlier-start-differs", role)["says"]
    assert f"max_total_num_tokens {pool:,} (now " in says
    assert f"mem_fraction_static {fraction} (now " in says


def test_the_pool_says_where_it_was_read(story: Any) -> None:
    source = server(story, "decode")["figures"]["max_total_num_tokens"]["source"]
    number = int(source["place"].removeprefix("line "))
    line = DECODE.read_text("utf-8").splitlines()[number - 1]
    assert "max_total_num_tokens=2454784, " in line
    assert source["quote"] in line


def test_the_router_limits_nothing_and_a_value_is_computed(story: Any) -> None:
    assert server(story, "router")["figures"]["max_concurrent_requests"]["value"] == -1
    found = finding(story, "router-unlimited", "router")
    assert "no limit" in found["says"]
    assert "--max-concurrent-requests 256" in found["advice"]


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_what_a_token_is_charged_and_what_of_it_buys_context(story: Any, role: str) -> None:
    found = finding(story, "window-takes-the-pool", role)
    charged, context = found["evidence"]
    assert (charged["value"], context["value"]) == (15_897.45, 3_850.25)
    assert (charged["kind"], context["kind"]) == ("read", "inferred")
    assert "15,897.45" in found["says"]
    assert "3,850.25" in found["says"]


@pytest.mark.parametrize(
    ("version", "longest", "perhaps"), [(None, 524_288, 213_760), ("0.5.12", 213_760, None), ("0.5.15", 524_288, None)]
)
def test_the_longest_prompt_depends_on_the_version(
    tmp_path: Path, version: str | None, longest: int, perhaps: int | None
) -> None:
    files = [PREFILL, DECODE, ROUTER]
    if version:
        info = tmp_path / "server_info.json"
        states = [{"memory_usage": {"token_capacity": 2_138_368}, "effective_max_running_requests_per_dp": 256}]
        info.write_text(
            json.dumps(
                {
                    "version": version,
                    "model_path": "/models/DeepSeek-V4-Flash",
                    "disaggregation_mode": "prefill",
                    "port": 30000,
                    "internal_states": states,
                }
            )
        )
        files.append(info)
    found = json.loads(told(*files, "--json"))
    prefill = server(found, "prefill")
    assert prefill["longest_request"]["value"] == longest
    told_too = prefill["longest_request_perhaps"]
    assert (told_too and told_too["tokens"]["value"]) == perhaps
    assert row(found, 524_288)["admits"]["value"] == (0 if longest < 524_288 else 4)


def test_in_a_pipe_no_line_is_longer_than_80_columns() -> None:
    text = told(PREFILL, DECODE, ROUTER)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert text.isascii()


def test_the_screen_says_the_same(story: Any) -> None:
    rows = [line.split() for line in told(PREFILL, DECODE, ROUTER).splitlines()]
    assert ["32,000", "75", "75", "66", "decode:", "KV", "pool"] in rows
    assert ["full", "524,288", "4*", "4*", "4", "decode:", "KV", "pool"] in rows
    assert row(story, 524_288)["label"] == "full"
