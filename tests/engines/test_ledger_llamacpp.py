"""Ledgers of llama.cpp's devices, and the context that the free memory holds."""

from __future__ import annotations

from tests.evidence import log
from ullage.engines.ledger import Account, accounts_of
from ullage.engines.read import read
from ullage.units import GIB, MIB

LINES = (
    "main: loading model",
    "load_tensors:        CUDA0 model buffer size =  8192.00 MiB",
    "load_tensors:   CPU_Mapped model buffer size =   500.50 MiB",
    "llama_context: n_seq_max     = 4",
    "llama_context: n_ctx         = 16384",
    "llama_context: n_ctx_seq     = 4096",
    "llama_context: n_ubatch      = 512",
    "llama_context: kv_unified    = false",
    "llama_kv_cache:      CUDA0 KV buffer size =  2048.00 MiB",
    "llama_kv_cache: size = 2048.00 MiB (  4096 cells,  32 layers,  4/4 seqs), K (f16): 1024.00 MiB, V (f16):"
    " 1024.00 MiB",
    "sched_reserve:      CUDA0 compute buffer size =   512.00 MiB",
    "sched_reserve:  CUDA_Host compute buffer size =    20.00 MiB",
    "srv    load_model: initializing, n_slots = 4, n_ctx_slot = 4096, kv_unified = 'false'",
    "main: server is listening on http://127.0.0.1:8080",
)
TABLE = (
    "llama_memory_breakdown_print: |   - CUDA0 (RTX 3090) | 24117 = 12500 + (10752 =  8192 +    2048 +     512) +"
    "         865 |"
)


def account(*lines: str, margin: int = GIB) -> Account:
    item = log("llama.log", *lines)
    [found] = accounts_of(read([item])[0], [item], margin)[0]
    return found


def test_a_table_of_the_device_sums_to_its_total() -> None:
    gpu, host = account(*LINES, TABLE).ledgers
    sizes = {part.name: part.size.number // MIB for part in gpu.parts}
    assert sizes == {"weights": 8192, "context": 2048, "compute buffer": 512, "free when the table was printed": 12500}
    assert gpu.unaccounted.number == 865 * MIB
    assert gpu.unaccounted.least < gpu.unaccounted.number < gpu.unaccounted.most
    context = gpu.part("context")
    assert context is not None
    assert [part.name for part in context.of_it] == ["KV cache", "rest of the context"]
    assert host.device == "the host"
    assert {part.name: part.size.number / MIB for part in host.parts} == {"weights": 500.5, "compute buffer": 20}


def test_the_context_that_the_free_memory_holds() -> None:
    tap = account(*LINES, TABLE).tap
    assert tap.best is not None
    each = 2048 * MIB / 16_384
    assert tap.best.pool.value == 16_384 + int((12_500 - 1024) * MIB / each) // 256 * 256
    assert tap.best.left.number >= GIB
    assert f"-np {int(tap.best.pool.number) // 4096} in place of 4" in " ".join(tap.says)


def test_less_free_than_the_margin_shrinks_the_context() -> None:
    tap = account(*LINES, TABLE, margin=13_000 * MIB).tap
    assert tap.best is not None
    assert tap.best.pool.number < 16_384
    assert tap.best.left.number >= 13_000 * MIB


def test_fewer_slots_are_advised_only_where_one_is_left() -> None:
    """One slot with all of the context: less context is another length of it, and no number of slots."""
    lines = [line.replace("n_slots = 4, n_ctx_slot = 4096", "n_slots = 1, n_ctx_slot = 16384") for line in LINES]
    tap = account(*lines, TABLE, margin=13_000 * MIB).tap
    assert tap.best is not None
    assert tap.best.pool.number < 16_384
    assert not any("-np" in line for line in tap.says)


def test_without_a_table_the_buffers_are_told_and_no_rest() -> None:
    found = account(*LINES)
    gpu = found.ledgers[0]
    assert [part.name for part in gpu.parts] == ["weights", "KV cache", "compute buffer"]
    assert not gpu.unaccounted.known
    assert "no device states what is free" in found.tap.unknown


LOADS = "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA RTX A4000) (0000:41:00.0) - 14000 MiB free"
DRAFT = LOADS.replace("14000", "2000")


def test_what_was_free_before_the_load_tells_what_it_left() -> None:
    """8192 + 2048 + 512 of 14,000 MiB. A second model finds less free, which says nothing of the first."""
    found = account(LINES[0], LOADS, *LINES[1:-2], DRAFT, *LINES[-2:])
    gpu = found.ledgers[0]
    assert gpu.of_whole == "free when the engine began"
    assert gpu.whole.number == 14_000 * MIB
    [left] = gpu.free
    assert left.size.number == (14_000 - 8192 - 2048 - 512) * MIB
    assert gpu.unaccounted.number == 0
    assert found.tap.best is not None
    assert found.tap.best.pool.number > 16_384


def test_a_load_that_failed_left_nothing_to_give_away() -> None:
    """What it had taken is given back when it ends, and how much more it wanted is not in its buffers."""
    failed = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of"
    lines = (*LINES[:-2], failed + " memory", "main: exiting due to model loading error")
    gpu = account(LINES[0], LOADS, *lines[1:]).ledgers[0]
    assert not gpu.free
    assert gpu.unaccounted.number == (14_000 - 8192 - 2048 - 512) * MIB


def table(free: int, self: tuple[int, int, int], rest: int, device: str = "CUDA0", total: int = 16_376) -> str:
    model, context, compute = self
    return (
        f"0.00.603.363 I common_memory_breakdown_print: |   - {device} (RTX A4000) | {total} = {free} + ({sum(self)} ="
        f" {model} + {context} + {compute}) + {rest} |"
    )


def test_a_table_that_fit_prints_before_the_load_is_no_account_of_it() -> None:
    """Nothing of it was taken when the driver was asked: 16,376 - 15,900 were others', and the model's own 10,752 come
    out of the 15,900.
    """
    fit = table(15_900, (8192, 2048, 512), 16_376 - 15_900 - 10_752)
    gpu = account(fit).ledgers[0]
    sizes = {part.name: part.size.number // MIB for part in gpu.parts}
    assert sizes == {
        "before the engine began": 476,
        "weights": 8192,
        "context": 2048,
        "compute buffer": 512,
        "free at the end of the start": 15_900 - 10_752,
    }
    assert gpu.unaccounted.number == 0


def test_the_buffers_count_where_fit_measured_another_context_before() -> None:
    """A table whose rest is not below zero, for others hold much: the lines that follow tell that it was projected."""
    fit = table(4000, (1000, 8000, 500), 16_376 - 4000 - 9500)
    done = "common_params_fit_impl: context size reduced from 65536 to 16384 -> need 6000 MiB less memory in total"
    loaded = tuple(line.replace("8192.00", "1000.00") for line in LINES)
    gpu = account(fit, done, *loaded).ledgers[0]
    sizes = {part.name: part.size.number / MIB for part in gpu.parts}
    assert sizes["KV cache"] == 2048
    assert "context" not in sizes
    assert sizes["free at the end of the start"] == 4000 - 1000 - 2048 - 512
    assert gpu.unaccounted.number == 0


def test_a_table_at_the_end_says_what_the_devices_lines_began_with() -> None:
    """Of the 865 MiB that the table cannot explain, 600 were taken when the driver was first asked."""
    began = LOADS.replace("14000", str(24_117 - 600))
    gpu = account(LINES[0], began, *LINES[1:], TABLE).ledgers[0]
    before = gpu.part("before the engine began")
    assert before is not None
    assert before.size.number == 600 * MIB
    assert gpu.unaccounted.number == 265 * MIB


def test_devices_that_the_server_lists_have_a_total_each() -> None:
    listed = (
        "0.00.004.409 I cmn  common_param:   - CUDA0   : NVIDIA RTX A4000 (16376 MiB, 15900 MiB free)",
        "0.00.004.410 I cmn  common_param:   - CUDA1   : NVIDIA RTX A4000 (16376 MiB, 16000 MiB free)",
    )
    [gpu] = [led for led in account(*listed, *LINES).ledgers if led.device == "CUDA0"]
    assert gpu.whole.number == 16_376 * MIB
    assert gpu.free[0].size.number == (15_900 - 8192 - 2048 - 512) * MIB
    by_driver = "  Device 0: AMD Radeon PRO W7800, gfx1100 (0x1100), VMM: no, Wave Size: 32, VRAM: 32752 MiB"
    amd = tuple(line.replace("CUDA", "ROCm") for line in LINES)
    [gpu] = [led for led in account(by_driver, *amd).ledgers if led.device == "ROCm0"]
    assert gpu.whole.number == 32_752 * MIB
    assert not gpu.free  # what was free of it no line states


def test_a_projector_has_weights_and_a_compute_buffer_of_its_own() -> None:
    """Its compute buffer is printed after the model's, in nearly the same words."""
    clip = (
        "clip_ctx: CLIP using CUDA0 backend",
        "load_hparams: model size:         640.25 MiB",
        "alloc_compute_meta:      CUDA0 compute buffer size =   200.50 MiB",
        "alloc_compute_meta:        CPU compute buffer size =    10.25 MiB",
    )
    gpu, host = account(*LINES[:-2], *clip, *LINES[-2:]).ledgers
    sizes = {part.name: part.size.number / MIB for part in gpu.parts}
    assert sizes["compute buffer"] == 512
    assert (sizes["projector weights"], sizes["projector compute buffer"]) == (640.25, 200.5)
    assert {part.name: part.size.number / MIB for part in host.parts}["projector compute buffer"] == 10.25


def test_metals_view_of_the_file_lies_in_metals_memory() -> None:
    lines = (
        "llama_prepare_model_devices: using device MTL0 (Apple M3 Max) (unknown id) - 49000 MiB free",
        "load_tensors:   CPU_Mapped model buffer size =   300.00 MiB",
        "load_tensors:  MTL0_Mapped model buffer size =  8000.00 MiB",
        "llama_kv_cache:       MTL0 KV buffer size =  1024.00 MiB",
        "sched_reserve:       MTL0 compute buffer size =   500.00 MiB",
        "sched_reserve:        CPU compute buffer size =    20.00 MiB",
        LINES[-1],
    )
    gpu, host = account(*lines).ledgers
    assert gpu.device == "MTL0"
    assert {part.name: part.size.number // MIB for part in gpu.parts if not part.free} == {
        "weights": 8000,
        "KV cache": 1024,
        "compute buffer": 500,
    }
    assert gpu.free[0].size.number == (49_000 - 9524) * MIB
    assert {part.name: part.size.number // MIB for part in host.parts} == {"weights": 300, "compute buffer": 20}


def test_an_adapter_stands_beside_the_weights() -> None:
    adapters = (
        "llama_adapter_lora_init_impl:      CUDA0 LoRA buffer size =    60.25 MiB",
        "llama_adapter_lora_init_impl:      CUDA0 LoRA buffer size =    40.00 MiB",
    )
    part = account(*LINES[:-2], *adapters, *LINES[-2:]).ledgers[0].part("LoRA")
    assert part is not None
    assert part.size.number == 100.25 * MIB


def test_a_context_that_no_slot_can_use_is_told() -> None:
    """4 slots of a model that was trained for 8,192 tokens: a -c above 32,768 buys nothing."""
    trained = "print_info: n_ctx_train           = {}"
    for length, told in ((8192, True), (262_144, False)):
        says = account(LINES[0], trained.format(length), *LINES[1:], TABLE).tap.says
        assert any("above 32768 with 4 slots buys nothing" in line for line in says) == told


SIZES = (
    "llama_kv_cache_iswa: creating non-SWA KV cache, size = 131072 cells",
    "llama_kv_cache: size = 3072.00 MiB (131072 cells,  12 layers,  1/1 seqs), K (f16): 1536.00 MiB, V (f16): 1536.00"
    " MiB",
    "llama_kv_cache_iswa: creating     SWA KV cache, size = 768 cells",
    "llama_kv_cache: size =   18.00 MiB (   768 cells,  12 layers,  1/1 seqs), K (f16):    9.00 MiB, V (f16):    9.00"
    " MiB",
)


def test_caches_of_which_no_line_names_the_device_are_told_together() -> None:
    """At the usual verbosity of some builds a cache's size is logged, and no buffer of it."""
    [led] = account(*SIZES).ledgers
    assert led.device == "all devices together"
    assert {part.name: part.size.number / MIB for part in led.parts} == {"KV cache": 3072, "window cache": 18}
    assert not led.whole.known
    assert "no line states on which devices" in led.whole.note


def test_a_cache_whose_buffer_is_logged_is_counted_once() -> None:
    buffers = ("CUDA0 KV buffer size =  3072.00 MiB", "CUDA0 KV buffer size =    18.00 MiB")
    lines = [SIZES[0], f"llama_kv_cache: {buffers[0]}", *SIZES[1:3], f"llama_kv_cache: {buffers[1]}", SIZES[3]]
    [led] = account(*lines).ledgers
    assert led.device == "CUDA0"
    first, second = account(*lines[:4], SIZES[3]).ledgers
    assert [part.name for part in first.parts] == ["KV cache"]
    assert (second.device, [part.name for part in second.parts]) == ("all devices together", ["window cache"])
    table = TABLE.replace("2048", "3090").replace("10752", "11794")
    assert [led.device for led in account(*SIZES, table).ledgers] == ["CUDA0"]
