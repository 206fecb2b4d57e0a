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


def test_without_a_table_the_buffers_are_told_and_no_rest() -> None:
    found = account(*LINES)
    gpu = found.ledgers[0]
    assert [part.name for part in gpu.parts] == ["weights", "KV cache", "compute buffer"]
    assert not gpu.unaccounted.known
    assert "no device states what is free" in found.tap.unknown


def test_a_context_that_no_slot_can_use_is_told() -> None:
    """4 slots of a model that was trained for 8,192 tokens: a -c above 32,768 buys nothing."""
    trained = "print_info: n_ctx_train           = {}"
    for length, told in ((8192, True), (262_144, False)):
        says = account(LINES[0], trained.format(length), *LINES[1:], TABLE).tap.says
        assert any("above 32768 with 4 slots buys nothing" in line for line in says) == told
