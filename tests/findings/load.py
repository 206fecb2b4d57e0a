from __future__ import annotations

from tests.evidence import DAY, URL, decode_batch, document, gauges, log, metrics, prefill_batch, start
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
SCENARIOS: Scenarios = {
    "queue-waiting": QUEUES,
    "retractions": RETRACTIONS,
    "stale-gauges": STALE,
    "transfers-failed": TRANSFERS,
    "scheduler-exception": EXCEPTION,
}
