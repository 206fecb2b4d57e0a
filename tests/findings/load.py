from __future__ import annotations

from tests.evidence import (
    DAY,
    URL,
    argv,
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
        says=("1 request was retracted",),
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


def statistics(*stated: tuple[int, float]) -> Evidence:
    """(running, percent of the pool) in vLLM's lines, one every ten seconds; the start-up lines are cut off."""
    lines = (vllm_stats(f"10:05:{n}0", running, 0, usage) for n, (running, usage) in enumerate(stated))
    return log("vllm.log", *lines)


def slots_at_work(cells: int) -> tuple[Evidence, Evidence]:
    """Four slots of llama.cpp that share one pool of 8,192 cells, each with so many."""
    each = {"n_ctx": 8192, "is_processing": True, "id_task": 7, "n_prompt_tokens": cells}
    url = "http://127.0.0.1:8080"
    listed = document(url, "slots", [{"id": n, **each} for n in range(4)])
    return listed, argv("llama-server -m /models/small.gguf -c 8192 --port 8080")


NEARLY_FULL = (
    Scenario(
        fires=(statistics((2, 16.6), (10, 87.3)),),
        silent=(statistics((2, 16.6), (10, 74.0)),),
        says=("10 running requests hold 87% of the pool (2 held 17% at", "about 11 of their present length"),
        advice="--max-num-seqs 11",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(metrics(URL, *vllm_gauges(num_requests_running=20, num_requests_waiting=0, kv_cache_usage_perc=0.95)),),
        silent=(  # queue-waiting says it
            metrics(URL, *vllm_gauges(num_requests_running=20, num_requests_waiting=9, kv_cache_usage_perc=0.95)),
        ),
        says=("20 running requests hold 95%", "about 21"),
        advice="--gpu-memory-utilization",
        severity=Severity.WARNING,
    ),
    Scenario(  # of engines, the fullest
        fires=(
            metrics(
                URL,
                *vllm_gauges(0, num_requests_running=10, num_requests_waiting=0, kv_cache_usage_perc=0.2),
                *vllm_gauges(1, num_requests_running=30, num_requests_waiting=0, kv_cache_usage_perc=0.95),
            ),
        ),
        silent=(
            metrics(
                URL,
                *vllm_gauges(0, num_requests_running=30, num_requests_waiting=0, kv_cache_usage_perc=0.2),
                *vllm_gauges(1, num_requests_running=3, num_requests_waiting=0, kv_cache_usage_perc=0.95),
            ),
        ),
        says=("30 running requests hold 95%", "about 31"),
        advice="--max-num-seqs 31",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(ran(decode_batch(1, 92_000, 0.92, 46)),),
        silent=(ran(decode_batch(1, 92_000, 0.92, 3)),),  # a few long ones
        says=("46 running requests hold 92%", "about 50"),
        advice="--max-running-requests 50",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=slots_at_work(1900),
        silent=slots_at_work(900),
        says=("4 running requests hold 93%",),
        advice="-np 4",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "pool-nearly-full": NEARLY_FULL,
    "preemptions": PREEMPTED,
    "engine-died": DEATH,
    "retractions": RETRACTIONS,
    "stale-gauges": STALE,
    "transfers-failed": TRANSFERS,
    "scheduler-exception": EXCEPTION,
}
