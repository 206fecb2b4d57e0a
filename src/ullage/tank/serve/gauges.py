"""/metrics, first part: gauges and counters, read from the engine when somebody asks. SGLang's names."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..config import GIB
from ..engine import Engine
from ..figures import Loads
from .info import model_name

Values = dict[str, float]


def labels_of(engine: Engine) -> dict[str, str]:
    return {"model_name": model_name(engine), "engine_type": engine.facts.role, "tp_rank": "0", "pp_rank": "0"}


class EngineCollector(Collector):
    """What the engine is sized for, how full it is, and what it has counted."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._labels = labels_of(engine)

    def collect(self) -> Iterator[Metric]:
        now = self._engine.loads()
        for name, value in {**self._sizes(), **self._levels(now), **self._queues(now)}.items():
            gauge = GaugeMetricFamily(f"sglang:{name}", name.replace("_", " "), labels=list(self._labels))
            gauge.add_metric(list(self._labels.values()), value)
            yield gauge
        for name, value in self._counts().items():
            counter = CounterMetricFamily(f"sglang:{name}", name.replace("_", " "), labels=list(self._labels))
            counter.add_metric(list(self._labels.values()), value)
            yield counter

    def _sizes(self) -> Values:
        facts = self._engine.facts
        return {
            "max_total_num_tokens": facts.max_total_num_tokens,
            "page_size": facts.page_size,
            "num_pages": facts.num_pages,
            "context_len": facts.context_len,
            "weight_memory_usage_gb": facts.weight_bytes / GIB,
            "kv_cache_memory_usage_gb": facts.kv_cache_bytes / GIB,
            "startup_available_gpu_memory_gb": facts.available_before_load_bytes / GIB,
        }

    def _levels(self, now: Loads) -> Values:
        return {
            "num_running_reqs": now.running,
            "num_queue_reqs": now.waiting,
            "token_usage": now.token_usage,
            "full_token_usage": now.token_usage,
            "num_used_tokens": now.used_tokens,
            "kv_used_tokens": now.used_tokens,
            "kv_available_tokens": now.available_tokens,
            "kv_evictable_tokens": now.evictable_tokens,
            "decode_sum_seq_lens": now.sequence_tokens,
            "gen_throughput": now.gen_throughput,
            "cache_hit_rate": now.cache_hit_rate,
        }

    def _queues(self, now: Loads) -> Values:
        """Only those of its role: the others do not exist here."""
        facts = self._engine.facts
        if facts.role == "prefill":
            return {
                "num_prefill_bootstrap_queue_reqs": now.bootstrap_queue,
                "num_prefill_inflight_queue_reqs": now.inflight_queue,
            }
        if facts.role == "decode":
            return {
                "num_decode_prealloc_queue_reqs": now.prealloc_queue,
                "num_decode_transfer_queue_reqs": now.transfer_queue,
                "num_retracted_reqs": now.retracted_queue,
                "pending_prealloc_token_usage": now.pending_prealloc_tokens / facts.max_total_num_tokens,
            }
        return {"new_token_ratio": now.new_token_ratio}

    def _counts(self) -> Values:
        """Cancelled requests count among both all and aborted ones, as in SGLang."""
        counted = self._engine.counters
        counts = {
            "prompt_tokens": counted.prompt_tokens,
            "generation_tokens": counted.generation_tokens,
            "cached_tokens": counted.cached_tokens,
            "num_requests": counted.requests,
            "num_aborted_requests": counted.aborted_requests,
            "num_retracted_requests": counted.retracted_requests,
            "num_retracted_input_tokens": counted.retracted_input_tokens,
            "num_retracted_output_tokens": counted.retracted_output_tokens,
        }
        pair = {
            "num_bootstrap_failed_reqs": counted.bootstrap_failed,
            "num_transfer_failed_reqs": counted.transfer_failed,
        }
        return {name: float(value) for name, value in (counts if self._is_alone else counts | pair).items()}

    @property
    def _is_alone(self) -> bool:
        return self._engine.facts.role == "unified"
