"""Ledgers of vLLM's start-up lines by version, and what more utilization would buy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.evidence import log, vllm_start
from ullage.engines.ledger import Account, accounts_of
from ullage.engines.read import read
from ullage.engines.vllm.ledger import graphs_inside
from ullage.evidence import Evidence
from ullage.units import GIB

LEDGER = (
    "Free memory on device ({}/44.42 GiB) on startup. Desired GPU memory utilization is (0.9, 39.98 GiB). Actual usage"
    " is 27.72 GiB for weight, 1.4 GiB for peak activation, 0.21 GiB for non-torch memory, and 3.45 GiB for CUDAGraph"
    " memory. Replace gpu_memory_utilization config with `--kv-cache-memory={}` to fit into requested memory, or"
    " `--kv-cache-memory=1` to fully utilize gpu memory. Current kv cache memory in use is {} bytes."
)
HELD = 11_435_450_368  # 39.98 - 27.72 - 1.4 - 0.21 GiB: all that the share leaves


def account(item: Evidence, margin: int = GIB) -> Account:
    [found] = accounts_of(read([item])[0], [item], margin)[0]
    return found


def started(
    *lines: str,
    version: str,
    free: str = "43.93",
    suggested: int = 7_000_000_000,
    held: int = HELD,
    batched: int | None = None,
) -> Evidence:
    given: dict[str, Any] = {"max_num_batched_tokens": batched} if batched else {}
    every = (LEDGER.format(free, suggested, held), *lines)
    return log("vllm.log", *vllm_start(238_208, 29.08, *every, version=version, **given))


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
    assert kv.size.value == HELD


@pytest.mark.parametrize("version", ["0.11.0", "0.19.1", "0.20.0", "0.29.0"])
def test_the_cache_tells_whether_graphs_are_inside_the_share_whatever_the_version(version: str) -> None:
    """The share leaves 10.65 GiB for the cache where they are outside of it, and 3.45 less where they are inside."""
    name, graphs = "left by --gpu-memory-utilization", round(3.45 * GIB)
    outside, inside = (account(started(version=version, held=held)) for held in (HELD, HELD - graphs))
    assert round(in_gib(inside)[name] - in_gib(outside)[name], 2) == 3.45
    for found in (outside, inside):
        assert found.ledgers[0].unaccounted.least <= 0 <= found.ledgers[0].unaccounted.most


def test_graphs_are_outside_the_share_before_0_20_and_inside_since_where_no_line_tells_the_cache() -> None:
    for version, inside in (("0.19.1", False), ("0.20.0", True)):
        line = LEDGER.format("43.93", 7_000_000_000, 1).split(" Current kv")[0]
        start = vllm_start(238_208, 29.08, line, version=version)
        figures = {n: f for n, f in account(log("vllm.log", *start)).server.figures.items() if f.known}
        assert graphs_inside(figures) == inside


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


def one_line(
    consumed: str, graphs: float, budget: float = 87.37, peak: float = 5.0, suggested: int = 1, free: float = 94.20
) -> str:
    return (
        f"Free memory on device ({free:.2f}/94.97 GiB) on startup. Desired GPU memory utilization is (0.92, {budget}"
        f" GiB). Actual usage is {consumed.format(peak)}, and {graphs} GiB for CUDAGraph memory."
        f" Replace gpu_memory_utilization config with `--kv-cache-memory={suggested}` to fit into requested memory."
    )


MERGED = "40.0 GiB for consumed memory (weights and non-torch), {} GiB for peak activation"
APART = "39.5 GiB for weight, {} GiB for peak activation, 0.5 GiB for non-torch memory"


def of(*lines: str, version: str, **given: Any) -> Account:
    return account(log("vllm.log", *vllm_start(300_000, 9.0, *lines, version=version, **given)))


def sums(found: Account) -> bool:
    [led] = found.ledgers
    return sum(part.size.count for part in led.parts) + led.unaccounted.count == led.whole.count


def test_what_was_estimated_for_graphs_and_not_taken_is_idle_inside_the_share() -> None:
    lines = ("Estimated CUDA graph memory: 3.0 GiB total", "Available KV cache memory: 39.37 GiB")
    found = of(*lines, one_line(MERGED, 2.4), version="0.29.0")
    assert sums(found)
    assert in_gib(found)["kept for graphs, not taken"] == 0.6
    assert in_gib(found)["left by --gpu-memory-utilization"] == round(94.20 - 87.37, 2)
    assert found.ledgers[0].unaccounted.least <= 0 <= found.ledgers[0].unaccounted.most


def test_graphs_above_their_estimate_come_out_of_what_is_outside() -> None:
    lines = ("Estimated CUDA graph memory: 3.0 GiB total", "Available KV cache memory: 39.37 GiB")
    found = of(*lines, one_line(MERGED, 4.5), version="0.29.0")
    assert sums(found)
    assert in_gib(found)["left by --gpu-memory-utilization"] == round(94.20 - 87.37 - 1.5, 2)
    assert found.ledgers[0].unaccounted.least <= 0 <= found.ledgers[0].unaccounted.most


def test_an_estimate_that_was_only_printed_is_not_taken_out_of_the_share() -> None:
    """0.18 and 0.19 print it, and take it out only where they were asked to: what is left for the pool tells."""
    estimated = "Estimated CUDA graph memory: 3.0 GiB total"
    for available, outside in (("42.37", True), ("39.37", False)):
        found = of(estimated, f"Available KV cache memory: {available} GiB", one_line(APART, 3.0), version="0.19.1")
        left = in_gib(found)["left by --gpu-memory-utilization"]
        assert left == round(94.20 - 87.37 - (3.0 if outside else 0), 2)
        assert found.ledgers[0].unaccounted.least <= 0 <= found.ledgers[0].unaccounted.most


def test_the_line_of_0_29_tells_its_age_where_no_version_is_stated() -> None:
    item = log("vllm.log", one_line(MERGED, 3.0, suggested=7_000_000_000), "GPU KV cache size: 300,000 tokens")
    [said] = [line for line in account(item).tap.says if "57936" in line]
    assert f"{7_000_000_000 + 3 * GIB} bytes" in said


def test_a_suggestion_below_zero_is_put_right() -> None:
    """Requested 87.37 - consumed 40 - peak 5 - graphs 22 - 150 MiB fit; the graphs were taken from it once more."""
    fits = 87.37 - 40 - 5 - 22 - 150 / 1024
    found = of(one_line(MERGED, 22.0, suggested=round((fits - 22.0) * GIB)), version="0.30.0")
    printed = found.server.figure("suggested_kv_cache_memory_bytes")
    assert printed.number < 0
    [said] = [line for line in found.tap.says if "57936" in line]
    assert f"--kv-cache-memory={printed.value}," in said
    assert "(20.22 GiB) fit" in said


def profiled(share: float, shortfall: float | None, graphs: float, version: str = "0.31.0") -> Account:
    """A start on a GPU of 80.00 GiB whose model takes 50.00 + 1.00, with a peak of 4.00."""
    budget = 80 * share
    pool = budget - 55 if shortfall is None else -shortfall
    lines = (
        f"Available KV cache memory: {pool:.2f} GiB",
        f"Free memory on device (79.50/80.0 GiB) on startup. Desired GPU memory utilization is ({share}, {budget:.2f}"
        " GiB). Actual usage is 50.0 GiB for weight, 4.0 GiB for peak activation, 1.0 GiB for non-torch memory, and"
        f" {graphs} GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1`",
    )
    return account(log("vllm.log", *vllm_start(100_000, 12.2, *lines, version=version)))


def test_graphs_whose_estimate_was_not_taken_out_are_outside_the_share() -> None:
    """80 x 0.9 = 72 = 50 + 1 + 4 + 17: nothing of the share was kept for graphs, though the version keeps some."""
    found = profiled(0.9, None, 2.0)
    assert in_gib(found)["left by --gpu-memory-utilization"] == round(80 - 72 - 0.5 - 2, 2)
    assert found.ledgers[0].unaccounted.least <= 0 <= found.ledgers[0].unaccounted.most


def test_a_share_that_leaves_nothing_for_the_cache_says_by_how_much() -> None:
    """80 x 0.65 = 52, and 55 are taken: 3 GiB short. 55 / 80 = 0.6875 is where a pool begins."""
    found = profiled(0.65, 3.0, 0.0)
    assert "KV cache" not in in_gib(found)
    assert "3.00 GiB more than the share" in found.tap.unknown
    assert "above 0.688" in found.tap.unknown
    assert any("3.00 GiB above the share" in note for note in found.server.notes)
    assert "no GPU has" in profiled(0.97, 3.0, 0.0).tap.unknown


def test_a_pool_in_bytes_takes_nothing_from_the_share() -> None:
    reserved = (
        "Initial free memory 94.2 GiB, reserved 18.63 GiB memory for KV Cache as specified by kv_cache_memory_bytes"
    )
    found = of(reserved, version="0.15.0", kv_cache_memory_bytes=20_000_000_000)
    assert found.tap.lever == "--kv-cache-memory-bytes"
    assert found.tap.settings == ()
    assert f"+1 GiB buys {GIB * 300_000 // 20_000_000_000:,} tokens" in found.tap.unknown
    [led] = found.ledgers
    assert led.of_whole == "free when the engine began"
    assert led.unaccounted.number == led.whole.number - 20_000_000_000


def test_blocks_that_were_asked_for_leave_memory_inside_the_share() -> None:
    override = "Overriding num_gpu_blocks=18750 with num_gpu_blocks_override=9375"
    lines = (override, "Available KV cache memory: 42.37 GiB", one_line(APART, 3.0))
    found = of(*lines, version="0.15.0", num_gpu_blocks_override=9375)
    assert sums(found)
    assert found.tap.lever == "--num-gpu-blocks-override"
    assert found.tap.settings == ()
    assert abs(in_gib(found)["left by --num-gpu-blocks-override"] - 42.37 / 2) < 0.02
    assert found.ledgers[0].unaccounted.least <= 0 <= found.ledgers[0].unaccounted.most


def test_a_start_that_was_refused_has_taken_nothing() -> None:
    refused = (
        "ValueError: Free memory on device cuda:0 (36.75/121.63 GiB) on startup is less than desired GPU memory"
        " utilization (0.85, 103.38 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    found = account(log("vllm.log", f"(EngineCore_DP0 pid=9) ERROR 09-12 10:00:01 [core.py:1] {refused}"))
    assert in_gib(found) == {"before the engine began": 84.88, "free when it was refused": 36.75}
    assert found.ledgers[0].remarks == ()
    assert "0.3 is the most that starts" in found.tap.unknown


def test_a_start_that_was_refused_for_its_context_says_what_it_needs() -> None:
    refused = (
        "(EngineCore pid=9) ERROR 09-12 10:00:30 [core.py:1] ValueError: To serve at least one request with the model's"
        " max seq len (32000), (1.1 GiB KV cache is needed, which is larger than the available KV cache memory (0.59"
        " GiB)."
    )
    found = account(log("vllm.log", *vllm_start(1, 1.0, "Available KV cache memory: 0.59 GiB")[:4], refused))
    assert "one request takes 1.10 GiB of KV, and 0.59 GiB are there" in found.tap.unknown
    assert found.ledgers[0].remarks == ("the start was refused: what it took and found was given back when it ended",)


@pytest.mark.parametrize(
    ("lines", "words", "others"),
    [
        (("Available KV cache memory: 36.56 GiB",), "'GPU KV cache size'", "'Available KV cache memory'"),
        (("GPU KV cache size: 64,000 tokens", "Model loading took 9.5 GiB"), "'Available KV cache memory'", "size'"),
        (("Model loading took 9.5 GiB",), "'GPU KV cache size'); no line", "nothing of its memory"),
        (("GPU KV cache size: 64,000 tokens",), "nothing of its memory is part of the evidence", "no line states"),
    ],
)
def test_what_is_not_told_is_named_by_the_line_that_tells_it(lines: tuple[str, ...], words: str, others: str) -> None:
    unknown = account(log("vllm.log", *(f"INFO 09-12 10:00:20 [x.py:1] {line}" for line in lines))).tap.unknown
    assert words in unknown
    assert others not in unknown


def test_workers_that_differ_tell_the_total_by_the_lines_of_one() -> None:
    """Two GPUs of 80 GiB: the estimates and what they are of the GPU are of the worker with least for its cache."""
    lines = [
        f"(Worker_TP{rank} pid={rank}) INFO 09-12 10:00:20 [gpu_worker.py:1] {line}"
        for rank, graphs, pool in ((0, 2.0, 30.0), (1, 4.0, 28.0))
        for line in (
            f"Estimated CUDA graph memory: {graphs:.2f} GiB total",
            f"Available KV cache memory: {pool} GiB",
            f"The current --gpu-memory-utilization=0.9000 is equivalent to --gpu-memory-utilization"
            f"={0.9 - graphs / 80:.4f} without CUDA graph memory profiling. To maintain the same effective KV cache"
            f" size as before, increase --gpu-memory-utilization to {0.9 + graphs / 80:.4f}.",
        )
    ]
    for order in (lines, lines[::-1]):
        [led] = account(log("vllm.log", *vllm_start(300_000, 9.0, *order))).ledgers
        assert led.whole.least <= 80 * GIB <= led.whole.most


def test_the_pool_of_the_highest_share_is_told_in_bytes() -> None:
    found = account(started(version="0.11.0"), margin=100 * 2**20)
    assert found.tap.best is not None
    [said] = [line for line in found.tap.says if line.startswith("--kv-cache-memory-bytes")]
    more = (found.tap.best.value - 0.9) * found.ledgers[0].whole.number
    assert int(said.split()[1]) == int(HELD + more)


def test_half_the_token_budget_is_told_in_tokens() -> None:
    found = account(started(version="0.11.0", batched=8192))
    [way] = [way for way in found.tap.ways if "--max-num-batched-tokens 4096" in way.what]
    assert way.worth is not None
    assert abs(way.worth.number - 0.7 * GIB / (HELD / 238_208)) < 2
    assert way.by == "at the same share"
    [graphs] = [way for way in found.tap.ways if "graph" in way.what]
    assert graphs.by == "by a higher share"


def test_the_summary_of_ascends_workers_is_read_too() -> None:
    """vllm-ascend (worker.py, 2026) says it in nearly the same words. 60 x 0.8 = 48 = 20.5 + 0.2 + 0.3 + 27."""
    line = (
        "(EngineCore pid=9) INFO 08-05 09:38:15 [worker.py:1029] Free memory on device (59.50/60.0 GiB) on startup."
        " Desired GPU memory utilization is (0.8, 48.0 GiB). Actual usage: 20.5 GiB for weights, 0.3 GiB for peak"
        " activation, 0.2 GiB for non-torch memory, 0.72 GiB for NPU graph memory. Replace gpu_memory_utilization with"
        " `--kv-cache-memory=28800000000` (26.82 GiB) to fit into requested memory."
    )
    found = account(log("vllm.log", *vllm_start(64_000, 7.81, "Available KV cache memory: 27.0 GiB"), line))
    assert in_gib(found)["graphs"] == 0.72
    assert in_gib(found)["left by --gpu-memory-utilization"] == round(60 - 48 - 0.5 - 0.72, 2)
    assert found.ledgers[0].unaccounted.least <= 0 <= found.ledgers[0].unaccounted.most


def estimated(total: float, graphs: float, share: float, version: str = "0.25.0", *, to: str = "") -> Account:
    """A start of 40 GiB of weights that prints no summary, on a GPU of so many GiB."""
    part = graphs / total
    line = (
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current"
        f" --gpu-memory-utilization={share:.4f} is equivalent to --gpu-memory-utilization={share - part:.4f} without"
        " CUDA graph memory profiling. To maintain the same effective KV cache size as before, increase"
        f" --gpu-memory-utilization to {min(share + part, 1):.4f}."
    )
    asked = f"{to} --gpu-memory-utilization from {share:.4f} to {share + part:.4f} to maintain the same KV cache size."
    pool = total * share - 40 - 3 - (0 if to else graphs)  # 3 GiB for a step and the rest
    return account(
        log(
            "vllm.log",
            *vllm_start(
                300_000,
                9.0,
                "Model loading took 40.0 GiB memory and 7.0 seconds",
                f"Estimated CUDA graph memory: {graphs:.2f} GiB total",
                f"Available KV cache memory: {pool:.2f} GiB",
                asked if to else line,
                version=version,
            ),
        )
    )


@given(
    st.sampled_from([61.0, 79.2, 94.97, 121.7]),
    st.decimals("1.2", "8", places=2).map(float),
    st.decimals("0.85", "0.95", places=2).map(float),
    st.sampled_from(["", "increase", "Consider re-enabling it and increasing"]),
)
def test_the_share_that_the_graphs_are_tells_the_gpus_total(total: float, graphs: float, share: float, to: str) -> None:
    assume(share + graphs / total < 1 or not to)
    found = estimated(total, graphs, share, "0.19.1" if to else "0.25.0", to=to)
    [led] = found.ledgers
    assert led.whole.least <= total * GIB <= led.whole.most
    assert led.whole.most - led.whole.least <= 0.05 * led.whole.least
    assert sums(found)
    assert led.unaccounted.least <= 3 * GIB <= led.unaccounted.most
    assert {f.name for f in led.unknown} == {"idle now", "activation peak", "non-torch memory"}
    cache, each = led.part("KV cache"), found.tap.each
    assert cache is not None
    assert each is not None
    assert each.least <= 0.01 * total * GIB / (cache.size.number / 300_000) <= each.most


def test_what_graphs_left_inside_the_share_is_not_all_that_is_idle() -> None:
    """What of the rest of the GPU is nobody's is not told, so no share is advised."""
    lines = ("Estimated CUDA graph memory: 4.0 GiB total", "Graph capturing finished in 2 secs, took 1.0 GiB")
    equal = "The current --gpu-memory-utilization=0.9000 is equivalent to --gpu-memory-utilization=0.8500 without,"
    found = of(
        *lines,
        f"{equal} increase --gpu-memory-utilization to 0.95.",
        "Available KV cache memory: 25.0 GiB",
        version="0.25",
    )
    assert in_gib(found)["kept for graphs, not taken"] == 3.0
    assert found.tap.left is None
    assert found.tap.settings == ()
    assert found.tap.each is not None


@pytest.mark.parametrize(("graphs", "share"), [(0.05, 0.9), (-1.72, 0.9)])
def test_an_estimate_that_is_too_small_tells_no_total(graphs: float, share: float) -> None:
    [led] = estimated(79.2, graphs, share).ledgers
    assert not led.whole.known


def test_a_total_that_is_stated_is_not_reckoned() -> None:
    lines = ("Estimated CUDA graph memory: 3.0 GiB total", "Available KV cache memory: 39.37 GiB")
    equal = (
        "The current --gpu-memory-utilization=0.92 is equivalent to --gpu-memory-utilization=0.8800 without, increase"
    )
    found = of(*lines, f"{equal} --gpu-memory-utilization to 0.96.", one_line(MERGED, 2.4), version="0.29.0")
    assert found.ledgers[0].whole.number == round(94.97 * GIB)
