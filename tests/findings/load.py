from __future__ import annotations

from tests.evidence import (
    DAY,
    URL,
    decode_batch,
    document,
    gauges,
    log,
    metrics,
    prefill_batch,
    start,
    vllm_gauges,
    vllm_start,
    vllm_stats,
)
from ullage.evidence import Evidence
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

TOKENS = 100_000


def ran(*lines: str, mode: str = "null") -> Evidence:
    return log("run.log", *start(TOKENS, disaggregation_mode=mode), *lines)


def loads(**counts: int) -> Evidence:
    return document(URL, "loads", {"loads": [{"dp_rank": 0, "num_running_reqs": 0, "num_waiting_reqs": 0} | counts]})


def transfer_failed(rank: int, room: int) -> str:
    """Every rank logs the request that failed."""
    return (
        f"[{DAY} 11:00:09 TP{rank}] Prefill transfer failed for request rank={rank} req.rid='4f1c' "
        f"req.bootstrap_room={room} with exception KVTransferError(bootstrap_room={room}): Decode could be dead"
    )


def retracted(count: int, text: str = "KV cache pool is full. Retract requests.") -> str:
    return f"[{DAY} 11:00:09 TP0] {text} #retracted_reqs: {count}, #new_token_ratio: 0.0980 -> 0.3487"


RETRACTIONS = (
    Scenario(
        fires=(ran(retracted(2), retracted(2).replace("TP0", "TP1"), retracted(3).replace(":09", ":10")),),
        silent=(ran(decode_batch(1, retracted_req=0)),),
        says=("5 requests were retracted", "in the lines read"),
        advice="--schedule-conservativeness",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(ran(retracted(1, "Decode out of memory happened."), mode="decode"),),
        silent=(ran(mode="decode"),),
        says=("1 requests were retracted",),
        advice="--num-reserved-decode-tokens",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(metrics(URL, *gauges(num_retracted_requests_total=12)),),
        silent=(metrics(URL, *gauges(num_retracted_requests_total=0)),),
        says=("12 requests", "since the start"),
        advice="--max-running-requests",
        severity=Severity.WARNING,
    ),
)
STALE = (
    Scenario(
        fires=(metrics(URL, *gauges(num_running_reqs=8)), loads(num_running_reqs=0)),
        silent=(metrics(URL, *gauges(num_running_reqs=8)), loads(num_running_reqs=3)),
        says=("8 running", "/v1/loads 0"),
        advice="believe /v1/loads",
        severity=Severity.WARNING,
    ),
)
TRANSFERS = (
    Scenario(
        fires=(ran(*(transfer_failed(rank, room) for room in (11, 12) for rank in range(4)), mode="prefill"),),
        silent=(ran(prefill_batch(1), mode="prefill"),),
        says=("2 transfers failed", "Decode could be dead"),
        advice="restart the pair",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(metrics(URL, *gauges(num_transfer_failed_reqs_total=3)),),
        silent=(metrics(URL, *gauges(num_transfer_failed_reqs_total=0)),),
        says=("3 transfers failed",),
        advice="other side is alive",
        severity=Severity.ERROR,
    ),
)
EXCEPTION = (
    Scenario(
        fires=(ran(f"[{DAY} 11:00:09 TP0] Scheduler hit an exception: Traceback (most recent call last):"),),
        silent=(ran(decode_batch(1)),),
        says=("exception", f"{DAY} 11:00:09"),
        advice="restart the server",
        severity=Severity.ERROR,
    ),
)


def preempted(at: str, count: int) -> str:
    return vllm_stats(at, 40, 3, 99.0).replace(", GPU KV", f", Preemptions: {count}, GPU KV")


UP = vllm_start(64_000, 7.81)
MEANS = {"request_prompt_tokens_sum": 80_000, "request_prompt_tokens_count": 100}
MEANS |= {"request_generation_tokens_sum": 80_000, "request_generation_tokens_count": 100}
DIED = "(APIServer pid=7) ERROR 09-12 10:09:00 [async_llm.py:1] EngineCore encountered a fatal error."
PREEMPTED = (
    Scenario(  # each line counts those since the one before
        fires=(log("vllm.log", *UP, preempted("10:05:00", 2), preempted("10:05:10", 3), vllm_stats("10:05:20", 40)),),
        silent=(log("vllm.log", *UP, vllm_stats("10:05:00", 40)),),
        says=("5 requests were preempted", "in the lines read"),
        advice="--watermark",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("vllm.log", *UP), metrics("page.txt", *vllm_gauges(num_preemptions_total=12, **MEANS))),
        silent=(metrics("page.txt", *vllm_gauges(num_preemptions_total=0, **MEANS)),),
        says=("12 requests were preempted", "since the start"),
        advice="lower --max-num-seqs",
        severity=Severity.WARNING,
    ),
)
DEATH = (
    Scenario(
        fires=(log("vllm.log", *UP, DIED),),
        silent=(log("vllm.log", *UP, DIED, *vllm_start(64_000, 7.81, at="11:00")),),  # of the start before
        says=("1 engine process died",),
        advice="restart the server",
        severity=Severity.ERROR,
    ),
)
SCENARIOS: Scenarios = {
    "preemptions": PREEMPTED,
    "engine-died": DEATH,
    "retractions": RETRACTIONS,
    "stale-gauges": STALE,
    "transfers-failed": TRANSFERS,
    "scheduler-exception": EXCEPTION,
}
