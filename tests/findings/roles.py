from __future__ import annotations

from tests.evidence import URL, argv, log, metrics, start, vllm_gauges, vllm_start, vllm_stats
from ullage.evidence import Evidence
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

PAIRED = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
EXPIRED = (
    "(EngineCore_DP0 pid=9) WARNING 09-12 10:05:00 [nixl_connector.py:1] Releasing expired KV blocks for request"
    " cmpl-{} which were retrieved by 0 decode worker(s) within 480 seconds."
)


def idle(usage: float, running: int = 0) -> Evidence:
    now = {"num_requests_running": running, "num_requests_waiting": 0, "kv_cache_usage_perc": usage}
    return metrics(URL, *vllm_gauges(**now, nixl_num_kv_expired_reqs_total=0))


def alone(usage: float) -> Evidence:
    now = {"num_requests_running": 0, "num_requests_waiting": 0, "kv_cache_usage_perc": usage}
    return metrics(URL, *vllm_gauges(**now))


def side(role: str, port: int, tp: int, model: str, **besides: object) -> Evidence:
    given = {"disaggregation_mode": role, "port": port, "tp_size": tp, "model_path": model} | besides
    return log(f"{role}.log", *start(100_000, **given))


def pair(prefill: int, decode: int, model: str, **besides: object) -> tuple[Evidence, ...]:
    return side("prefill", 30000, prefill, model), side("decode", 30001, decode, model, **besides)


HELD = (
    Scenario(
        fires=(idle(0.37),),
        silent=(idle(0.37, running=2),),
        says=("37.0% of the pool is held",),
        advice="kv_lease_duration",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(argv(f"vllm serve small --kv-transfer-config '{PAIRED}' --port 30000", URL), alone(0.02)),
        silent=(alone(0.02),),  # nothing says that it is one of a pair
        says=("2.0% of the pool is held",),
        advice="VLLM_NIXL_ABORT_REQUEST_TIMEOUT",
        severity=Severity.INFO,
    ),
)
GIVEN_UP = (
    Scenario(
        fires=(metrics(URL, *vllm_gauges(nixl_num_kv_expired_reqs_total=4)),),
        silent=(metrics(URL, *vllm_gauges(nixl_num_kv_expired_reqs_total=0)),),
        says=("4 requests expired",),
        advice="raise kv_lease_duration",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("p.log", *vllm_start(64_000, 7.81), EXPIRED.format("1"), EXPIRED.format("2")),),
        silent=(log("p.log", *vllm_start(64_000, 7.81), vllm_stats("10:05:00", 0)),),
        says=("2 requests expired",),
        advice="give decode more room",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(
            metrics(
                URL,
                *vllm_gauges(nixl_num_kv_expired_reqs_total=4, nixl_num_notifications_after_expiry_total=1),
            ),
        ),
        silent=(metrics(URL, *vllm_gauges(nixl_num_notifications_after_expiry_total=0)),),
        says=("4 requests expired; 1 were read after that",),
        advice="kv_lease_duration",
        severity=Severity.ERROR,
    ),
)
RANKS = (
    Scenario(
        fires=pair(2, 1, "Qwen/Qwen3-32B"),
        silent=pair(2, 2, "Qwen/Qwen3-32B"),
        says=("2 ranks at prefill and 1 at decode",),
        advice="--tp-size",
        severity=Severity.WARNING,
    ),
    Scenario(  # a distilled model is none of the family whose name it carries
        fires=pair(4, 2, "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B"),
        silent=pair(4, 2, "deepseek-ai/DeepSeek-R1"),
        says=("4 ranks at prefill and 2 at decode",),
        advice="unless the model has MLA",
        severity=Severity.WARNING,
    ),
    Scenario(  # with data-parallel attention a group of ranks shares the heads
        fires=pair(4, 4, "Qwen/Qwen3-32B", dp_size=2, enable_dp_attention=True),
        silent=pair(2, 4, "Qwen/Qwen3-32B", dp_size=2, enable_dp_attention=True),
        says=("4 ranks at prefill and 2 at decode",),
        advice="--tp-size",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {"kv-held-for-decode": HELD, "kv-expired": GIVEN_UP, "roles-differ-in-ranks": RANKS}
