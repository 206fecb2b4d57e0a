"""Which GPUs are whose, other processes, and what is idle: the driver's figures beside a server's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.evidence import READ_AT, argv, log, start, vllm_start
from ullage.capacity.ledger import Ledger
from ullage.cli.gather import Options, gather
from ullage.engines.ledger import accounts_of
from ullage.engines.ledger_claims import gpus_of
from ullage.engines.read import read
from ullage.evidence import Argv, Evidence, Failure, Gpu, GpuProcess, Gpus, Member, Origin, Process
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


def mig(number: int, name: str, total: int, *processes: tuple[int, str, int | None], idle: int = 0) -> Gpu:
    held = tuple(GpuProcess(pid, title, size) for pid, title, size in processes)
    return Gpu(number, "A100", "", total, total - idle, idle, None, held, name)


def test_a_gpu_with_slices_counts_nothing_that_its_slices_count() -> None:
    process = (7, "python3", 9 * GIB)
    whole = Gpu(0, "A100", "", 40 * GIB, 10 * GIB, 30 * GIB, None, (GpuProcess(*process),))
    parts = (mig(0, "3g.20gb 2", 20 * GIB, process, idle=11 * GIB), mig(0, "1g.5gb 7", 5 * GIB, idle=5 * GIB))
    _, found = of_decode(driver(whole, *parts))
    by_device = {led.device: led for led in found}
    assert len(by_device) == 3
    parent = by_device.pop("GPU 0 (A100)")
    assert {part.name: part.size.number for part in parent.parts} == {"3g.20gb 2": 20 * GIB, "1g.5gb 7": 5 * GIB}
    assert parent.free == ()
    assert parent.unaccounted.number == 15 * GIB
    held = [part for led in found for part in led.parts if part.name.startswith("process 7")]
    assert len(held) == 1


def test_compute_instances_of_one_slice_share_its_memory() -> None:
    parts = [mig(0, f"1c.3g.20gb 2/{n}", 20 * GIB, idle=20 * GIB) for n in (1, 2)]
    _, found = of_decode(driver(Gpu(0, "A100", "", 40 * GIB, 0, 40 * GIB), *parts))
    parent = next(led for led in found if led.device == "GPU 0 (A100)")
    assert sum(part.size.count for part in parent.parts) == 20 * GIB


def test_a_server_runs_on_a_slice_and_not_on_its_gpu() -> None:
    small = mig(0, "3g.48gb 2", 94 * GIB, (7, "sglang::scheduler", 80 * GIB), idle=9 * GIB)
    found, unserved = one(driver(replaced(gpu(0, (7, "sglang::scheduler", 80 * GIB))), small))
    assert [led.device for led in found] == ["GPU 0 3g.48gb 2 (A100)"]
    assert [led.device for led in unserved] == ["GPU 0 (RTX PRO 6000)"]


def replaced(card: Gpu) -> Gpu:
    return card._replace(total_bytes=2 * TOTAL)


def test_where_the_driver_tells_no_total_the_whole_stays_what_was_free_at_the_start() -> None:
    """GB10 shares the host's memory, and nvidia-smi tells only what processes hold."""
    shared = Gpu(0, "GB10", "", None, None, None, None, (GpuProcess(7, "sglang", 80 * GIB), GpuProcess(8, "X", GIB)))
    [led], _ = one(driver(shared))
    assert led.device == "GPU 0 (GB10)"
    assert led.of_whole == "free before the weights were loaded"
    assert sum(part.size.count for part in led.parts) + led.unaccounted.count == led.whole.count
    assert led.held is not None
    assert led.held.value == 80 * GIB
    assert any("process 8 X holds 1,024 MiB" in remark for remark in led.remarks)


def test_a_gpu_that_has_less_than_was_free_is_not_the_servers() -> None:
    small = gpu(0, (7, "sglang", 40 * GIB))._replace(total_bytes=80 * GIB)
    [led], unserved = one(driver(small))
    assert "GPU" not in led.device.split(" ")[0]
    assert any("it runs on another GPU" in remark for remark in led.remarks)
    assert [found.device for found in unserved] == ["GPU 0 (RTX PRO 6000)"]


@pytest.mark.parametrize(("size", "told", "counts"), [(9, True, False), (60, True, True), (85, False, True)])
def test_a_capture_of_another_run_is_told(size: int, told: bool, counts: bool) -> None:
    """What is idle in one of which little can be true is not put on tap; its parts and the whole still agree."""
    [led], _ = one(driver(gpu(0, (7, "sglang", size * GIB))))
    assert any("not of one run" in remark for remark in led.remarks) == told
    assert (led.part("idle") is not None) == counts
    assert (led.part("free at the end of the start") is None) == counts
    assert led.whole.value == TOTAL
    assert sum(part.size.count for part in led.parts) + led.unaccounted.count == TOTAL


def test_what_a_run_took_since_the_start_has_its_line() -> None:
    """9.81 GiB were free at the end of the start."""
    [led], _ = one(driver(gpu(0, (7, "sglang", 90 * GIB), free=8 * GIB)))
    part = led.part("taken since the start")
    assert part is not None
    assert round(part.size.number / GIB, 2) == 1.81
    assert abs(led.unaccounted.number) < 0.01 * GIB
    [untold], _ = one(driver(gpu(0, free=8 * GIB, told=False)))
    assert untold.part("taken since the start") is None


def test_two_servers_on_one_gpu_share_what_is_idle() -> None:
    servers, items = [], []
    for pid, port in ((41, 30000), (51, 30001)):
        name = f"sglang-{port}.log"
        item = log(name, *start(1_632_000, mem_fraction_static=0.7, tp_size=1, port=port))
        origin = Origin(name, pid=pid, owner=f"{pid}@7")
        process = Evidence(origin, name, "process", READ_AT, Process(pid, "SGLang", None, "op", ()))
        found = read([item])[0]
        servers += [replace(server, evidence=(item, process)) for server in found]
        items += [item, process]
    items.append(driver(gpu(0, (41, "python3", 44 * GIB), (51, "python3", 44 * GIB))))
    accounts, unserved = accounts_of(servers, items, GIB)
    assert unserved == []
    for account, other in zip(accounts, reversed(accounts), strict=True):
        [led] = account.ledgers
        assert sum(part.size.count for part in led.parts) + led.unaccounted.count == TOTAL
        assert any(other.server.name in remark and "is there once" in remark for remark in led.remarks)
        assert [part.size.value for part in led.parts if part.name.startswith("process")] == [44 * GIB]


def test_the_base_gpu_counts_within_cuda_visible_devices() -> None:
    flags = argv("python -m sglang.launch_server --model-path /m/small --port 30000 --base-gpu-id 1", "sglang.log")
    assert isinstance(flags.content, Argv)
    content = flags.content._replace(environment={"CUDA_VISIBLE_DEVICES": "2,3"})
    found, _ = one(flags._replace(content=content), driver(*(gpu(n, told=False) for n in range(4))))
    assert [led.device.split(" (")[0] for led in found] == ["GPU 3"]


def test_a_uuid_may_be_cut() -> None:
    flags = argv("python -m sglang.launch_server --model-path /m/small --port 30000", "sglang.log")
    assert isinstance(flags.content, Argv)
    content = flags.content._replace(environment={"CUDA_VISIBLE_DEVICES": "GPU-2"})
    found, _ = one(flags._replace(content=content), driver(*(gpu(n, told=False) for n in range(4))))
    assert [led.device.split(" (")[0] for led in found] == ["GPU 2"]


def test_idle_that_is_not_told_is_said_to_be_in_what_is_unaccounted_for() -> None:
    _, [led] = of_decode(driver(gpu(0, free=None), *(gpu(n + 4, scheduler(n, 100 + n)) for n in range(4))))
    assert led.unaccounted.number == TOTAL - DRIVER
    assert any("idle is not told" in remark for remark in led.remarks)


def test_the_activation_peak_of_vllm_is_not_counted_beside_what_is_idle() -> None:
    """It was tried out and given back: what is idle has it, and is not all on tap."""
    summary = (
        "Free memory on device (93.70/95.00 GiB) on startup. Desired GPU memory utilization is (0.9, 85.50 GiB). Actual"
        " usage is 40.0 GiB for weight, 5.0 GiB for peak activation, 0.5 GiB for non-torch memory, and 1.0 GiB for"
        " CUDAGraph memory. Current kv cache memory in use is 42949672960 bytes."
    )
    item = log("vllm.log", *vllm_start(300_000, 9.0, summary, version="0.15.0"))
    for idle, inside in ((12 * GIB, True), (7 * GIB, False)):
        items = [item, driver(gpu(0, (7, "VLLM::EngineCore", 80 * GIB), free=idle))]
        [account], _ = accounts_of(read(items)[0], items, GIB)
        [led] = account.ledgers
        assert (led.part("activation peak") is None) == inside
        assert sum(part.size.count for part in led.parts) + led.unaccounted.count == TOTAL
        assert account.tap.left is not None
        assert account.tap.left.number == (7 * GIB if inside else idle)


def test_data_parallel_replicas_have_gpus_of_their_own_and_attention_ranks_have_not() -> None:
    for attention, count in ((False, 4), (True, 2)):
        given = {"tp_size": 2, "dp_size": 2, "enable_dp_attention": attention, "mem_fraction_static": 0.7}
        item = log("sglang.log", *start(1_632_000, **given))
        [server] = read([item])[0]
        assert gpus_of(server) == count


def test_why_the_gpus_of_this_host_could_not_be_asked_stands_where_idle_is_not_known() -> None:
    lost = Evidence(Origin("the GPUs"), "NVML", "gpus", READ_AT, Failure("no driver", "no driver here", "install it"))
    [led], _ = one(lost)
    assert {figure.note for figure in led.unknown} == {"no driver here; install it"}


def test_where_no_processes_are_told_what_went_before_is_not_called_the_engines_own() -> None:
    for told, name in ((True, "context and NCCL"), (False, "before the engine began")):
        [led], _ = one(driver(gpu(0, (7, "sglang", 85 * GIB), told=told)))
        part = led.part(name)
        assert part is not None
        assert part.size.count == TOTAL - DRIVER - round(93.70 * GIB)


def of_llama(*lines: str, cards: int) -> tuple[list[Ledger], list[Ledger]]:
    """A llama-server with a process on each of so many GPUs."""
    started = "0.00.005.000 I srv    load_model: loading model '/models/small.gguf'"
    held = (gpu(n, (50 + n, "/usr/bin/llama-server", 20 * GIB)) for n in range(cards))
    items = [log("llama.log", started, *lines, "0.09.000.000 I srv  llama_server: model loaded"), driver(*held)]
    [account], unserved = accounts_of(read(items)[0], items, GIB)
    return list(account.ledgers), unserved


@pytest.mark.parametrize("maker", ["CUDA", "ROCm", "Vulkan", "SYCL", "MTL", "CANN", "MUSA"])
def test_devices_of_every_backend_of_llama_cpp_find_their_cards(maker: str) -> None:
    lines = [f"load_tensors: {maker}{n} model buffer size = 8000.00 MiB" for n in (1, 0)]
    host = "load_tensors:   CPU_Mapped model buffer size =   300.00 MiB"
    found, unserved = of_llama(*lines, f"load_tensors: {maker}_Host model buffer size = 64.00 MiB", host, cards=2)
    assert [led.device for led in found] == [*(f"GPU {n} (RTX PRO 6000), {maker}{n}" for n in (0, 1)), "the host"]
    assert unserved == []


@pytest.mark.parametrize("remote", ["RPC[10.0.0.2:50052]", "RPC0[10.0.0.2:50052]"])
def test_a_device_behind_an_rpc_server_is_none_of_this_machines(remote: str) -> None:
    line = f"load_tensors: {remote} model buffer size = 8000.00 MiB"
    for others in ((), ("load_tensors: Vulkan0 model buffer size = 8000.00 MiB",)):
        found, unserved = of_llama(line, *others, cards=1)
        assert [led.device for led in found if led.device == remote] == [remote]
        assert [led.device for led in found if led.whole.value == TOTAL] == [
            "GPU 0 (RTX PRO 6000), Vulkan0" for _ in others
        ]
        assert len(unserved) == 1 - len(others)


def test_a_model_in_the_hosts_memory_is_on_no_card() -> None:
    found, unserved = of_llama("load_tensors:   CPU_Mapped model buffer size =   300.00 MiB", cards=1)
    assert [led.device for led in found] == ["the host"]
    assert [led.device for led in unserved] == ["GPU 0 (RTX PRO 6000)"]


def test_caches_of_no_named_device_are_on_no_card() -> None:
    line = (
        "llama_kv_cache: size = 448.00 MiB (  8192 cells,  28 layers,  1/1 seqs), K (f16): 224.00 MiB, V (f16): 224.00"
    )
    found, unserved = of_llama(f"{line} MiB", cards=1)
    assert [led.device for led in found] == ["all devices together"]
    assert len(unserved) == 1
