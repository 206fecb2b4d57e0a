"""Ledgers of vLLM's start-up lines by version, and what more utilization would buy."""

from __future__ import annotations

from tests.evidence import log, vllm_start
from ullage.engines.ledger import Account, accounts_of
from ullage.engines.read import read
from ullage.evidence import Evidence
from ullage.units import GIB

LEDGER = (
    "Free memory on device ({}/44.42 GiB) on startup. Desired GPU memory utilization is (0.9, 39.98 GiB). Actual usage"
    " is 27.72 GiB for weight, 1.4 GiB for peak activation, 0.21 GiB for non-torch memory, and 3.45 GiB for CUDAGraph"
    " memory. Replace gpu_memory_utilization config with `--kv-cache-memory={}` to fit into requested memory, or"
    " `--kv-cache-memory=1` to fully utilize gpu memory. Current kv cache memory in use is 11435450368 bytes."
)


def account(item: Evidence, margin: int = GIB) -> Account:
    [found] = accounts_of(read([item])[0], [item], margin)[0]
    return found


def started(*lines: str, version: str, free: str = "43.93", suggested: int = 7_000_000_000) -> Evidence:
    return log("vllm.log", *vllm_start(238_208, 29.08, LEDGER.format(free, suggested), *lines, version=version))


def in_gib(found: Account) -> dict[str, float]:
    return {part.name: round(part.size.number / GIB, 2) for part in found.ledgers[0].parts}


def test_the_one_line_summary_is_a_whole_ledger() -> None:
    found = account(started(version="0.11.0"))
    assert in_gib(found) == {
        "before the engine began": 0.49,
        "weights": 27.72,
        "non-torch": 0.21,
        "activation peak": 1.4,
        "KV cache": 10.65,
        "graphs": 3.45,
        "left by --gpu-memory-utilization": 0.5,
    }
    [led] = found.ledgers
    assert sum(part.size.count for part in led.parts) + led.unaccounted.count == led.whole.count
    assert led.unaccounted.least <= 0 <= led.unaccounted.most
    kv = led.part("KV cache")
    assert kv is not None
    assert kv.size.value == 11_435_450_368


def test_graphs_are_outside_the_share_before_0_20_and_inside_since() -> None:
    before, since = (account(started(version=version)) for version in ("0.19.1", "0.20.0"))
    names = "left by --gpu-memory-utilization"
    assert in_gib(since)[names] - in_gib(before)[names] == 3.45


def test_the_kv_cache_by_the_formula_is_the_one_that_is_stated() -> None:
    [check] = account(started(version="0.11.0")).tap.checks
    assert check.predicted.least <= check.stated.number <= check.predicted.most


def test_less_than_the_margin_is_told_with_what_leaves_it() -> None:
    tap = account(started(version="0.11.0")).tap
    assert tap.best is not None
    assert tap.best.value == 0.88
    assert tap.best.left.number >= GIB


def test_no_utilization_is_told_above_what_was_free_at_the_start() -> None:
    """The engine refuses to start with less free than total x utilization."""
    tap = account(started(version="0.11.0", free="40.50"), margin=0).tap
    assert tap.best is not None
    assert tap.best.value <= 40.50 / 44.42


def test_the_printed_suggestion_is_put_right_where_graphs_are_counted_twice() -> None:
    for version, wrong in (("0.28.0", False), ("0.29.0", True), ("0.33.0", True), ("0.34.0", False)):
        says = [line for line in account(started(version=version)).tap.says if "57936" in line]
        assert bool(says) == wrong, version
        if wrong:
            right = 7_000_000_000 + round(3.45 * GIB)
            assert f"{right} bytes" in says[0]


def test_v0_prints_its_own_ledger() -> None:
    found = account(
        log(
            "v0.log",
            "INFO 09-12 10:00:00 api_server.py:1] vLLM API server version 0.7.3",
            "INFO 09-12 10:00:01 worker.py:1] the current vLLM instance can use total_gpu_memory (23.58GiB) x"
            " gpu_memory_utilization (0.90) = 21.22GiB",
            "INFO 09-12 10:00:01 worker.py:1] model weights take 14.99GiB; non_torch_memory takes 0.06GiB; PyTorch"
            " activation peak memory takes 1.20GiB; the rest of the memory reserved for KV Cache is 4.97GiB.",
            "INFO 09-12 10:00:01 executor_base.py:1] # cuda blocks: 2544, # CPU blocks: 2048",
            "INFO:     Application startup complete.",
        )
    )
    assert in_gib(found)["outside the share"] == 2.36
    rest = found.ledgers[0].unaccounted
    assert rest.least <= 0 <= rest.most
    assert found.tap.settings == ()
    assert found.tap.each is not None


def test_without_a_total_the_parts_are_told_and_no_rest() -> None:
    item = log("vllm.log", *vllm_start(64_000, 7.81, "Available KV cache memory: 5.16 GiB", version="0.19.0"))
    found = account(item)
    assert in_gib(found) == {"KV cache": 5.16}
    assert not found.ledgers[0].unaccounted.known
    assert "Free memory on device" in found.tap.unknown
