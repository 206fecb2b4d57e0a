"""vLLM's metrics page, from the names of V0 to those of 0.33 (facts: section 2.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ...evidence import Evidence, Sample, Samples
from ...figure import Figure, Kind, Source, derived, inferred
from ..facts import Facts, number, quantity, refused
from ..quantities import unit_of
from ..server import Role
from .use import over_engines

_RENAMED = {
    "gpu_cache_usage_perc": "kv_cache_usage_perc",
    "cpu_cache_usage_perc": "cpu_kv_cache_usage_perc",
    "gpu_prefix_cache_queries": "prefix_cache_queries",
    "gpu_prefix_cache_hits": "prefix_cache_hits",
    "avg_prompt_throughput_toks_per_s": "prompt_tokens_per_s",
    "avg_generation_throughput_toks_per_s": "generation_tokens_per_s",
}
_GAUGES = frozenset(
    """num_requests_running num_requests_waiting num_requests_swapped kv_cache_usage_perc cpu_kv_cache_usage_perc
    prompt_tokens_per_s generation_tokens_per_s""".split()
)
_COUNTERS = frozenset(
    """num_preemptions prompt_tokens generation_tokens prefix_cache_queries prefix_cache_hits
    external_prefix_cache_queries external_prefix_cache_hits prompt_tokens_cached nixl_num_kv_expired_reqs
    nixl_num_failed_transfers nixl_num_failed_notifications nixl_num_notifications_after_expiry
    nixl_bytes_transferred""".split()
)
_BY_LABEL = {  # series -> the label that tells its parts
    "num_requests_waiting_by_reason": "reason",
    "num_requests_kv_fetch_by_stage": "stage",
    "request_success": "finished_reason",
    "admission_rejections": "reason",
    "prompt_tokens_by_source": "source",
    "engine_sleep_state": "sleep_state",
}
_HISTOGRAMS = frozenset(
    """request_prompt_tokens request_generation_tokens time_to_first_token_seconds inter_token_latency_seconds
    request_time_per_output_token_seconds time_per_output_token_seconds e2e_request_latency_seconds
    request_queue_time_seconds request_prefill_time_seconds request_decode_time_seconds request_params_max_tokens
    request_num_preemptions nixl_xfer_time_seconds request_max_num_generation_tokens
    request_prefill_kv_computed_tokens""".split()
)
# Labels of cache_config_info that are numbers, switches and words. "None" is the text None.
_CONFIG = frozenset(
    """block_size num_gpu_blocks num_cpu_blocks num_gpu_blocks_override gpu_memory_utilization kv_cache_memory_bytes
    kv_cache_size_tokens kv_cache_max_concurrency mamba_block_size mamba_page_size_padded cache_dtype
    enable_prefix_caching mamba_cache_mode effective_attention_block_size sliding_window prefix_match_unit
    cpu_offload_gb kv_offloading_size""".split()
)


class _Part(NamedTuple):
    """A sample under the name of our quantity."""

    name: str
    engine: str
    sample: Sample


def looks_like_vllm(samples: Samples) -> bool:
    return any(s.name.startswith("vllm:") for s in samples.samples)


def from_metrics(evidence: Evidence, samples: Samples) -> Facts:
    """Gauges and counters per engine, means of the histograms, and the cache's configuration as it was resolved."""
    engines: dict[str, dict[str, Figure]] = defaultdict(dict)
    for part in _parts(samples.samples):
        figure = _figure(part, evidence)
        if figure is not None:
            engines[part.engine].setdefault(part.name, figure)
    ranked = {rank: found for rank, found in engines.items() if rank or len(engines) == 1}
    used = over_engines(ranked or engines)
    named = _labelled(samples, evidence)
    config = _config(samples, evidence, len({rank for rank in engines if rank}))
    return Facts(
        evidence,
        "metrics",
        args=named,
        effective={**config, **_longest_bucket(samples, evidence)},
        usage={**used.together, **_means(samples, evidence), **_done(samples, evidence)},
        rank_usage=used.by_engine,
        role=_role(used.together),
        notes=(*samples.problems, *_refused(samples, evidence), *_foreign(samples)),
    )


def _parts(samples: Iterable[Sample]) -> Iterator[_Part]:
    for sample in samples:
        name = _name(sample)
        engine = _engine(sample)
        if name in _GAUGES or name in _COUNTERS:
            yield _Part(name, engine, sample)
        elif name in _BY_LABEL and (label := sample.labels.get(_BY_LABEL[name])):
            yield _Part(f"{name}_{label}", engine, sample)


def _name(sample: Sample) -> str:
    """Without prefix and counter's suffix, by its newest name. `_created` is a time, and no quantity of its own."""
    if not sample.name.startswith("vllm:") or sample.name.endswith("_created"):
        return ""
    name = sample.name[5:].removesuffix("_total")
    return _RENAMED.get(name, name)


def _engine(sample: Sample) -> str:
    engine = sample.labels.get("engine") or sample.labels.get("engine_idx")
    return f"DP{engine}" if engine else ""


def _figure(part: _Part, evidence: Evidence) -> Figure | None:
    value = number(part.sample.value)
    if value is None:
        return None
    return _read(part.name, value, evidence, part.sample.name)


def _read(name: str, value: int | float | str | bool, evidence: Evidence, place: str) -> Figure:
    return Figure(
        name, value, unit_of(name), Kind.READ, Source(evidence.place, place), observed_at=evidence.observed_at
    )


def _config(samples: Samples, evidence: Evidence, engines: int) -> dict[str, Figure]:
    """cache_config_info repeats one configuration for every engine. Its `num_gpu_blocks` is the sum over the engines of
    this front end; `kv_cache_size_tokens` and the concurrency are one engine's.
    """
    info = [s for s in samples.samples if s.name == "vllm:cache_config_info"]
    if not info:
        return {}
    figures = {}
    for name in _CONFIG & info[0].labels.keys():
        value = _worded(info[0].labels[name])
        if isinstance(value, str) or (value is not None and quantity(name, value) is not None) or value is True:
            figures[name] = _read(name, value, evidence, f"vllm:cache_config_info {name}")
        elif value is False:
            figures[name] = _read(name, False, evidence, f"vllm:cache_config_info {name}")
    figures.update(_length(figures))
    total = figures.get("num_gpu_blocks")
    if total is not None and engines > 1:
        figures["num_gpu_blocks_of_all_engines"] = total.renamed("num_gpu_blocks_of_all_engines")
        figures["num_gpu_blocks"] = derived(
            "num_gpu_blocks", total.count // engines, "blocks", (total,), f"the page sums over {engines} engines"
        )
    return figures


def _length(figures: Mapping[str, Figure]) -> dict[str, Figure]:
    """max_model_len where the page states tokens and concurrency, which are each other times it (since 0.26)."""
    tokens, concurrency = figures.get("kv_cache_size_tokens"), figures.get("kv_cache_max_concurrency")
    if tokens is None or concurrency is None or not concurrency.number:
        return {}
    least, most = tokens.number / concurrency.number, (tokens.number + 1) / concurrency.number
    step = next((s for s in (1024, 1000, 16) if -(-least // s) * s < most), 1)
    length, note = int(-(-least // step) * step), "kv_cache_size_tokens / kv_cache_max_concurrency, which round it"
    return {"max_model_len": inferred("max_model_len", length, "tokens", (tokens, concurrency), note)}


def _worded(text: str) -> int | float | str | bool | None:
    if text in ("None", ""):
        return None
    if text in ("True", "False"):
        return text == "True"
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and "e" not in text.lower() else value


def _labelled(samples: Samples, evidence: Evidence) -> dict[str, Figure]:
    model = next((s.labels["model_name"] for s in samples.samples if "model_name" in s.labels), None)
    return {"served_model_name": _read("served_model_name", model, evidence, "model_name")} if model else {}


def _longest_bucket(samples: Samples, evidence: Evidence) -> dict[str, Figure]:
    """The buckets of prompt lengths are 1, 2, 5 x 10^k up to max_model_len: so much it is at least."""
    bounds = [
        float(s.labels["le"])
        for s in samples.samples
        if s.name == "vllm:request_prompt_tokens_bucket" and s.labels.get("le") not in (None, "+Inf")
    ]
    if not bounds:
        return {}
    least = _read("max_model_len_at_least", int(max(bounds)), evidence, "vllm:request_prompt_tokens_bucket le")
    return {least.name: least}


def _means(samples: Samples, evidence: Evidence) -> dict[str, Figure]:
    """Sum, count and mean of each histogram, over all engines."""
    sums: dict[str, float] = defaultdict(float)
    for sample in samples.samples:
        name, _, kind = sample.name.removeprefix("vllm:").rpartition("_")
        if kind in ("sum", "count") and name in _HISTOGRAMS and number(sample.value) is not None:
            sums[f"{name}_{kind}"] += sample.value
    found = {name: _read(name, number(value) or 0, evidence, f"vllm:{name}") for name, value in sums.items()}
    for name in _HISTOGRAMS:
        total, count = found.get(f"{name}_sum"), found.get(f"{name}_count")
        if total and count and count.number:
            mean = total.number / count.number
            found[f"mean_{name}"] = derived(f"mean_{name}", mean, _unit(name), (total, count), "sum / count")
    return found


def _unit(name: str) -> str:
    return "s" if name.endswith("_seconds") else "tokens"


def _done(samples: Samples, evidence: Evidence) -> dict[str, Figure]:
    """Requests that have finished, whatever the reason."""
    done = [s for s in samples.samples if _name(s) == "request_success" and number(s.value) is not None]
    total = number(sum(s.value for s in done)) if done else None
    return {} if total is None else {"requests_done": _read("requests_done", total, evidence, "vllm:request_success")}


def _role(used: Mapping[str, Figure]) -> Role:
    """Only the consuming side of a transfer has stages of fetching, only the producing side transfers that expire."""
    if any(name.startswith("num_requests_kv_fetch_by_stage") for name in used):
        return Role.DECODE
    expired = used.get("nixl_num_kv_expired_reqs")
    return Role.PREFILL if expired and expired.number else Role.UNKNOWN


def _refused(samples: Samples, evidence: Evidence) -> tuple[str, ...]:
    stated = ((p.name, p.sample.value, Source(evidence.place, p.sample.name)) for p in _parts(samples.samples))
    return refused(stated)


def _foreign(samples: Samples) -> Iterator[str]:
    others = sorted({s.name.partition(":")[0] for s in samples.samples} & {"sglang", "llamacpp"})
    yield from (f"the page also holds series of {other}, which are not read" for other in others)
