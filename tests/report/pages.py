"""Reports that a page is made of in the tests: a chain, servers by logs, and one whose every name is hostile."""

from __future__ import annotations

from collections.abc import Sequence

from tests import replayed
from tests.evidence import (
    DAY,
    URL,
    argv,
    decode_batch,
    document,
    failed,
    gauges,
    log,
    metrics,
    on_host,
    server_args,
    start,
    vllm_start,
)
from ullage.cli.gather import Options, gather
from ullage.evidence import Evidence
from ullage.report.model import Report, report_on

ASKED = "--model-path /models/small --port 30000 --max-running-requests 100"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;\u202e\x00\x1b[31m"


def chain() -> Report:
    """A deployment of prefill and decode, read from its replayed servers."""
    with replayed.deployment() as (router, prefill, decode):
        flags = f"sglang-router --pd-disaggregation --prefill {prefill.url} 8998 --decode {decode.url}"
        return report_on(gather((router.url,), (flags,), Options(follow=True)), [32000])


def aggregated() -> Report:
    """One server by its log and its metrics page: what is kept back of its pool is not known."""
    page = gauges(max_total_num_tokens=40_000, num_running_reqs=3, num_used_tokens=10_000, kv_evictable_tokens=5_000)
    return report_on([log("s.log", *start(40_000)), metrics(URL, *page)], [4000])


def unknown() -> Report:
    """A log that begins after the start, of which one endpoint did not answer."""
    return report_on([log("s.log", decode_batch(1, 4_000, 0.4, 3)), failed(URL, "server_info", "401")])


def several() -> Report:
    """Two servers that are no chain, with an earlier start and a setting that differs."""
    one = log("a.log", *start(30_000, at="09:00"), *start(40_000))
    other = log("b.log", *start(90_000, port=30_001, context=65_536), decode_batch(1))
    return report_on([one, other, argv(f"python -m sglang.launch_server {ASKED}")])


def chains() -> Report:
    """Two chains of two models, a server of its own, and one of which little is known."""
    pairs = (
        log(f"{model}-{role}.log", *start(tokens, port=port, disaggregation_mode=role, model_path=f"/models/{model}"))
        for model, role, port, tokens in (
            *(("small", "prefill", 1, 900_000), ("small", "decode", 2, 500_000)),
            *(("other", "prefill", 3, 90_000), ("other", "decode", 4, 50_000)),
        )
    )
    alone = log("alone.log", *vllm_start(100_000, 12.2))
    return report_on([*pairs, alone, *on_host("python -m sglang.launch_server --model-path /m/x --port 30002")])


def hostile() -> Report:
    """Model, file names, versions and log lines that try to be markup."""
    lines = (f"[{DAY} 10:00:00] {server_args(model_path=HOSTILE)}", *start(40_000, model_path=HOSTILE)[1:])
    info = document(URL, "server_info", {"version": HOSTILE, "model_path": HOSTILE, "internal_states": [{}]})
    items: Sequence[Evidence] = (log(HOSTILE, *lines, decode_batch(1)), info, failed(HOSTILE, HOSTILE, HOSTILE))
    return report_on(items)


REPORTS = {
    "chain": chain,
    "aggregated": aggregated,
    "unknown": unknown,
    "several": several,
    "chains": chains,
    "hostile": hostile,
}
