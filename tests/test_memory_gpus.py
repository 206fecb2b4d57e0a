"""`ullage memory` as a process with a captured nvidia-smi -q -x beside the start-up log of the same run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.evidence import start
from tests.test_memory import DECODE, LLAMA, PREFILL, SCHEMA, STORY, run, told
from ullage.cli.gather import Options, gather
from ullage.findings.explanations import explanation
from ullage.report.model import report_on
from ullage.units import GIB, MIB

TEMPLATE = (Path(__file__).parent / "data" / "gpu" / "r570.xml").read_text("utf-8")
TOTAL, DRIVER, OTHER, IDLE = 97_887, 638, 510, 14_300  # MiB
GROUPS = {"4": 0, "5": 1, "6": 2, "7": 3}  # the decode server's GPUs, and the rank on each


def gpu_element(number: int, processes: dict[int, tuple[str, int]], idle: int) -> str:
    """One <gpu> in the form of the recorded file."""
    first = TEMPLATE[TEMPLATE.index("\t<gpu id=") : TEMPLATE.index("</gpu>") + len("</gpu>")]
    info = "".join(
        f"<process_info><pid>{pid}</pid><type>C</type><process_name>{name}</process_name>"
        f"<used_memory>{size} MiB</used_memory></process_info>"
        for pid, (name, size) in processes.items()
    )
    text = re.sub(r"(?s)<processes>.*?</processes>", f"<processes>{info}</processes>", first)
    used = TOTAL - DRIVER - idle
    text = re.sub(r"(?s)(<fb_memory_usage>.*?<used>)\d+ MiB", rf"\g<1>{used} MiB", text)
    text = re.sub(r"(?s)(<fb_memory_usage>.*?<free>)\d+ MiB", rf"\g<1>{idle} MiB", text)
    text = text.replace("00000000:01:00.0", f"00000000:{number:02X}:00.0")
    return text.replace("4000-8000-000000000000", f"4000-8000-{number:012d}")


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """Eight GPUs: the decode server on 4 to 7, beside it a small process on each."""
    elements = []
    for number in range(8):
        rank = GROUPS.get(str(number))
        own = {} if rank is None else {900 + rank: (f"sglang::scheduler_TP{rank}", TOTAL - DRIVER - OTHER - IDLE)}
        idle = IDLE if rank is not None else TOTAL - DRIVER - OTHER
        elements.append(gpu_element(number, {**own, 700 + number: ("python3 embed.py", OTHER)}, idle))
    begin = TEMPLATE[: TEMPLATE.index("\t<gpu id=")].replace("attached_gpus>2<", "attached_gpus>8<")
    path = tmp_path / "gpus.xml"
    path.write_text(begin[begin.index("<?xml") :] + "\n".join(elements) + "\n</nvidia_smi_log>\n", "utf-8")
    return str(path)


def data(*arguments: str) -> Any:
    found = json.loads(told(*arguments, "--json"))
    jsonschema.validate(found, SCHEMA, cls=jsonschema.Draft202012Validator)
    return found


def test_a_log_and_a_capture_of_one_run_share_out_each_gpu(capture: str) -> None:
    found = data(DECODE, capture)
    [server] = found["servers"]
    assert [device["device"].split(" (")[0] for device in server["devices"]] == ["GPU 4", "GPU 5", "GPU 6", "GPU 7"]
    assert [device["device"][-3:] for device in server["devices"]] == ["TP0", "TP1", "TP2", "TP3"]
    for device in server["devices"]:
        sizes = {part["name"]: part["size"]["value"] for part in device["parts"]}
        assert device["whole"]["value"] == TOTAL * MIB == sum(sizes.values()) + device["unaccounted"]["value"]
        assert abs(device["unaccounted"]["value"]) < 0.1 * GIB
        assert sizes["idle"] == IDLE * MIB
        assert sizes["taken since the start"] == pytest.approx((15.09 - IDLE / 1024) * GIB, abs=0.05 * GIB)
        assert device["held_by_its_processes"]["value"] == (TOTAL - DRIVER - OTHER - IDLE) * MIB
    assert len(found["gpus_without_server"]) == 4


def test_what_is_on_tap_is_what_is_idle_now(capture: str) -> None:
    tap = data(DECODE, capture, "--margin", "5GiB")["servers"][0]["on_tap"]
    assert tap["left"]["value"] == IDLE * MIB
    assert tap["best"] == 0.92  # 0.83 + (13.96 - 5) / 93.70, downwards
    assert data(DECODE, "--margin", "5GiB")["servers"][0]["on_tap"]["best"] == 0.93


def test_on_the_screen_it_says_idle_now_and_names_the_others(capture: str) -> None:
    text = " ".join(told(DECODE, capture).split())
    for words in ("13.96 GiB idle now, on the GPU with least left", "python3 embed.py", "context and NCCL"):
        assert words in text
    assert "name a captured nvidia-smi" not in text
    assert "the same within" in text


def test_forty_columns_hold_a_card(capture: str) -> None:
    assert max(map(len, told(DECODE, capture, columns="40").splitlines())) <= 40


def test_every_line_that_is_printed_can_be_explained(capture: str) -> None:
    """The names of parts, and of what is not known."""
    names = set()
    for targets in ((DECODE, capture), (str(STORY / "decode-before.log"), PREFILL), (LLAMA,)):
        for server in data(*targets)["servers"]:
            for device in server["devices"]:
                names |= {name for part in device["parts"] for name in named(part)}
                names |= {"unaccounted", *(figure["name"] for figure in device["not_known"])}
    assert {name for name in names if explanation(name) is None} == set()


def named(part: dict[str, Any]) -> list[str]:
    return [part["name"], *(name for inner in part["of_it"] for name in named(inner))]


def test_where_more_of_the_pool_buys_no_request_it_says_so(tmp_path: Path) -> None:
    log = (STORY / "decode-before.log").read_text("utf-8").replace("max_running_requests=256", "max_running_requests=8")
    path = tmp_path / "few.log"
    path.write_text(log, "utf-8")
    text = " ".join(told(str(path)).split())
    assert "a larger pool holds no more requests: another limit binds at 24" in text  # 8, and 16 in transfer


def test_a_router_alone_has_no_memory_to_tell_of() -> None:
    done = run("--flags", "python -m sglang_router.launch_router --port 8000 --prefill http://127.0.0.1:1")
    assert done.returncode == 2
    assert "a router has no GPU memory of its own" in done.stderr
    assert done.stderr.count("\n") == 1


def test_servers_of_which_nothing_is_told_stand_together() -> None:
    flags = ("--flags", "python -m sglang.launch_server --model-path /m/a --port {}")
    text = " ".join(told(*(word.format(port) for port in (30000, 30001) for word in flags)).split())
    assert text.count("the start-up log would tell it") == 1
    assert "Nothing told of" in text


def test_no_colour_where_it_is_not_wanted(capture: str) -> None:
    assert "\x1b" not in told(DECODE, capture)


def test_the_trees_behind_the_figures_reach_the_capture(capture: str) -> None:
    text = " ".join(told(DECODE, capture, "--sources").split())
    assert "GPU 4 idle" in text
    assert "free at the end of the start - idle now" in text


def test_a_gpu_of_which_the_driver_tells_nothing_has_its_line_all_the_same(tmp_path: Path) -> None:
    """As on one that shares the host's memory."""
    path = tmp_path / "gpus.csv"
    header = "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n"
    path.write_text(header + "0, NVIDIA GB10, [N/A], [N/A], [N/A]\n", "utf-8")
    text = " ".join(told(str(path)).split())
    assert "Memory of GPU 0 (NVIDIA GB10)" in text
    assert "total, and so what is unaccounted: the driver does not tell it" in text
    assert "together" not in text
    assert "in what is unaccounted for" not in text
    assert data(str(path))["gpus_without_server"][0]["parts"] == []


def test_gpus_that_only_their_processes_name_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "apps.csv"
    rows = ("GPU-aaaa, 1234, sglang::scheduler_TP0, 59900 MiB", "GPU-bbbb, 1299, python3, [N/A]")
    path.write_text("\n".join(("gpu_uuid, pid, process_name, used_gpu_memory [MiB]", *rows, "")), "utf-8")
    text = " ".join(told(str(path), "--sources").split())
    assert "Memory of GPU GPU-aaaa part GiB of all process 1234 sglang::scheduler_TP0 58.50 together 58.50" in text
    assert "Memory of GPU GPU-bbbb not known" in text
    assert "GPU -1" not in text


def test_the_gpus_that_a_job_printed_before_its_server_give_the_size_and_not_what_is_idle(tmp_path: Path) -> None:
    table = (Path(__file__).parent / "data" / "gpu" / "r440.txt").read_text("utf-8")
    table = table.replace("16278MiB", f"{TOTAL}MiB").replace("11491MiB", "  900MiB")
    job = tmp_path / "slurm-17.out"
    job.write_text(table + "\n".join((*start(500_000), "")), "utf-8")
    assert report_on(gather([str(job)], [], Options())).answers
    printed = " ".join(told(str(job)).split())
    assert "the GPUs were captured before the server started, so only their size counts" in printed
    assert f"total {TOTAL / 1024:.2f}" in printed
    assert "idle now" not in printed
    assert "8850" not in printed
