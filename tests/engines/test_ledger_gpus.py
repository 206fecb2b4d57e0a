"""Which GPUs are whose, other processes, and what is idle: the driver's figures beside a server's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.evidence import READ_AT, argv, log, start
from ullage.capacity.ledger import Ledger
from ullage.cli.gather import Options, gather
from ullage.engines.ledger import accounts_of
from ullage.engines.read import read
from ullage.evidence import Argv, Evidence, Gpu, GpuProcess, Gpus, Member, Origin, Process
from ullage.units import GIB, MIB

DECODE = str(Path(__file__).parents[1] / "data" / "story" / "decode.log")
TOTAL, DRIVER, IDLE = 97_887 * MIB, 700 * MIB, 14_500 * MIB


def gpu(number: int, *processes: tuple[int, str, int | None], told: bool = True, free: int | None = IDLE) -> Gpu:
    held = tuple(GpuProcess(pid, name, size) for pid, name, size in processes)
    used = None if free is None else TOTAL - DRIVER - free
    return Gpu(number, "RTX PRO 6000", f"GPU-{number}", TOTAL, used, free, DRIVER, held if told else None)


def driver(*gpus: Gpu, step: int = MIB) -> Evidence:
    return Evidence(Origin("smi.xml"), "smi.xml", "", READ_AT, Gpus(gpus, "580.65", step))


def scheduler(rank: int, pid: int) -> tuple[int, str, int]:
    return pid, f"sglang::scheduler_TP{rank}", 80 * GIB


def of_decode(*items: Evidence) -> tuple[list[Ledger], list[Ledger]]:
    every = [*gather([DECODE], [], Options()), *items]
    [account], unserved = accounts_of(read(every)[0], every, GIB)
    return list(account.ledgers), unserved


def one(*items: Evidence) -> tuple[list[Ledger], list[Ledger]]:
    """A server with one GPU."""
    every = [log("sglang.log", *start(1_632_000, mem_fraction_static=0.7, tp_size=1)), *items]
    [account], unserved = accounts_of(read(every)[0], every, GIB)
    return list(account.ledgers), unserved


def test_the_card_is_shared_out_to_the_byte() -> None:
    others = (77, "/usr/bin/python3", GIB)
    found, _ = of_decode(driver(*(gpu(n + 4, scheduler(n, 100 + n), others) for n in range(4))))
    assert len(found) == 4
    for led in found:
        assert led.whole.value == TOTAL
        assert sum(part.size.count for part in led.parts) + led.unaccounted.count == TOTAL
        names = [part.name for part in led.parts]
        assert names[:2] == ["driver", "process 77 /usr/bin/python3"]
        assert names[-1] == "idle"
        assert led.held is not None
        assert led.held.value == 80 * GIB


def test_what_went_before_the_weights_is_the_engines_context() -> None:
    found, _ = of_decode(driver(*(gpu(n + 4, scheduler(n, 100 + n)) for n in range(4))))
    part = found[0].part("context and NCCL")
    assert part is not None
    assert part.size.count == TOTAL - DRIVER - round(93.70 * GIB)
    assert (part.size.most - part.size.least) / GIB > 0.01


def test_others_that_came_later_leave_no_context_to_be_told() -> None:
    others = (77, "/usr/bin/python3", 5 * GIB)
    found, _ = of_decode(driver(*(gpu(n + 4, scheduler(n, 100 + n), others) for n in range(4))))
    assert found[0].part("context and NCCL") is None


def test_the_titles_of_processes_tell_which_rank_is_where() -> None:
    """Rank 2 has 0.04 GiB more than the others; here it runs on GPU 1."""
    where = {0: 2, 1: 3, 2: 1, 3: 0}
    found, _ = of_decode(driver(*(gpu(where[rank], scheduler(rank, 100 + rank)) for rank in range(4))))
    by_card = {led.device.split()[1]: led for led in found}
    assert by_card["1"].device.endswith("TP2")
    assert by_card["1"].usable is not None
    assert round(by_card["1"].usable.number / GIB, 2) == 93.74


def test_pids_tell_before_names_do() -> None:
    process = Process(41, "SGLang", None, "op", (Member(43, "scheduler"),))
    origin = Origin("sglang.log", pid=41)
    item = Evidence(origin, "sglang.log", "process", READ_AT, process)
    log_item = log("sglang.log", *start(1_632_000, mem_fraction_static=0.7, tp_size=1))
    items = [
        log_item._replace(origin=log_item.origin._replace(owner="41@7")),
        item._replace(origin=origin._replace(owner="41@7")),
        driver(gpu(0, scheduler(0, 42)), gpu(1, (43, "python3", 85 * GIB))),
    ]
    servers = [replace(server, evidence=tuple(items[:2])) for server in read(items[:1])[0]]
    [account], unserved = accounts_of(servers, items, GIB)
    assert [led.device.split(" (")[0] for led in account.ledgers] == ["GPU 1"]
    assert account.ledgers[0].remarks == ()
    assert [led.device.split(" (")[0] for led in unserved] == ["GPU 0"]


def test_the_base_gpu_of_the_arguments_tells_where_no_process_is_told() -> None:
    """The decode server of the story was started with base_gpu_id=4."""
    found, unserved = of_decode(driver(*(gpu(n, told=False) for n in range(8))))
    assert [led.device.split(" (")[0] for led in found] == ["GPU 4", "GPU 5", "GPU 6", "GPU 7"]
    assert len(unserved) == 4
    assert any("tells no processes" in remark for remark in found[0].remarks)


@pytest.mark.parametrize("visible", ["3", "GPU-3"])
def test_cuda_visible_devices_tells(visible: str) -> None:
    flags = argv("python -m sglang.launch_server --model-path /models/small --port 30000", "sglang.log")
    assert isinstance(flags.content, Argv)
    content = flags.content._replace(environment={"CUDA_VISIBLE_DEVICES": visible})
    found, _ = one(flags._replace(content=content), driver(*(gpu(n, told=False) for n in range(4))))
    assert [led.device.split(" (")[0] for led in found] == ["GPU 3"]


def test_by_order_is_said_to_be_assumed() -> None:
    found, unserved = one(driver(gpu(0, told=False), gpu(1, told=False)))
    assert found[0].device.startswith("GPU 0")
    assert any("assumed by their order" in remark for remark in found[0].remarks)
    assert len(unserved) == 1


def test_what_the_driver_does_not_tell_is_not_zero() -> None:
    found, _ = one(driver(gpu(0, (7, "sglang::scheduler", None), free=None)))
    assert found[0].part("idle") is None
    assert [figure.name for figure in found[0].unknown] == ["idle", "process 7 sglang::scheduler"]
    assert found[0].held is None


def test_a_card_that_two_items_tell_of_is_one() -> None:
    _, unserved = one(driver(gpu(0, told=False)), driver(gpu(0, told=False), step=1))
    assert unserved == []


def test_total_and_use_alone_tell_what_is_idle_at_most() -> None:
    """The table of a bare nvidia-smi has neither what is free nor what the driver keeps."""
    bare = Gpu(0, "A10", "", 23_028 * MIB, 7_712 * MIB, None)
    _, [led] = of_decode(driver(bare, *(gpu(n + 4, scheduler(n, 100 + n)) for n in range(4))))
    assert {part.name: part.size.number // MIB for part in led.parts} == {"in use": 7_712, "idle": 15_316}
    assert "at most" in led.parts[1].size.note
