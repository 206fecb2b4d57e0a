from __future__ import annotations

from tests.evidence import (
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
UP = vllm_start(64_000, 7.81)


def ran(*lines: str, mode: str = "null") -> Evidence:
    return log("run.log", *start(TOKENS, disaggregation_mode=mode), *lines)


def page(running: int, usage: float, **waiting: int) -> Evidence:
    """A vLLM metrics page; `waiting` by reason, and their sum."""
    now = vllm_gauges(
        num_requests_running=running, num_requests_waiting=sum(waiting.values()), kv_cache_usage_perc=usage
    )
    reasons = (f'vllm:num_requests_waiting_by_reason{{engine="0",reason="{r}"}} {n}' for r, n in waiting.items())
    return metrics(URL, *now, *reasons)


def engines(*stated: tuple[int, int, float]) -> Evidence:
    """(running, waiting, share of the pool) of each data-parallel engine."""
    names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    pages = (vllm_gauges(n, **dict(zip(names, values, strict=True))) for n, values in enumerate(stated))
    return metrics(URL, *(line for lines in pages for line in lines))


SLOTS = argv("vllm serve small --port 30000 --max-num-seqs 8", URL)
QUEUES = (
    Scenario(
        fires=(ran(decode_batch(1, queue_req=2), decode_batch(2, queue_req=9)),),
        silent=(ran(decode_batch(1, queue_req=2), decode_batch(2, queue_req=0)),),
        says=("9 waiting", "up from 2", "pool is short"),
        advice="add servers",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(ran(decode_batch(1, queue_req=9), decode_batch(2, queue_req=2)),),
        silent=(ran(decode_batch(1), decode_batch(2)),),
        says=("2 waiting", "down from 9"),
        advice="what binds",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(ran(decode_batch(1, prealloc_req=7, transfer_req=0), mode="decode"),),
        silent=(ran(decode_batch(1, prealloc_req=0, transfer_req=0, queue_req=7), mode="decode"),),
        says=("decode prealloc queue", "7 waiting", "no pool tokens"),
        advice="--mem-fraction-static",
        severity=Severity.WARNING,  # one line shows no growth, but more wait than run
    ),
    Scenario(
        fires=(ran(decode_batch(1, transfer_req=1), decode_batch(2, transfer_req=6), mode="decode"),),
        silent=(ran(decode_batch(1, transfer_req=6), decode_batch(2, transfer_req=0), mode="decode"),),
        says=("decode transfer queue", "6 waiting", "up from 1", "transfer between"),
        advice="kv_transfer_speed_gb_s",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(ran(prefill_batch(1, bootstrap_req=1), prefill_batch(2, bootstrap_req=4), mode="prefill"),),
        silent=(ran(prefill_batch(1, bootstrap_req=0), mode="prefill"),),
        says=("prefill bootstrap queue", "4 waiting", "wait"),
        advice="look at the decode servers",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(document(URL, "loads", [{"dp_rank": 0, "num_reqs": 5, "num_waiting_reqs": 3}]),),
        silent=(document(URL, "loads", [{"dp_rank": 0, "num_reqs": 5, "num_waiting_reqs": 0}]),),
        says=("3 waiting",),
        advice="add servers",
        severity=Severity.INFO,  # one look at a short queue shows no growth
    ),
    Scenario(
        fires=(metrics(URL, *gauges(num_prefill_inflight_queue_reqs=5)),),
        silent=(metrics(URL, *gauges(num_prefill_inflight_queue_reqs=0)),),
        says=("prefill inflight queue", "5 waiting", "holds KV"),
        advice="look at the transfer",
        severity=Severity.WARNING,
    ),
)
UNSTATED = (  # a log that began after the start: the table tells nothing
    Scenario(
        fires=(log("run.log", decode_batch(1, queue_req=2), decode_batch(2, queue_req=9)),),
        silent=(log("run.log", decode_batch(1, queue_req=2), decode_batch(2, queue_req=0)),),
        says=("9 waiting",),
        advice="read the start-up lines or the server's URL too",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("run.log", decode_batch(1, 9000, 0.98, 30, queue_req=9)),),
        silent=(log("run.log", decode_batch(1, 9000, 0.98, 30, queue_req=0)),),
        says=("9 waiting",),
        advice="the KV pool is full",
        severity=Severity.INFO,
    ),
)
OF_VLLM = (
    Scenario(
        fires=(log("vllm.log", *UP, vllm_stats("10:05:00", 40, 2, 97.0), vllm_stats("10:05:10", 41, 9, 99.0)),),
        silent=(log("vllm.log", *UP, vllm_stats("10:05:00", 40, 2, 97.0), vllm_stats("10:05:10", 41, 0, 99.0)),),
        says=("queue: 9 waiting", "up from 2", "the pool is full"),
        advice="--gpu-memory-utilization",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(SLOTS, page(8, 0.3, capacity=20, deferred=0)),
        silent=(SLOTS, page(8, 0.3, capacity=0, deferred=0)),
        says=("for capacity: 20 waiting", "30% only", "all 8 request slots run"),
        advice="--max-num-seqs",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(page(3, 0.3, capacity=6, deferred=0),),
        silent=(page(0, 0.3, capacity=6, deferred=0),),  # head-of-line-stuck says that
        says=("for capacity: 6 waiting", "it is not the pool"),
        advice="--max-num-batched-tokens",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(page(3, 0.3, capacity=0, deferred=6),),
        silent=(page(3, 0.3, capacity=0, deferred=2),),
        says=("deferred: 6 waiting", "a KV transfer, a LoRA slot or a grammar"),
        advice="num_requests_kv_fetch_by_stage",
        severity=Severity.WARNING,
    ),
)
STUCK = (
    Scenario(
        fires=(log("vllm.log", *UP, vllm_stats("10:05:00", 0, 1, 0.0), vllm_stats("10:05:10", 0, 1, 0.0)),),
        silent=(log("vllm.log", *UP, vllm_stats("10:05:00", 0, 1, 0.0), vllm_stats("10:05:10", 1, 0, 60.0)),),
        says=("1 wait and 0 run", "0% of the pool"),
        advice="--max-model-len",
        severity=Severity.ERROR,
    ),
    Scenario(  # one look cannot tell it from a request that has just come
        fires=(page(0, 0.02, capacity=3, deferred=0),),
        silent=(page(0, 0.02, capacity=0, deferred=3),),
        says=("3 wait and 0 run",),
        advice="--no-scheduler-reserve-full-isl",
        severity=Severity.WARNING,
    ),
    Scenario(  # an engine that sleeps runs nothing either
        fires=(page(0, 0.0, capacity=3),),
        silent=(
            metrics(
                URL,
                *vllm_gauges(num_requests_running=0, num_requests_waiting=3, kv_cache_usage_perc=0),
                'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0',
            ),
        ),
        says=("3 wait",),
        advice="abort that request",
        severity=Severity.WARNING,
    ),
)
REJECTED = (
    Scenario(
        fires=(metrics(URL, 'vllm:admission_rejections_total{engine="0",reason="max_num_queued_reqs"} 7.0'),),
        silent=(metrics(URL, 'vllm:admission_rejections_total{engine="0",reason="max_num_queued_reqs"} 0.0'),),
        says=("7 by max_num_queued_reqs",),
        advice="--max-num-queued-reqs",
        severity=Severity.WARNING,
    ),
)
UNBALANCED = (
    Scenario(
        fires=(engines((40, 30, 0.99), (5, 0, 0.12), (9, 0, 0.4)),),
        silent=(engines((40, 30, 0.99), (40, 28, 0.98)),),
        says=("DP0: 30 wait at 99%", "DP1: none wait at 12%"),
        advice="fewest tokens",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("vllm.log", *UP, vllm_stats("10:05:00", 51, 117, 100.0, 0), vllm_stats("10:05:00", 4, 0, 9.0, 1)),),
        silent=(log("vllm.log", *UP, vllm_stats("10:05:00", 51, 117, 100.0), vllm_stats("10:05:10", 4, 0, 9.0)),),
        says=("DP0: 117 wait at 100%", "DP1: none wait at 9%"),
        advice="send requests where",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "queue-waiting": (*QUEUES, *UNSTATED, *OF_VLLM),
    "head-of-line-stuck": STUCK,
    "requests-rejected": REJECTED,
    "engines-unbalanced": UNBALANCED,
}
