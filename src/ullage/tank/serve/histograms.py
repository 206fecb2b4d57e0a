"""/metrics, second part: histograms of what has ended."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics

from ..config import GIB
from ..observer import Timing, Transferred

_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 10, 20, 40, 80, 160, 320)
_GAP_SECONDS = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.4, 0.8, 2, 5)
_TOKENS = _MB = tuple(4.0**power for power in range(9))
_GB_PER_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_MILLISECONDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 20000)


class Histograms:
    """Told by the engine's thread. Transfers are measured on prefill, the wait for pages on decode."""

    def __init__(self, registry: CollectorRegistry, labels: dict[str, str]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # SGLang has none
        self._registry = registry
        self._labels = labels
        self._role = labels["engine_type"]
        self._first_token = self._made("time_to_first_token_seconds", "from arrival to first token", _SECONDS)
        self._gap = self._made("inter_token_latency_seconds", "between two tokens", _GAP_SECONDS)
        self._total = self._made("e2e_request_latency_seconds", "from arrival to end", _SECONDS)
        self._prompt = self._made("prompt_tokens_histogram", "prompt tokens of a request", _TOKENS)
        self._uncached = self._made("uncached_prompt_tokens_histogram", "of these not from the cache", _TOKENS)
        self._output = self._made("generation_tokens_histogram", "output tokens of a request", _TOKENS)
        if self._role != "decode":
            self._queue = self._made("queue_time_seconds", "from arrival to first forward pass", _SECONDS)
        if self._role == "prefill":
            self._size = self._made("kv_transfer_total_mb", "MiB of KV of one transfer", _MB)
            self._speed = self._made("kv_transfer_speed_gb_s", "GiB/s of one transfer", _GB_PER_S)
            self._latency = self._made("kv_transfer_latency_ms", "of one transfer", _MILLISECONDS)
            self._bootstrap = self._made("kv_transfer_bootstrap_ms", "until decode has the pages", _MILLISECONDS)
        if self._role == "decode":
            self._alloc = self._made("kv_transfer_alloc_ms", "until pages were allocated", _MILLISECONDS)

    def finished(self, timing: Timing) -> None:
        if timing.first_token_s is not None:
            self._first_token.observe(timing.first_token_s)
        if timing.queue_s is not None and self._role != "decode":
            self._queue.observe(timing.queue_s)
        if timing.aborted:
            return
        for gap in timing.token_gaps_s:
            self._gap.observe(gap)
        self._total.observe(timing.total_s)
        self._prompt.observe(timing.prompt_tokens)
        self._uncached.observe(timing.prompt_tokens - timing.cached_tokens)
        self._output.observe(timing.output_tokens)

    def transferred(self, event: Transferred) -> None:
        if self._role == "decode":
            self._alloc.observe(event.alloc_s * 1000)
            return
        self._size.observe(event.bytes / 2**20)
        self._speed.observe(event.bytes / GIB / max(event.transfer_s, 1e-9))
        self._latency.observe(event.transfer_s * 1000)
        self._bootstrap.observe(event.bootstrap_s * 1000)

    def _made(self, name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
        histogram = Histogram(f"sglang:{name}", what, list(self._labels), buckets=buckets, registry=self._registry)
        return histogram.labels(**self._labels)
