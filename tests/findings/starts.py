from __future__ import annotations

from tests.evidence import DAY, URL, argv, document, log, metrics, start
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
SCENARIOS: Scenarios = {"earlier-start-differs": EARLIER, "ranks-disagree": RANKS, "sources-disagree": SOURCES}
