from __future__ import annotations

from tests.evidence import (
    URL,
    argv,
    decode_batch,
    document,
    gauges,
    log,
    metrics,
    start,
    vllm_cache,
    vllm_gauges,
    vllm_start,
)
from ullage.evidence import Evidence
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

FLASH = {"model_path": "/models/DeepSeek-V4-Flash", "page_size": 256}
PREFILL = {"disaggregation_mode": "prefill", "mem_fraction_static": 0.78}
SIZING = "DSv4 memory calculation: bytes_per_full_token={}, available_bytes=32.09 GB, full_token=2138368"
SIZES = "DSv4 pool sizes: full=2138368, swa={}, c4=534592, c128=16706, c4_state=6680, c128_state=106880"
STATES = "Mamba Cache is allocated. max_mamba_cache_size: 96, conv_state size: 0.50GB, ssm_state size: {}GB"
DRAFTED = ", intermediate_ssm_state_cache size: 5.00GB, intermediate_conv_window_cache size: 0.75GB"
KV = "KV Cache is allocated. #tokens: 100000, K size: 4.00 GB, V size: 4.00 GB"


def prefill(version: str | None, *lines: str) -> tuple[Evidence, ...]:
    info = {"internal_states": [{"memory_usage": {"token_capacity": 2138368}}], "version": version}
    return (
        log("prefill.log", *start(2138368, *lines, context=524288, running=256, **FLASH, **PREFILL)),
        document(URL, "server_info", info | FLASH | PREFILL),
    )


def ranked(pool: int, evictable: int, used: int, ranks: int) -> Evidence:
    """A metrics page of data-parallel ranks that are all alike."""
    labels = 'model_name="small",tp_rank="0",dp_rank="{}"'
    values = {"max_total_num_tokens": pool, "kv_evictable_tokens": evictable, "num_used_tokens": used}
    return metrics(
        URL, *(f"sglang:{n}{{{labels.format(rank)}}} {v}" for rank in range(ranks) for n, v in values.items())
    )


BELOW = (
    Scenario(
        fires=(log("start.log", *start(100_000, context=131_072)),),
        silent=(log("start.log", *start(131_072, context=131_072)),),
        says=("131,072", "100,000"),
        advice="--context-length 99328",
        severity=Severity.WARNING,
    ),
)
CAP = (
    Scenario(
        fires=prefill("0.5.12", SIZES.format(213760)),
        silent=prefill("0.5.13", SIZES.format(213760)),
        says=("213,760", "refused with 400"),
        advice="--swa-full-tokens-ratio",
        severity=Severity.ERROR,
    ),
    Scenario(  # the version is not known, so both answers are given; the window pool is not stated, so it is inferred
        fires=prefill(None),
        silent=(log("decode.log", *start(2138368, context=524288, disaggregation_mode="decode", **FLASH)),),
        says=("524,288", "213,760", "0.5.13"),
        advice="upgrade",
        severity=Severity.WARNING,
    ),
    Scenario(  # window models other than DeepSeek-V4 keep the cap
        fires=(log("p.log", *start(100_000, "full_layer_tokens=100000, swa_layer_tokens=20000", **PREFILL)),),
        silent=(log("p.log", *start(100_000, "full_layer_tokens=100000, swa_layer_tokens=80000", **PREFILL)),),
        says=("20,000",),
        advice="--swa-full-tokens-ratio",
        severity=Severity.ERROR,
    ),
)
SLOTS = (
    Scenario(
        fires=(log("start.log", *start(1_000_000, running=64)),),
        silent=(log("start.log", *start(1_000_000, running=4096, page_size=256)),),
        says=("64 request slots bind",),
        advice="set --max-running-requests 244: by",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(log("start.log", *start(1_000_000, running=64), decode_batch(1, 500_000, 0.5, 64, queue_req=9)),),
        silent=(log("start.log", *start(1_000_000, disaggregation_mode="prefill")),),
        says=("64 request slots", "9 wait", "50%"),
        advice="the KV pool admits 244 of 4,096",
        severity=Severity.WARNING,
    ),
    Scenario(  # 80 requests over two ranks do not fill the 64 slots that each of them has
        fires=(
            log("start.log", *start(1_000_000, running=64, dp_size=2)),
            metrics(URL, *gauges(num_running_reqs=80, token_usage=0.1, num_queue_reqs=9)),
        ),
        silent=(log("start.log", *start(1_000_000, running=4096, dp_size=2, page_size=256)),),
        says=("128 request slots bind",),
        advice="set --max-running-requests 488",
        severity=Severity.INFO,
    ),
    Scenario(  # nobody asked for as few: three slots a request are what lowered it
        fires=(log("start.log", *start(1_000_000, STATES.format("5.00"), running=32, disable_radix_cache=False)),),
        silent=(log("start.log", *start(1_000_000, STATES.format("5.00"), running=4096, page_size=256)),),
        says=("32 request slots bind",),
        advice="give it more state slots",
        severity=Severity.INFO,
    ),
)
WINDOW = (
    Scenario(
        fires=(log("start.log", *start(2138368, SIZING.format(15897.45), **FLASH)),),
        silent=(log("start.log", *start(2138368, SIZING.format(3899.25), **FLASH)),),
        says=("15,897.45", "3,850.25"),
        advice="--swa-full-tokens-ratio 0.05",
        severity=Severity.INFO,
    ),
)
RECURRENT = (
    Scenario(
        fires=(log("start.log", *start(100_000, STATES.format("20.00"), KV)),),
        silent=(log("start.log", *start(100_000, STATES.format("2.00"), KV)),),
        says=("20.50 GiB", "8.00 GiB"),
        advice="--mamba-full-memory-ratio",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(log("start.log", *start(100_000, STATES.format("8.00") + DRAFTED, KV)),),
        silent=(log("start.log", *start(100_000, STATES.format("8.00"), KV)),),
        says=("14.25 GiB",),
        advice="--max-mamba-cache-size",
        severity=Severity.INFO,
    ),
)
CHUNK = (
    Scenario(
        fires=(log("start.log", *start(100_000, chunk=32_768, budget=16_384)),),
        silent=(log("start.log", *start(100_000, chunk=16_384, budget=16_384)),),
        says=("32,768", "16,384"),
        advice="--max-prefill-tokens to 32768",
        severity=Severity.INFO,
    ),
)
CACHE = (
    Scenario(
        fires=(ranked(100_000, evictable=85_000, used=5_000, ranks=1),),
        silent=(ranked(100_000, evictable=25_000, used=65_000, ranks=1),),
        says=("85,000 of 100,000", "5,000"),
        advice="nothing to do",
        severity=Severity.INFO,
    ),
    Scenario(  # what ranks use adds up, and so do their pools
        fires=(ranked(100_000, evictable=70_000, used=20_000, ranks=4),),
        silent=(ranked(100_000, evictable=25_000, used=1_000, ranks=4),),
        says=("280,000 of 400,000", "80,000"),
        advice="nothing to do",
        severity=Severity.INFO,
    ),
)


def of_vllm(*besides: str, slots: int) -> tuple[Evidence, ...]:
    """A vLLM server of 4,000 blocks, as its page and its command line state it."""
    cache = vllm_cache(num_gpu_blocks=4001, kv_cache_size_tokens=64_016, kv_cache_max_concurrency=7.814453125)
    return argv(f"vllm serve small --max-num-seqs {slots}", URL), metrics(URL, cache, *besides)


BUSY = {"num_requests_running": 8, "num_requests_waiting": 9, "kv_cache_usage_perc": 0.2}
SLOTS_OF_VLLM = (
    Scenario(  # 4,000 blocks of 16 tokens: nine times 444 blocks
        fires=of_vllm(slots=8),
        silent=of_vllm(slots=64),
        says=("up to 7,104 tokens a request, 8 request slots bind",),
        advice="set --max-num-seqs 15",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=of_vllm(*vllm_gauges(**BUSY), slots=8),
        silent=of_vllm(*vllm_gauges(**BUSY), slots=64),
        says=("now 9 wait at 20% KV use",),
        advice="--max-num-seqs",
        severity=Severity.WARNING,
    ),
)
BELOW_OF_VLLM = (
    Scenario(  # a pool that was overridden: half a context, and the server runs
        fires=(log("vllm.log", *vllm_start(4096, 0.5)),),
        silent=(log("vllm.log", *vllm_start(16_384, 2.0)),),
        says=("8,192 tokens by the context length, but the pool holds 4,080", "is never served"),
        advice="--max-model-len 3072, or raise --gpu-memory-utilization",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "pool-below-context": (*BELOW, *BELOW_OF_VLLM),
    "prefill-window-cap": CAP,
    "slots-bind-before-kv": (*SLOTS, *SLOTS_OF_VLLM),
    "window-takes-the-pool": WINDOW,
    "states-take-the-pool": RECURRENT,
    "chunk-above-prefill-budget": CHUNK,
    "full-of-cache": CACHE,
}
