from __future__ import annotations

from tests.evidence import argv, document, log, metrics, start
from ullage.evidence import Evidence
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

ROUTER = "http://127.0.0.1:8000"
PREFILL, DECODE = "http://10.0.0.1:30000", "http://10.0.0.2:30001"
LAUNCH = f"python -m sglang_router.launch_router --pd-disaggregation --prefill {PREFILL} 8998 --decode {DECODE}"


def launched(flags: str = "") -> Evidence:
    return argv(f"{LAUNCH} {flags}")


def workers(decode_is_healthy: bool) -> Evidence:
    listed = [
        {"url": PREFILL, "worker_type": "prefill", "is_healthy": True},
        {"url": DECODE, "worker_type": "decode", "is_healthy": decode_is_healthy},
    ]
    return document(ROUTER, "workers", {"workers": listed, "total": 2})


def worker(port: int) -> Evidence:
    return log(f"{port}.log", *start(100_000, port=port))


UNLIMITED = (
    Scenario(
        fires=(launched(),),
        silent=(launched("--max-concurrent-requests 64"),),
        says=("no limit on concurrent requests",),
        advice="--max-concurrent-requests N",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(launched("--max-concurrent-requests -1"), worker(30000), worker(30001)),
        silent=(workers(True), worker(30000)),  # its command line is not known
        says=("the workers hold 48 requests of 4,096 tokens",),
        advice="--max-concurrent-requests 48",
        severity=Severity.WARNING,
    ),
)
BUCKET = (
    Scenario(
        fires=(launched("--max-concurrent-requests=64"),),
        silent=(launched(),),
        says=("--max-concurrent-requests 64", "64 times a second"),
        advice="--queue-size 0",
        severity=Severity.WARNING,
    ),
)
RETRIES = (
    Scenario(
        fires=(launched(),),
        silent=(launched("--disable-retries"),),
        says=("up to 5 tries",),
        advice="--disable-retries",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(
            metrics(
                f"{ROUTER[:-4]}29000",
                'smg_worker_retries_total{worker_type="decode",endpoint="chat"} 4',
                'smg_worker_retries_total{worker_type="prefill",endpoint="chat"} 4',
            ),
        ),
        silent=(launched("--retry-max-retries 1"),),
        says=("8 retries so far",),
        advice="--retry-max-retries 1",
        severity=Severity.WARNING,
    ),
)


def limited(rejected: int, *codes: int) -> Evidence:
    """A router's metrics page: how many its limit let through and did not, and how often each status was answered."""
    return metrics(
        f"{ROUTER[:-4]}29000",
        f'smg_http_rate_limit_total{{result="rejected"}} {rejected}',
        'smg_http_rate_limit_total{result="allowed"} 40',
        *(f'smg_http_responses_total{{status_code="{code}",error_code=""}} {rejected}' for code in codes),
    )


REJECTS = (
    Scenario(
        fires=(limited(5, 408),),
        silent=(limited(0, 408),),
        says=("turned 5 of 45 requests away", "5 times 408"),
        advice="--max-concurrent-requests",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(limited(7, 429, 502),),
        silent=(limited(0, 429, 502),),
        says=("turned 7 of 47", "answered 7 times 429"),
        advice="--rate-limit-tokens-per-second",
        severity=Severity.WARNING,
    ),
)
DOWN = (
    Scenario(
        fires=(workers(False),),
        silent=(workers(True),),
        says=(f"{DECODE} is unhealthy",),
        advice="look at that worker's log",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(metrics(ROUTER, f'smg_worker_health{{worker="{DECODE}"}} 0'),),
        silent=(metrics(ROUTER, f'smg_worker_health{{worker="{DECODE}"}} 1'),),
        says=(f"{DECODE} is unhealthy",),
        advice="look at that worker's log",
        severity=Severity.ERROR,
    ),
)
MALFORMED = (
    Scenario(
        fires=(argv(LAUNCH.replace(" 8998", ",8998")),),
        silent=(launched(),),
        says=(f"{PREFILL},8998", "comma"),
        advice="--prefill URL PORT",
        severity=Severity.ERROR,
    ),
)
SCENARIOS: Scenarios = {
    "router-unlimited": UNLIMITED,
    "router-token-bucket": BUCKET,
    "router-retries": RETRIES,
    "router-rejects": REJECTS,
    "router-worker-down": DOWN,
    "router-flags-malformed": MALFORMED,
}
