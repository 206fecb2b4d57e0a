"""SGLang's metrics page, of every era: `sglang:` or `sglang_` names, ranks as labels, `name` or `model_name` for the
model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ...evidence import Evidence, Sample, Samples
from ...figure import Figure, Kind, Source
from ..facts import Facts, quantity, refused
from ..quantities import unit_of
from ..server import Role
from .facts import argument_figures, role_of
from .ranks import POOL, least_of, over_ranks, ranks_counted

_RENAMED = {
    "num_requests_running": "num_running_reqs",
    "num_requests_waiting": "num_queue_reqs",
    "queue_req": "num_queue_reqs",
    "gen_throughput": "gen_tokens_per_s",
    "max_total_num_tokens_swa": "swa_max_total_num_tokens",
    "weight_memory_usage_gb": "weights_gib",
    "kv_cache_memory_usage_gb": "kv_total_gib",
    "startup_available_gpu_memory_gb": "startup_available_gib",
    "graph_memory_usage_gb": "graph_total_gib",
    "hicache_host_used_tokens": "hicache_host_used_tokens",
    "decode_sum_seq_lens": "decode_seq_tokens",
}
_WORKERS = ("worker_addr", "source")  # labels that a gateway adds
_SERVERS = (*_WORKERS, "instance", "pod", "engine", "model_name", "name", "engine_type")
_CONSTANTS = frozenset(
    """max_total_num_tokens swa_max_total_num_tokens page_size num_pages context_len max_running_requests
    max_prefill_tokens weights_gib kv_total_gib startup_available_gib graph_total_gib
    hicache_host_total_tokens""".split()
)
_GAUGES = frozenset(
    """num_running_reqs num_queue_reqs num_grammar_queue_reqs num_paused_reqs num_retracted_reqs token_usage
    full_token_usage swa_token_usage mamba_usage num_used_tokens kv_available_tokens kv_evictable_tokens
    kv_used_tokens swa_available_tokens swa_evictable_tokens swa_used_tokens mamba_available_tokens
    mamba_evictable_tokens mamba_used_tokens gen_tokens_per_s cache_hit_rate new_token_ratio utilization
    decode_seq_tokens pending_prealloc_token_usage num_prefill_bootstrap_queue_reqs num_prefill_inflight_queue_reqs
    num_decode_prealloc_queue_reqs num_decode_transfer_queue_reqs spec_accept_length hicache_host_used_tokens
    num_retracted_requests_total num_aborted_requests_total num_requests_total prompt_tokens_total
    generation_tokens_total num_transfer_failed_reqs_total num_bootstrap_failed_reqs_total
    num_prefill_retries_total""".split()
)


def looks_like_sglang(samples: Samples) -> bool:
    return any(s.name.startswith(("sglang:", "sglang_")) for s in samples.samples)


def pages_of(evidence: Evidence, samples: Samples) -> list[tuple[Evidence, Samples]]:
    """A gateway's page, or one that was put together, holds the metrics of several servers, told apart by labels: one
    page for each of them. What does not say whose it is belongs to none.
    """
    known = [sample for _, sample in _known(samples.samples)]
    apart = [label for label in _SERVERS if len(_named(known, label)) > 1]
    if not apart:
        return [(evidence, samples)]
    pages: dict[tuple[str, ...], list[Sample]] = {}
    for sample in samples.samples:
        pages.setdefault(tuple(sample.labels.get(label, "") for label in apart), []).append(sample)
    return [(_of_server(evidence, apart, key), Samples(tuple(found), ())) for key, found in pages.items() if all(key)]


def _named(samples: Iterable[Sample], label: str) -> set[str]:
    """The servers by a label. Some prefill and decode servers label a part of their page "unified" (2025-07)."""
    return {s.labels[label] for s in samples if label in s.labels} - ({"unified"} if label == "engine_type" else set())


def _of_server(evidence: Evidence, labels: list[str], key: tuple[str, ...]) -> Evidence:
    worker = next((value for label, value in zip(labels, key, strict=True) if label in _WORKERS), None)
    origin = evidence.origin
    named = (
        origin._replace(target=worker)
        if worker
        else origin._replace(stream=", ".join(filter(None, (origin.stream, *key))))
    )
    return evidence._replace(origin=named)


def from_metrics(evidence: Evidence, samples: Samples) -> Facts:
    """Gauges per data-parallel rank. They refresh when a batch is logged: a hung server's are stale."""
    ranks: dict[str, dict[str, Figure]] = defaultdict(dict)
    pools: dict[str, dict[str, Figure]] = {}
    effective: dict[str, Figure] = {}
    for name, sample in _known(samples.samples):
        figure = _figure(name, sample, evidence)
        if figure is None:
            continue
        if name in _CONSTANTS:
            effective[name] = _least(effective.get(name), figure)
            if name == POOL and _rank(sample):
                pools[_rank(sample)] = {name: figure}
        else:
            ranks[_rank(sample)].setdefault(name, figure)
    usage = over_ranks(_without_twins(ranks))
    effective.update(_page_size(samples, evidence))
    effective.update(least_of(pools))
    numbers = {rank.removeprefix("DP") for rank in (*ranks, *pools) if rank}
    effective.update(ranks_counted(numbers, Source(evidence.place, "dp_rank"), "of this page"))
    told_apart = {rank: {**ranks.get(rank, {}), **pools.get(rank, {})} for rank in map("DP{}".format, sorted(numbers))}
    labels = _labels(samples.samples)
    served = argument_figures(
        {"served_model_name": labels.get("model_name") or labels.get("name")}, Source(evidence.place, "label")
    )
    return Facts(
        evidence,
        "metrics",
        served,
        effective,
        usage,
        told_apart if len(numbers) > 1 else {},
        _role(labels),
        notes=(*samples.problems, *_foreign(samples), *refused(_stated(samples, evidence))),
    )


def _stated(samples: Samples, evidence: Evidence) -> Iterable[tuple[str, object, Source]]:
    return ((name, sample.value, Source(evidence.place, sample.name)) for name, sample in _known(samples.samples))


def _foreign(samples: Samples) -> Iterable[str]:
    """One page of two engines: somebody put it together, or one server took the port of another."""
    others = sorted({s.name.partition(":")[0] for s in samples.samples} & {"vllm", "llamacpp"})
    return (f"the page also holds series of {other}, which are not read" for other in others)


def _known(samples: Iterable[Sample]) -> Iterable[tuple[str, Sample]]:
    for sample in samples:
        if sample.name.startswith(("sglang:", "sglang_")):
            name = _RENAMED.get(sample.name[7:], sample.name[7:])
            if name in _CONSTANTS or name in _GAUGES:
                yield name, sample


def _figure(name: str, sample: Sample, evidence: Evidence) -> Figure | None:
    value = quantity(name, sample.value)
    if value is None:
        return None
    unit = "percent" if name == "cache_hit_rate" and value > 1 else unit_of(name)
    return Figure(
        name,
        value,
        unit,
        Kind.READ,
        Source(evidence.place, sample.name),
        observed_at=evidence.observed_at,
    )


def _rank(sample: Sample) -> str:
    rank = sample.labels.get("dp_rank")
    return f"DP{rank}" if rank not in (None, "") else ""


def _without_twins(ranks: Mapping[str, Mapping[str, Figure]]) -> Mapping[str, Mapping[str, Figure]]:
    """A page can carry a quantity both per data-parallel rank and, from the tokenizer process, without a rank: the
    ranks count.
    """
    ranked = {name for rank, found in ranks.items() if rank for name in found}
    return {rank: {n: f for n, f in found.items() if rank or n not in ranked} for rank, found in ranks.items()}


def _least(held: Figure | None, figure: Figure) -> Figure:
    """Several phases of graphs add up; of the same constant on several ranks the least counts."""
    if held is None:
        return figure
    if figure.name == "graph_total_gib":
        total = round(held.number + figure.number, 2)
        return Figure(held.name, total, held.unit, Kind.DERIVED, inputs=(held, figure), note="sum over the phases")
    return min(held, figure, key=lambda f: f.number)


def _page_size(samples: Samples, evidence: Evidence) -> dict[str, Figure]:
    """Older pages carry the page size as a label of cache_config_info."""
    for sample in samples.samples:
        if sample.name.endswith("cache_config_info") and sample.labels.get("page_size", "").isdigit():
            return {
                "page_size": Figure(
                    "page_size",
                    int(sample.labels["page_size"]),
                    "tokens",
                    Kind.READ,
                    Source(evidence.place, sample.name),
                )
            }
    return {}


def _labels(samples: Iterable[Sample]) -> Mapping[str, str]:
    return next((s.labels for s in samples if "model_name" in s.labels or "name" in s.labels), {})


def _role(labels: Mapping[str, str]) -> Role:
    """Some prefill and decode servers call themselves "unified" here (2025-07), so only the other two words are
    believed.
    """
    role = role_of(labels.get("engine_type"))
    return Role.UNKNOWN if role is Role.UNIFIED else role
