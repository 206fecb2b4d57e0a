"""Several servers behind one URL: asked the same again, they differ in what one server never changes.

Gauges move, and so do the times and ids in model cards, which engines make anew for every answer: none of these tells
servers apart. Processes of one server that write one metrics page (PROMETHEUS_MULTIPROC_DIR: vLLM with
--api-server-count, SGLang always) leave the process's own series out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..evidence import Document, Evidence, Sample, Samples
from ..figure import Figure, Kind, Source, Value
from .facts import plain
from .server import Disagreement

# Of SGLang's /server_info, and of llama.cpp's /props. SGLang draws the seed at its start where none is given, and all
# its processes share it.
_STATED = """random_seed max_total_num_tokens max_req_input_len model_path served_model_name version host port nccl_port
dist_init_addr disaggregation_mode tp_size context_length mem_fraction_static build_info
total_slots""".split()
_START = "process_start_time_seconds"
_CONFIGURED = "cache_config_info"  # vLLM's and SGLang's: the settings are its labels
_POOL = "max_total_num_tokens"
_COUNTER = "_total"
_ROUNDING = 1e-9  # of a sum over processes
_WHY = "one server does not change it while it runs"

Told = Mapping[str, Value]


def answers_that_differ(items: Sequence[Evidence]) -> dict[str, tuple[Disagreement, ...]]:
    """By target: the quantities that one server would have answered alike, with every value that was answered."""
    found: dict[str, tuple[Disagreement, ...]] = {}
    repeated = [item for item in items if item.again]
    for first in (item for item in items if repeated and not item.again):
        again = [item for item in repeated if _same_question(item, first)]
        if again and (differing := (*_constants([first, *again]), *_fallen(first, again))):
            found[first.origin.target] = (*found.get(first.origin.target, ()), *differing)
    return found


def _same_question(one: Evidence, other: Evidence) -> bool:
    return (one.place, one.origin.target, one.topic) == (other.place, other.origin.target, other.topic)


def _constants(answers: Sequence[Evidence]) -> Iterator[Disagreement]:
    told = [_told(answer) for answer in answers]
    for name in told[0]:
        values: dict[Value, Figure] = {}
        for answer, those in zip(answers, told, strict=True):
            if name in those:
                values.setdefault(those[name], _figure(name, those[name], answer))
        if len(values) > 1:
            yield Disagreement(name.partition("{")[0], tuple(values.values()), _WHY)


def _told(answer: Evidence) -> Told:
    """What this answer states that a server never changes."""
    content = answer.content
    if isinstance(content, Document) and isinstance(content.data, dict):
        return {name: content.data[name] for name in _STATED if plain(content.data.get(name))}
    samples = content.samples if isinstance(content, Samples) else ()
    constant = {_series(s): s.value for s in samples if s.name.endswith((_START, _POOL)) and plain(s.value)}
    return constant | _configured(samples)


def _configured(samples: Sequence[Sample]) -> dict[str, str]:
    """Each setting as all engines of the page have it: their order is no matter."""
    values: dict[str, set[str]] = {}
    for sample in samples:
        if sample.name.endswith(_CONFIGURED):
            for label, value in sample.labels.items():
                values.setdefault(label, set()).add(value)
    return {label: ", ".join(sorted(held)) for label, held in values.items()}


def _series(sample: Sample) -> str:
    labels = ", ".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}" if labels else sample.name


def _fallen(first: Evidence, again: Sequence[Evidence]) -> Iterator[Disagreement]:
    """Counters that were lower when they were asked for again; the one of them that fell most is enough."""
    before = _counters(first)
    falls = [
        (before[name] - value, name, answer, value)
        for answer in again
        for name, value in _counters(answer).items()
        if name in before and value < before[name] * (1 - _ROUNDING)
    ]
    if falls:
        _, name, answer, value = max(falls, key=lambda fall: fall[0])
        yield Disagreement(
            name.partition("{")[0], (_figure(name, before[name], first), _figure(name, value, answer)), "it only grows"
        )


def _counters(answer: Evidence) -> dict[str, float]:
    samples = answer.content.samples if isinstance(answer.content, Samples) else ()
    return {_series(s): s.value for s in samples if s.name.endswith(_COUNTER) and plain(s.value)}


def _figure(name: str, value: Value, answer: Evidence) -> Figure:
    """`name` may be a whole series: its labels say where the figure stands."""
    asked_at = answer.read_at.isoformat(timespec="milliseconds")
    exact = int(value) if isinstance(value, float) and value.is_integer() else value
    return Figure(name.partition("{")[0], exact, "", Kind.READ, Source(answer.place, name), observed_at=asked_at)
