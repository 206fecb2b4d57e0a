"""vLLM's logs: the servers that write into one, each by its last start."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...evidence import Evidence, Log
from ...figure import Figure, Kind, Source, derived
from ..events import Event, Value, figure_of, source_of
from ..facts import Facts, quantity
from ..quantities import unit_of
from ..server import EarlierStart, Moment
from .arguments import argument_figures, role_of, with_served_name
from .lines import Step
from .starts import Start, servers_of, starts_of
from .use import over_engines

_MOST = frozenset("weights_gib graph_gib load_s graph_s init_s consumed_gib num_preemptions kv_shortfall_gib".split())
# Of a GPU's account: those of one process together, the one that has least for its cache, for it decides the pool.
_OF_GPU = frozenset(
    """total_gib budget_gib free_gib weights_gib consumed_gib non_torch_gib peak_activation_gib available_kv_gib
    graph_gib kv_shortfall_gib kv_bytes estimated_cudagraph_gib non_torch_memory_gib peak_torch_memory_gib
    suggested_kv_cache_memory_bytes equivalent_utilization suggested_utilization""".split()
)
_NO_FIGURES = frozenset(["arguments", "config", "signal", "stopping", "refused", "died", "expired_request", "cause"])
_SIGNED = frozenset(["suggested_kv_cache_memory_bytes"])  # below zero in 0.29 to 0.33 (issue 57936)
_OF_INTERVAL = frozenset(["num_preemptions"])  # since the line of statistics before
_RANKS = frozenset(["world_size", "dp_rank", "pp_rank", "tp_rank"])
_OF_CONFIG = (
    *("max_model_len", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enforce_eager"),
    *("decode_context_parallel_size", "prefill_context_parallel_size", "kv_cache_dtype", "enable_prefix_caching"),
    *("quantization", "dtype", "model", "served_model_name", "num_speculative_tokens"),
)
_PER_ENGINE = ("num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency")
_WORKER = re.compile(r"\(VllmWorker rank=(\d+)|\(Worker[^()]*?TP(\d+)")
# What a process has stated stays against its own notes: they round it again, or speak of the draft model.
_STAY = frozenset(["architecture", "max_model_len", "weights_gib", "graph_gib"])
_UNTAGGED = ""
_MOMENTS = 720  # statistics are logged every 10 s: two hours of them
_FOLLOWED = "a start with another port, model or role follows in this log: whether this server still runs is not known"


def from_log(evidence: Evidence, log: Log) -> list[Facts]:
    """The servers that write into a log, each by its last start; earlier starts are its history."""
    found = [_facts(evidence, log, starts) for starts in servers_of(starts_of(log))]
    return [facts if facts is found[-1] else _followed(facts) for facts in found]


def _followed(facts: Facts) -> Facts:
    return replace(facts, notes=(*facts.notes, _FOLLOWED))


def _facts(evidence: Evidence, log: Log, starts: list[Start]) -> Facts:
    current = starts[-1]
    effective = {} if current.overlaps else start_figures(current, evidence)
    ranks = {} if current.overlaps else _engines(current, evidence)
    used = over_engines({rank: _last(events, evidence) for rank, events in _by_engine(current, Step.STATS).items()})
    for rank, figures in used.by_engine.items():
        ranks.setdefault(rank, {}).update(figures)
    args = _args(current, evidence)
    return Facts(
        evidence,
        "log",
        args=args,
        effective=effective,
        usage={**used.together, **_before(current, evidence), **_counted(current, evidence)},
        rank_usage=ranks,
        role=role_of(args) if args else role_of({}) if current.config else Facts(evidence, "log").role,
        history=tuple(_history(current, evidence)),
        earlier=tuple(_earlier(start, evidence) for start in starts[:-1]),
        notes=(*log.gaps, *_notes(current)),
        no_pool=_why_no_pool(current, effective),
    )


def start_figures(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Every quantity that the start states, once: over the processes that print it the least (of pools and memory), or
    the most (of what they take).
    """
    readings: dict[str, dict[str, tuple[Event, Value]]] = defaultdict(dict)
    for event in start.events:
        if event.step not in (Step.STATS, Step.ARGS):
            for name, value in _stated(event):
                if event.step is not Step.NOTE or name not in _STAY or _process(event) not in readings[name]:
                    readings[name][_process(event)] = event, value
    _without_the_parsers(readings.get("max_num_batched_tokens", {}))
    poorest = _poorest(readings)
    figures = {name: _over_processes(name, found, evidence, poorest) for name, found in readings.items()}
    figures = {**_config(start, evidence), **figures}
    if ready := next(start.of(Step.READY, Step.STATS), None):
        figures["ready"] = figure_of("ready", True, evidence, ready)
    elif (refusal := refusal_of(start)) is not None:
        figures["start_refused"] = figure_of("start_refused", refusal_words(refusal), evidence, refusal)
    return {**_workers_counted(start, evidence), **figures, **_engines_counted(start, evidence)}


def _without_the_parsers(readings: dict[str, tuple[Event, Value]]) -> None:
    """Builds up to 0.11 print a token budget while they parse their flags, before any process has its tag."""
    if len(readings) > 1:
        readings.pop(_UNTAGGED, None)


def _stated(event: Event) -> Iterator[tuple[str, Value]]:
    for name, value in event.values.items():
        if name in _NO_FIGURES or name in _RANKS:
            continue
        if isinstance(value, str) or name in _SIGNED or quantity(name, value) is not None:
            yield name, value


def _process(event: Event) -> str:
    """The worker or engine that printed it: without its pid, for a restart has another. V0's workers have no more than
    that.
    """
    text = event.line.text
    tags = text[: text.find(") ") + 1] if text.startswith("(") else ""
    return f"{event.rank} {tags if 'VllmWorkerProcess' in tags else tags.split(' pid=')[0]}".strip()


def _poorest(readings: Mapping[str, Mapping[str, tuple[Event, Value]]]) -> str | None:
    """The process that has least for its cache, or is short by most."""
    short, room = (readings.get(name, {}) for name in ("kv_shortfall_gib", "available_kv_gib"))
    amounts = {process: float(value) for process, (_, value) in room.items()}
    amounts |= {process: -float(value) for process, (_, value) in short.items()}
    return min(amounts, key=lambda process: amounts[process], default=None)


def _over_processes(
    name: str, found: Mapping[str, tuple[Event, Value]], evidence: Evidence, poorest: str | None
) -> Figure:
    numbers = [(event, value) for event, value in found.values() if not isinstance(value, str)]
    if not numbers:
        event, value = list(found.values())[-1]
        return figure_of(name, value, evidence, event)
    event, value = (max if name in _MOST else min)(numbers, key=lambda pair: pair[1])
    if name in _OF_GPU and poorest is not None and poorest in found:
        event, value = found[poorest]
    figure = figure_of(name, value, evidence, event)
    low, high = min(v for _, v in numbers), max(v for _, v in numbers)
    return (
        figure
        if low == high
        else replace(figure, low=low, high=high, note=f"{len(numbers)} processes, {low} to {high}")
    )


def _config(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """What the config line states is resolved, and in effect."""
    event = next(start.of(Step.CONFIG), None)
    if event is None:
        return {}
    source = source_of(evidence, event, "config")
    wanted = {name: start.config[name] for name in _OF_CONFIG if name in start.config}
    return argument_figures(wanted, source, Kind.READ)


def _args(start: Start, evidence: Evidence) -> dict[str, Figure]:
    event = next(start.of(Step.ARGS), None)
    if event is None:
        return {}
    return with_served_name(argument_figures(start.args, source_of(evidence, event, "arguments")))


def _by_engine(start: Start, *steps: Step) -> dict[str, list[Event]]:
    engines: dict[str, list[Event]] = defaultdict(list)
    for event in start.of(*steps):
        engines[event.rank].append(event)
    return engines


def _engines(start: Start, evidence: Evidence) -> dict[str, dict[str, Figure]]:
    """The pool of each data-parallel engine, where several print theirs."""
    engines = {rank: events for rank, events in _by_engine(start, Step.KV, Step.NOTE).items() if rank}
    found = {
        rank: {n: figure_of(n, e.values[n], evidence, e) for e in events for n in _PER_ENGINE if n in e.values}
        for rank, events in engines.items()
    }
    return {rank: figures for rank, figures in found.items() if figures} if len(found) > 1 else {}


def _engines_counted(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """How many data-parallel engines write into this log, where all from 0 on do."""
    ranks = {e.rank for e in start.events if e.rank}
    if len(ranks) < 2 or ranks != {f"DP{n}" for n in range(len(ranks))}:
        return {}
    source = Source(source_of(evidence, start.events[0]).evidence, "engine tags")
    note = "the engines that write into this log"
    name = "data_parallel_size"
    return {name: Figure(name, len(ranks), unit_of(name), Kind.INFERRED, source, note=note)}


def _workers_counted(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Tensor-parallel ranks, by the workers that write into this log; of pipeline stages there may be several more."""
    found = {number for e in start.events for number in _WORKER.findall(e.line.text[:120])}
    ranks = {int(number) for pair in found for number in pair if number}
    if len(ranks) < 2 or ranks != set(range(len(ranks))):
        return {}
    source = Source(source_of(evidence, start.events[0]).evidence, "worker tags")
    name = "tensor_parallel_size"
    return {name: Figure(name, len(ranks), "", Kind.INFERRED, source, note="the workers that write into this log")}


def _last(events: list[Event], evidence: Evidence) -> dict[str, Figure]:
    """The last statistics of one engine."""
    event = events[-1]
    counted = [(n, v) for n, v in event.values.items() if not isinstance(v, str) and n not in _OF_INTERVAL]
    figures = {n: figure_of(n, v, evidence, event) for n, v in counted}
    share = figures.get("kv_cache_usage_percent")
    if share is not None:
        figures["kv_cache_usage_perc"] = derived(
            "kv_cache_usage_perc", share.number / 100, unit_of("kv_cache_usage_perc"), (share,), "logged, in percent"
        )
    return figures


def _history(start: Start, evidence: Evidence) -> Iterator[Moment]:
    for event in [*start.of(Step.STATS)][-_MOMENTS:]:
        yield Moment(event.time, event.rank, _last([event], evidence))


def _before(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """How many ran and waited in the first statistics that were read: beside the last, it shows growth."""
    first = over_engines({rank: _last(events[:1], evidence) for rank, events in _by_engine(start, Step.STATS).items()})
    names = ("num_requests_running", "num_requests_waiting")
    return {f"first_{n}": first.together[n].renamed(f"first_{n}") for n in names if n in first.together}


def _counted(start: Start, evidence: Evidence) -> dict[str, Figure]:
    """Preemptions, transfers that expired and engines that died, in the lines that were read."""
    found = {}
    preempting = [e for e in start.of(Step.STATS) if e.values.get("num_preemptions")]
    if preempting:  # each line counts those of its interval (v1/metrics/loggers.py)
        total = sum(int(e.values["num_preemptions"]) for e in preempting)
        name = "preemptions_in_log"
        found[name] = Figure(name, total, unit_of(name), Kind.READ, source_of(evidence, preempting[-1]))
    for name, key in (("kv_expired_reqs_in_log", "expired_request"), ("engine_deaths_in_log", "died")):
        events = [e for e in start.events if key in e.values]
        if events:
            found[name] = Figure(name, len(events), unit_of(name), Kind.READ, source_of(evidence, events[-1]))
    return found


def _earlier(start: Start, evidence: Evidence) -> EarlierStart:
    figures = {**_args(start, evidence), **start_figures(start, evidence)}
    return EarlierStart(start.began, figures, "" if start.ready else "it never came up")


def _notes(start: Start) -> Iterator[str]:
    if start.overlaps:
        yield "two servers started into this log at the same time: give each its own log, to tell their lines apart"
    refusal = refusal_of(start)
    if refusal is not None:
        yield f"the server refused to start: {refusal_words(refusal)}"
    short = [float(e.values["kv_shortfall_gib"]) for e in start.of(Step.MEMORY) if "kv_shortfall_gib" in e.values]
    if short:
        yield f"nothing is left for the KV cache: the model and a full step take {max(short):,.2f} GiB above the share"
    if refusal is None and start.has(Step.STOPPED) and not any(e.step is Step.STATS for e in _after_stop(start)):
        yield "the server was stopped: its last lines say so"


def _why_no_pool(start: Start, effective: Mapping[str, Figure]) -> str:
    """Two starts at once, a start that failed, one that is not finished, or a log that begins after it."""
    if effective.keys() & {"num_gpu_blocks", "kv_cache_size_tokens"}:
        return ""
    if start.overlaps:
        return "two servers started into this log at the same time"
    if refusal_of(start) is not None:
        return "the server refused to start"
    begun = start.has(Step.VERSION) or start.has(Step.CONFIG)
    return (
        "the start is not finished in this log"
        if begun and not start.ready
        else "the start-up lines are not in this log"
    )


def refusal_of(start: Start) -> Event | None:
    """Why the start failed: the record that states figures, else the error that is named, else that it failed."""
    refused = [e for e in start.of(Step.TROUBLE) if "died" not in e.values]
    if start.ready or not refused:
        return None
    return next((e for e in refused if "refused" not in e.values), None) or _cause(start, refused[0]) or refused[0]


def _cause(start: Start, failed: Event) -> Event | None:
    """The engine says that it failed, and then why; the API server, which says it too, comes after both."""
    place = start.events.index(failed)
    causes = [(n, e) for n, e in enumerate(start.events) if "cause" in e.values]
    before = [e for n, e in causes if n < place]
    return next((e for n, e in causes if n > place), before[-1] if before else None)


def refusal_words(event: Event) -> str:
    return event.line.text.rpartition("Error: ")[2][:260]


def _after_stop(start: Start) -> list[Event]:
    places = [n for n, e in enumerate(start.events) if e.step is Step.STOPPED]
    return start.events[places[-1] + 1 :]
