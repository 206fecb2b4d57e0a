from __future__ import annotations

from tests.evidence import DAY, URL, argv, document, log, metrics, start, vllm_cache, vllm_gauges, vllm_start
from ullage.evidence import Evidence
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

LAUNCH = "python -m sglang.launch_server --model-path /models/small --port 30000"


def rank_lines(*tokens: int) -> tuple[str, ...]:
    """The KV line of each data-parallel rank."""
    return tuple(
        f"[{DAY} 10:00:31 DP{n} TP{n}] KV Cache is allocated. #tokens: {size}, K size: 4.00 GB, V size: 4.00 GB"
        for n, size in enumerate(tokens)
    )


def replica(port: int, tokens: int, **arguments: object) -> Evidence:
    return log(f"{port}.log", *start(tokens, port=port, **arguments))


def info(*tokens: int, **arguments: object) -> Evidence:
    states = [{"memory_usage": {"token_capacity": size}} for size in tokens]
    common = {"model_path": "/models/small", "port": 30000, "internal_states": states}
    return document(URL, "server_info", common | arguments)


def pages(*tokens: int) -> Evidence:
    lines = (f'sglang:max_total_num_tokens{{model_name="small",dp_rank="{n}"}} {t}' for n, t in enumerate(tokens))
    return metrics(URL, *lines)


def loads(*tokens: int) -> Evidence:
    found = [{"dp_rank": n, "num_running_reqs": 1, "max_total_num_tokens": t} for n, t in enumerate(tokens)]
    return document(URL, "loads", {"loads": found})


EARLIER = (
    Scenario(
        fires=(
            log(
                "journal.log",
                *start(2_265_088, mem_fraction_static=0.80, at="09:00"),
                *start(2_138_368, mem_fraction_static=0.78),
            ),
        ),
        silent=(log("journal.log", *start(2_138_368, at="09:00"), *start(2_138_368)),),
        says=("2,265,088 (now 2,138,368)", "mem_fraction_static 0.8 (now 0.78)", f"{DAY} 09:00:00"),
        advice="current start only",
        severity=Severity.INFO,
    ),
)
RANKS = (
    Scenario(
        fires=(info(100_000, 90_000, dp_size=2),),
        silent=(info(100_000, 100_000, dp_size=2),),
        says=("DP0 100,000", "DP1 90,000"),
        advice="smaller rank",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(pages(100_000, 90_000),),
        silent=(pages(90_000, 90_000),),
        says=("DP0 100,000", "DP1 90,000"),
        advice="smaller rank",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(loads(100_000, 90_000),),
        silent=(loads(90_000),),
        says=("DP0 100,000", "DP1 90,000"),
        advice="smaller rank",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("start.log", *start(90_000, dp_size=2), *rank_lines(100_000, 90_000)),),
        silent=(log("start.log", *start(90_000, dp_size=2), *rank_lines(90_000, 90_000)),),
        says=("DP0 100,000", "DP1 90,000"),
        advice="restart it",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(replica(30000, 100_000), replica(30001, 60_000)),
        silent=(replica(30000, 100_000), replica(30001, 60_000, model_path="/models/other")),
        says=("max_total_num_tokens differs", "100,000", "60,000"),
        advice="same flags",
        severity=Severity.WARNING,
    ),
)
SOURCES = (
    Scenario(
        fires=(info(100_000, version="0.5.9"), log("start.log", *start(90_000))),
        silent=(info(100_000), log("start.log", *start(100_000))),
        says=("max_total_num_tokens", "100,000", "90,000", "start.log", URL),
        advice="using the first",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(info(100_000, mem_fraction_static=0.8), argv(f"{LAUNCH} --mem-fraction-static 0.9")),
        silent=(info(100_000, mem_fraction_static=0.8), argv(f"{LAUNCH} --mem-fraction-static 0.80")),
        says=("mem_fraction_static", "0.8", "0.9", "--flags"),
        advice="arguments outrank a command line",
        severity=Severity.WARNING,
    ),
)
FLASH = {"model": "deepseek-ai/DeepSeek-V4-Flash", "length": 262_144, "version": "0.26.0"}


def flash(tokens: int, concurrency: float) -> tuple[Evidence, ...]:
    """A log, and the page of the same server with these figures (vllm-project/vllm issue 50456)."""
    cache = vllm_cache(num_gpu_blocks=9000, kv_cache_size_tokens=tokens, kv_cache_max_concurrency=concurrency)
    page = metrics("page.txt", cache, *vllm_gauges(num_requests_running=0, num_requests_waiting=0))
    return log("vllm.log", *vllm_start(302_945, 1.16, served_model_name="small", **FLASH)), page  # type: ignore[arg-type]


EARLIER_OF_VLLM = Scenario(
    fires=(log("j.log", *vllm_start(80_000, 9.77, at="09:00", max_num_seqs=64), *vllm_start(64_000, 7.81)),),
    silent=(log("j.log", *vllm_start(64_000, 7.81, at="09:00"), *vllm_start(64_000, 7.81)),),
    says=("kv_cache_size_tokens 80,000 (now 64,000)",),
    advice="current start only",
    severity=Severity.INFO,
)
RANKS_OF_VLLM = Scenario(
    fires=(
        log("8000.log", *vllm_start(80_000, 9.77, port=8000)),
        log("8001.log", *vllm_start(64_000, 7.81, port=8001)),
    ),
    silent=(
        log("8000.log", *vllm_start(80_000, 9.77, port=8000)),
        log("8001.log", *vllm_start(64_000, 7.81, port=8001, model="/models/other")),
    ),
    says=("kv_cache_size_tokens differs", "80,000", "64,000"),
    advice="same flags",
    severity=Severity.WARNING,
)
AGAIN = (
    Scenario(
        fires=flash(123_433, 0.47086269282041515),
        silent=flash(302_945, 1.1556434631347656),
        says=("302,945", "123,433", "1.16", "0.4709"),
        advice="believe the first",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "earlier-start-differs": (*EARLIER, EARLIER_OF_VLLM),
    "ranks-disagree": (*RANKS, RANKS_OF_VLLM),
    "sources-disagree": SOURCES,
    "page-reckons-again": AGAIN,
}
