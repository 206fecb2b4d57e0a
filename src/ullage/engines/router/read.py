"""The router's evidence read into a Server: what it lets through, to whom, and how it fares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...evidence import Argv, Document, Evidence, Log, LogLine, Sample, Samples
from ...figure import Figure, Kind, Source, derived, missing
from ...quoting import in_quotes
from ..events import place_of
from ..programs import ROUTER
from ..server import Role, Server, Setting
from .flags import from_argv, is_router

_PREFIXES = ("smg_", "sgl_router_")
_SUMS = {
    "http_rate_limit_total": "rate_limit",
    "http_responses_total": "responses",
    "worker_retries_total": "worker_retries_total",
    "worker_retries_exhausted_total": "worker_retries_exhausted_total",
    "http_connections_active": "http_connections_active",
    "worker_requests_active": "worker_requests_active",
    "running_requests": "worker_requests_active",  # until 2025
    "processed_requests_total": "requests_total",
    "worker_cb_transitions_total": "worker_cb_transitions_total",
    "active_workers": "active_workers",
    "requests_total": "requests_total",
    "router_requests_total": "requests_total",
    "http_requests_total": "http_requests_total",
    "job_success_total": "jobs",
    "worker_health": "healthy_workers",
    "worker_pool_size": "worker_pool_size",
}
_BY_LABEL = {"http_rate_limit_total": "result", "http_responses_total": "status_code", "job_success_total": "job_type"}
_OF_WORKERS = ("worker_health", "worker_requests_active", "running_requests", "processed_requests_total")
_STARTED = re.compile(r"Starting router on (?P<host>\[?[\w.:-]+?\]?):(?P<port>\d+) \| mode: (?P<mode>\w+)(?P<rest>.*)")
_HOST = re.compile(r"https?://(?:[^@/]*@)?(\[[^\]]+\]|[^:/]+)")
_URL = re.compile(r'"(https?://[^"]+)"')
_UNIT = re.compile(r"^systemd\[\d+\]: Started (?P<unit>(?!.*llama).*[Rr]outer.*?)\.?$")


@dataclass
class _Known:
    """One router's facts, gathered item by item; the first of a quantity counts."""

    evidence: list[Evidence] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    usage: dict[str, Figure] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)  # URL -> role word


def is_routers(evidence: Evidence) -> bool:
    """Is this item a router's?"""
    content = evidence.content
    if isinstance(content, Argv):
        return is_router(content.words)
    if isinstance(content, Samples):
        return any(s.name.startswith(_PREFIXES) for s in content.samples)
    if isinstance(content, Log):
        return any(_started(line.text) or _UNIT.match(line.text) for line in content.lines)
    return isinstance(content, Document) and _workers(content.data) is not None


def servers(items: Sequence[Evidence]) -> list[Server]:
    """One router per URL. Its metrics port, files and flags belong to the router on the same host, else to the only one
    there is.
    """
    routers: dict[str, _Known] = {}
    for item in sorted(items, key=_own_address_first):
        target = item.origin.target
        near = None if item.origin.owner else _owner(routers, item)  # a process' own evidence is nobody else's
        known = routers.get(target) or near or routers.setdefault(target, _Known())
        known.evidence.append(item)
        _gather(known, item)
    return [_server(target, known) for target, known in routers.items()]


def asked_of(item: Evidence) -> Mapping[str, Figure]:
    """What a router's command line asks for, and what it leaves to the defaults."""
    return from_argv(item, item.content).figures if isinstance(item.content, Argv) else {}


def _own_address_first(item: Evidence) -> int:
    """The main port answers /workers; metrics come from another port; files and flags have no address."""
    if not item.origin.target.startswith("http"):
        return 2
    return 1 if isinstance(item.content, Samples) else 0


def _owner(routers: Mapping[str, _Known], item: Evidence) -> _Known | None:
    if isinstance(item.content, Document):
        return None
    host = _host(item.origin.target)
    near = [known for target, known in routers.items() if not host or _host(target) in (host, "")]
    if len(near) != 1 or (isinstance(item.content, Argv) and "max_concurrent_requests" in near[0].figures):
        return None
    return near[0]


def _host(target: str) -> str:
    """The host of a URL; "" for a file."""
    match = _HOST.match(target)
    return match[1].lower() if match else ""


def _gather(known: _Known, item: Evidence) -> None:
    content = item.content
    if isinstance(content, Argv):
        flags = from_argv(item, content)
        known.figures.update({n: f for n, f in flags.figures.items() if n not in known.figures})
        known.workers.update(
            dict.fromkeys(flags.prefill, "prefill")
            | dict.fromkeys(flags.decode, "decode")
            | dict.fromkeys(flags.workers, "regular")
        )
    elif isinstance(content, Samples):
        _gather_samples(known, item, content)
    elif isinstance(content, Document):
        _gather_workers(known, item, _workers(content.data) or [])
    elif isinstance(content, Log):
        for line in content.lines:
            _gather_line(known, item, line)


def _started(text: str) -> re.Match[str] | None:
    """The router's line of its start, not the text of a request that quotes one."""
    match = _STARTED.search(text)
    return match if match and not in_quotes(text, match.start()) else None


def _workers(data: Any) -> list[dict[str, Any]] | None:
    """The list of `/workers`: objects with a url, under "workers" or bare."""
    found = data.get("workers") if isinstance(data, dict) else None
    if isinstance(found, list) and all(isinstance(w, dict) and "url" in w for w in found):
        return found
    return None


def _gather_workers(known: _Known, item: Evidence, workers: Iterable[Mapping[str, Any]]) -> None:
    """Prefill first, then by URL: the router names them in another order each time."""
    for index, worker in sorted(enumerate(workers), key=lambda row: _place(row[1])):
        url, healthy = str(worker["url"]), worker.get("is_healthy")
        known.workers[url] = str(worker.get("worker_type") or worker.get("type") or "regular")
        if isinstance(healthy, bool):
            source = Source(item.place, f"workers[{index}].is_healthy")
            known.usage[f"healthy {url}"] = Figure(f"healthy {url}", healthy, "", Kind.READ, source)


def _place(worker: Mapping[str, Any]) -> tuple[bool, str]:
    return worker.get("worker_type") != "prefill", str(worker["url"])


def _gather_samples(known: _Known, item: Evidence, content: Samples) -> None:
    for sample in content.samples:
        name = next((sample.name[len(p) :] for p in _PREFIXES if sample.name.startswith(p)), "")
        if name in _SUMS and sample.value == sample.value and abs(sample.value) < 1e15:
            _add(known, name, sample, item)


def _add(known: _Known, name: str, sample: Sample, item: Evidence) -> None:
    label = sample.labels.get(_BY_LABEL.get(name, ""), "")
    quantity = f"{_SUMS[name]} {label}".strip()
    reading = Figure(
        quantity,
        int(sample.value),
        "",
        Kind.READ,
        Source(item.place, sample.name),
        observed_at=item.observed_at,
    )
    held = known.usage.get(quantity)
    if held is None:
        known.usage[quantity] = reading
    else:
        inputs = (*(held.inputs or (held,)), reading)
        known.usage[quantity] = derived(quantity, held.count + reading.count, "", inputs, "sum over its series")
    if name in _OF_WORKERS and "worker" in sample.labels:
        url = sample.labels["worker"]
        known.workers.setdefault(url, "regular")
        if name == "worker_health":
            known.usage[f"healthy {url}"] = replace(reading, name=f"healthy {url}", value=sample.value > 0)


def _gather_line(known: _Known, item: Evidence, line: LogLine) -> None:
    source = Source(item.place, place_of(item, line), line.text[:160])
    if unit := _UNIT.match(line.text):
        known.figures["unit"] = Figure("unit", unit["unit"], "", Kind.READ, source, observed_at=line.time or None)
        known.figures["unit_started"] = Figure("unit_started", line.time or "time not printed", "", Kind.READ, source)
    if item.origin.pid:
        known.figures["pid"] = Figure("pid", item.origin.pid, "", Kind.READ, Source(item.place))
    match = _started(line.text)
    if match is None:
        return
    known.figures["port"] = Figure("port", int(match["port"]), "", Kind.READ, source)
    known.figures["host"] = Figure("host", match["host"], "", Kind.READ, source)
    known.figures["mode"] = Figure("mode", match["mode"], "", Kind.READ, source)
    if policy := re.search(r"\| policy: (\w+)", match["rest"]):
        known.figures["policy"] = Figure("policy", policy[1], "", Kind.READ, source)
    prefill, _, decode = match["rest"].partition("decode_urls")
    known.workers.update(
        {u: "prefill" if match["mode"].startswith("Prefill") else "regular" for u in _URL.findall(prefill)}
    )
    known.workers.update(dict.fromkeys(_URL.findall(decode), "decode"))


def _server(target: str, known: _Known) -> Server:
    figures = dict(known.figures)
    reason = "the router's command line is not part of the evidence: give it with --flags"
    limit = figures.get("max_concurrent_requests") or missing("max_concurrent_requests", "requests", reason)
    figures["max_concurrent_requests"] = limit
    names = (
        ("limit", "max_concurrent_requests", "requests"),
        ("queue", "queue_size", "requests"),
        ("tries", "retry_max_retries", "tries"),
        ("request timeout", "request_timeout_secs", "s"),
    )
    settings = tuple(
        Setting(
            label,
            figures.get(name) or missing(name, unit, reason),
            missing(name, unit, "the router states no limit that is in effect"),
        )
        for label, name, unit in names
    )
    return Server(
        name=target if target.startswith("http") else _file_name(target, figures),
        engine=ROUTER,
        role=Role.ROUTER,
        figures=figures,
        settings=settings,
        usage=known.usage,
        evidence=tuple(known.evidence),
        workers=tuple(known.workers),
        notes=() if limit.known else ("its limits stand on its command line only: give that with --flags",),
    )


def _file_name(target: str, figures: Mapping[str, Figure]) -> str:
    name = target.rsplit("/", 1)[-1]
    return f"{name} (port {figures['port'].value})" if "port" in figures else name
