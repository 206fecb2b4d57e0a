from __future__ import annotations

from tests.evidence import log, start, vllm_start
from ullage.evidence import Evidence
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

AVAILABLE = "Available KV cache memory: 5.16 GiB"
ESTIMATED = "Estimated CUDA graph memory: 6.24 GiB total"
EQUIVALENT = (
    "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.6200 is"
    " equivalent to --gpu-memory-utilization=0.5413 without CUDA graph memory profiling. To maintain the same effective"
    " KV cache size as before, increase --gpu-memory-utilization to 0.6987."
)
LEDGER = (
    "Free memory on device (43.93/44.42 GiB) on startup. Desired GPU memory utilization is ({}, {} GiB). Actual usage"
    " is 27.72 GiB for weight, 1.4 GiB for peak activation, 0.21 GiB for non-torch memory, and 3.45 GiB for CUDAGraph"
    " memory."
)
ACTUAL = "CUDA graph pool memory: {} GiB (actual), {} GiB (estimated), difference: 1.2 GiB (50.0%)."


def started(*lines: str, version: str) -> Evidence:
    return log("vllm.log", *vllm_start(64_000, 7.81, *lines, version=version))


OUTSIDE = (
    Scenario(
        fires=(started(LEDGER.format(0.95, 42.2), version="0.11.0"),),
        silent=(started(LEDGER.format(0.9, 39.98), version="0.11.0"),),
        says=("graphs take 3.45 of the 2.22 GiB outside the share",),
        advice="--gpu-memory-utilization 0.89",
        severity=Severity.WARNING,
    ),
    Scenario(  # since 0.20 they are inside
        fires=(started(LEDGER.format(0.92, 40.87), version="0.19.1"),),
        silent=(started(LEDGER.format(0.92, 40.87), version="0.20.0"),),
        says=("0.10 GiB are left",),
        advice="--enforce-eager",
        severity=Severity.WARNING,
    ),
)
INSIDE = (
    Scenario(
        fires=(started(ESTIMATED, AVAILABLE, EQUIVALENT, version="0.21.0"),),
        silent=(started(ESTIMATED.replace("6.24", "0.2"), AVAILABLE, version="0.21.0"),),
        says=("6.24 GiB", "5.16 GiB, 55% less"),
        advice="--gpu-memory-utilization to 0.6987",
        severity=Severity.INFO,
    ),
)
OFF = (
    Scenario(
        fires=(started(ACTUAL.format(1.2, 2.4), version="0.26.0"),),
        silent=(started(ACTUAL.format(2.2, 2.4), version="0.26.0"),),
        says=("2.40 GiB were estimated, 1.20 GiB taken", "1.20 GiB smaller for nothing"),
        advice="raise --gpu-memory-utilization by 1.20 GiB",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(started(ACTUAL.format(2.4, 1.2), version="0.29.0"),),
        silent=(started(ACTUAL.format(1.3, 1.2), version="0.29.0"),),
        says=("1.20 GiB come out of what is outside the share",),
        advice="lower --gpu-memory-utilization",
        severity=Severity.WARNING,
    ),
)
V4 = "DSv4 memory calculation: bytes_per_full_token=15897.45, available_bytes=24.16 GB, full_token=1632000"


def begun(left: float, *besides: str, tokens: int = 1_632_000, **given: object) -> Evidence:
    """A start of SGLang with 93.70 GiB, that leaves so much."""
    lines = start(tokens, *besides, tp_size=1, **{"mem_fraction_static": 0.7, "running": 256, **given})
    return log("sglang.log", *(line.replace("available_gpu_mem=9.81", f"available_gpu_mem={left}") for line in lines))


IDLE = (
    Scenario(
        fires=(begun(27.67, V4),),
        silent=(begun(9.5, V4),),
        says=("27.67 GiB of each GPU were idle", "0.7"),
        advice="up to 0.9: about 2,897,664 tokens",
        severity=Severity.INFO,
    ),
    Scenario(  # the running requests limit, and not the pool
        fires=(begun(27.67, V4, running=256),),
        silent=(begun(27.67, V4, running=4),),
        says=("27.67 GiB",),
        advice="--mem-fraction-static",
        severity=Severity.INFO,
    ),
    Scenario(  # more of the fraction buys nothing
        fires=(begun(27.67, V4),),
        silent=(begun(27.67, V4, max_total_tokens=1_632_000),),
        says=("27.67 GiB",),
        advice="--mem-fraction-static",
        severity=Severity.INFO,
    ),
)
LITTLE = (
    Scenario(
        fires=(begun(1.2, mem_fraction_static=0.9),),
        silent=(begun(2.1, mem_fraction_static=0.9),),
        says=("1.20 GiB of 93.70",),
        advice="--mem-fraction-static 0.85",
        severity=Severity.WARNING,
    ),
)
LONG = (
    Scenario(
        fires=(begun(3.5, V4, context=524_288),),
        silent=(begun(4.5, V4, context=524_288),),
        says=("4.00 GiB", "3.50 GiB are left"),
        advice="--chunked-prefill-size 3584",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "memory-idle": IDLE,
    "little-left-for-a-step": LITTLE,
    "long-prompt-above-what-is-left": LONG,
    "graphs-outside-the-share": OUTSIDE,
    "graphs-inside-the-share": INSIDE,
    "graph-estimate-off": OFF,
}
