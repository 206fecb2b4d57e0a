"""The report's lines as plain words: who runs, the rows of the limits, what happens beyond, what is in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..capacity.chain import ChainLimits
from ..capacity.limits import Limits
from ..deployment import Answer, Deployment
from ..engines.server import Level, Role, Server
from ..figure import Figure, Kind
from ..findings.base import Finding
from .model import Report
from .words import plain, ratio, value_of

_MODEL = ("model_path", "model", "served_model_name", "model_class", "architecture", "model_alias")
_RANKS = (  # by the names of SGLang and of vLLM
    *(("tp_size", "TP"), ("pp_size", "PP"), ("dp_size", "DP"), ("ep_size", "EP"), ("dcp_size", "DCP")),
    *(("tensor_parallel_size", "TP"), ("pipeline_parallel_size", "PP"), ("data_parallel_size", "DP")),
    *(("decode_context_parallel_size", "DCP"), ("prefill_context_parallel_size", "PCP")),
)


class Row(NamedTuple):
    """One request shape. `remarks` are said below the table, each once."""

    label: str
    admits: str
    safe: str
    binds: str
    in_prefill: str = ""  # of a chain
    why: str = ""
    remarks: tuple[str, ...] = ()
    found: Limits | ChainLimits | None = None  # what the words were made of
    prompt: int = 0


def identity(server: Server) -> str:
    """`decode  DeepSeek-V4-Flash  SGLang 0.5.9  TP 4  http://...`"""
    return "  ".join((server.role.value, *who_runs(server), server.name))


def who_runs(server: Server) -> tuple[str, ...]:
    """The model, the engine with its version, and the ranks; of a router its workers."""
    version = server.figure("version")
    if server.role is Role.ROUTER:
        count = len(server.workers)
        workers = f"{count} worker{'s' if count != 1 else ''}" if count else "workers not known"
        return (f"{server.engine} {version.value}" if version.known else server.engine, workers)
    engine = f"{server.engine} {version.value}" if version.known else f"{server.engine} (version not known)"
    counts = ((short, server.figure(name)) for name, short in _RANKS)
    ranks = " ".join(f"{short} {_at_least(f)}" for short, f in counts if f.known and f.value != 1)
    return tuple(filter(None, (model_of(server) or "model not known", engine, ranks)))


def _at_least(ranks: Figure) -> str:
    """Of ranks that were seen at work there may be more."""
    return f">= {ranks.value}" if ranks.kind is Kind.INFERRED else str(ranks.value)


def model_of(server: Server) -> str:
    """The model's name without its path, or nothing."""
    path = next((figure.value for name in _MODEL if (figure := server.figure(name)).known), "")
    return str(path).rstrip("/").rsplit("/", 1)[-1]


def rows_of(report: Report) -> list[tuple[str, list[Row]]]:
    """(title, rows): one table for a chain, one per server elsewhere."""
    parts = report.deployment.parts
    chains = sum(part.is_chain for part in parts)
    found = [titled for part in parts for titled in _rows_of(report, part, chains, len(report.deployment.workers))]
    return [(title, _told_once(rows)) for title, rows in found]


def _told_once(rows: list[Row]) -> list[Row]:
    """Where nothing is known at any length, for one reason, that is one row."""
    unknown = len(rows) > 1 and all(row.found and not row.found.admits.known for row in rows)
    if unknown and len({row.remarks for row in rows}) == 1:
        return [rows[0]._replace(label="any")]
    return rows


def _rows_of(report: Report, part: Deployment, chains: int, workers: int) -> list[tuple[str, list[Row]]]:
    """One part's. `chains`, `workers`: how many there are in the whole report."""
    if part.is_chain:
        names = {server.name for server in part.workers}
        shares = _shares_prefixes(part.of(Role.DECODE))
        rows = [
            _row(a, a.chain, _binds(a.chain), shares) for a in report.answers if a.chain and names & set(a.by_server)
        ]
        whose = f", {(part.routers or part.workers)[0].name}" if chains > 1 else ""
        return [(f"Parallel requests, prefill to decode{whose}", rows)]
    titled = [(f"Parallel requests, {s.name}" if workers > 1 else "Parallel requests", s) for s in part.workers]
    return [(title, [_server_row(a, s) for a in report.answers if s.name in a.by_server]) for title, s in titled]


def _server_row(answer: Answer, server: Server) -> Row:
    found = answer.by_server[server.name]
    return _row(answer, found, _binds(found), _shares_prefixes((server,)))


def _binds(found: Limits | ChainLimits) -> str:
    """What binds; and what binds the safe number, where that is another."""
    return found.binds if found.binds == found.safe_binds else f"{found.binds}; safe: {found.safe_binds}"


def _row(answer: Answer, found: Limits | ChainLimits, binds: str, shares: bool) -> Row:
    label = f"full {answer.shape.total:,}" if answer.label == "full" else answer.label
    if not found.admits.known:
        return Row(label, "not known", "not known", "", remarks=(f"not known: {found.admits.note}",), found=found)
    if found.refused:
        remark = f"{label}: {found.refused.beyond}, longer than the {found.refused.what}"
        return Row(label, "0", "0", binds, why=found.why, remarks=(remark,), found=found)
    bound, mark = "<=" if found.at_most else "", "*" if found.perhaps_refused else ""
    admits, safe = (f"{bound if figure.most else ''}{value_of(figure)}{mark}" for figure in (found.admits, found.safe))
    in_prefill = value_of(found.in_prefill) if isinstance(found, ChainLimits) else ""
    remarks = tuple(_remarks(answer, found, shares))
    return Row(label, admits, safe, binds, in_prefill, found.why, remarks, found, answer.shape.prompt)


def _remarks(answer: Answer, found: Limits | ChainLimits, shares: bool) -> Iterable[str]:
    if found.beyond:
        yield f"one more {found.beyond}"
    if found.overflow:
        yield f"above safe: {found.overflow}"
    if cap := found.perhaps_refused:
        who = "some prefill servers" if cap.certain else "older builds"
        yield f"* only if prefill takes it: {who} refuse prompts above {cap.tokens.count:,} tokens ({cap.what})"
    if isinstance(found, Limits) and found.uncounted:
        pools = ", ".join(f"{p.name} ({p.unknown or p.size.note})" for p in found.uncounted)
        yield f"<= is an upper bound, not counted: {pools}"
    if answer.shape.shared and not shares:
        yield "shared has no effect: there is no prefix cache where the limit is"


def _shares_prefixes(servers: Sequence[Server]) -> bool:
    return any(pool.demand is not None and pool.demand.shares for server in servers for pool in server.pools)


def consequences(rows: Sequence[Row]) -> list[str]:
    """What happens to one request more, to admitted ones that outgrow the pool, and all other remarks, once each."""
    return list(dict.fromkeys(remark for row in rows for remark in row.remarks))


def sums(rows: Sequence[Row], asked: Sequence[str]) -> Iterable[str]:
    """The sum behind each row that was asked for: why this many, and not one more."""
    return [f"{row.label}: {row.why}" for row in rows if row.why and row.label in asked]


def grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Worst first; the same finding on several servers together."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.id, finding.says, finding.advice), []).append(finding)
    return list(groups.values())


def not_read(report: Report) -> list[str]:
    """What was asked for and could not be read, and why."""
    lines = [
        f"{e.place}: {f.reason}{'; ' + f.advice if f.advice else ''}" for e, f in report.failed if f.status != "404"
    ]
    lines += [f"{u.evidence.place}: {u.reason}" for u in report.unclaimed]
    if absent := _absent(report):
        lines.append("not served: " + ", ".join(absent))
    return lines


def _absent(report: Report) -> list[str]:
    """Endpoints that a worker of its kind could serve, and does not. That a router is no worker is nothing to tell."""
    routers = {s.name for s in report.deployment.routers}
    failed = [e for e, f in report.failed if f.status == "404"]
    return [e.place for e in failed if e.origin.target not in routers and e.topic != "workers"]


def usage_rows(server: Server) -> Iterable[tuple[str, str]]:
    """What is in use now, as far as it is known."""
    if server.role is Role.ROUTER:
        return router_usage(server)
    return (*_worker_usage(server), *peaks(server), *host_cache(server))


def _worker_usage(server: Server) -> Iterable[tuple[str, str]]:
    running = server.running
    queues = ", ".join(f"{q.label} {plain(q.waiting.value)}" for q in server.queues if q.waiting.known)
    if not (running.known or queues or server.levels):
        yield "in use now", f"not known: {running.note}{server.unread_words}"
        return
    captured = not any(e.origin.target.startswith("http") for e in server.evidence)
    unstated = " (when it was captured, the file does not say)" if captured else ""
    at = f" (at {running.observed_at})" if running.observed_at else unstated
    told = f"{value_of(running)} running" if running.known else "running requests not known"
    yield "in use now", f"{told}; queues: {queues or 'not known'}{at}"
    for level in server.levels:
        yield f"{level.pool} in use", "; ".join((*_level(level), *_at_once(server, level)))


def _at_once(server: Server, level: Level) -> Iterable[str]:
    """Of the slots of a decode server only so many run: the others are for what arrives."""
    most = server.figure("max_running_requests")
    spare = level.size.known and any(part.name == "disaggregation_decode_extra_slots" for part in level.size.inputs)
    if level.pool == "request slots" and spare and most.known:
        yield f"{value_of(most)} of them run at once, the others hold what arrives"


def peaks(server: Server) -> Iterable[tuple[str, str]]:
    """`highest: 31 running, 12 queued, 97% of the pool (the highest that Prometheus saw in 1 h)`"""
    known = [f for f in server.peaks.values() if f.known]
    if known:
        told = ", ".join(f"{f.name} {ratio(f) if f.unit == 'of the pool' else value_of(f)}" for f in known)
        yield "highest", f"{told} ({known[0].note})"


def _level(level: Level) -> Iterable[str]:
    """`1,872,640 of 2,454,784 tokens (76%)`, what is kept back, what is evictable, the room left."""
    unit, share = level.size.unit, level.in_use
    if level.used.known:
        whole = f" of {value_of(level.size)}" if level.size.known else ""
        yield f"{value_of(level.used)}{whole} {unit}" + (f" ({ratio(share)})" if share.known else "")
    else:
        yield f"{ratio(share)}, as the engine states it" if share.known else f"not known ({level.used.note})"
    if level.reserved.known and level.reserved.number:
        yield f"{value_of(level.reserved)} kept back"
    room = level.room
    if not room.known:
        yield f"room left not known ({room.note})"
        return
    most = "" if level.reserved.known else "at most "
    cache = f", {value_of(level.evictable)} of it evictable cache" if _may_cache(level) else ""
    yield f"room left: {most}{value_of(room)} {unit}{cache}"


def _may_cache(level: Level) -> bool:
    return level.evictable.known and level.evictable.kind is not Kind.DEFAULT


def host_cache(server: Server) -> Iterable[tuple[str, str]]:
    """The tier in host memory, apart: it is for reuse and adds nothing to what fits."""
    total, held = server.figure("hicache_host_total_tokens"), server.use("hicache_host_used_tokens")
    allocated = server.figure("hicache_host_gb")
    if total.known:
        told = f"{value_of(held)} of {value_of(total)} tokens"
    elif allocated.known:
        told = f"{value_of(allocated)} GB of host memory"
    elif server.figure("enable_hierarchical_cache").value is True:
        size, times = server.figure("hicache_size"), server.figure("hicache_ratio")
        told = f"on, {value_of(size)} GB" if size.known and size.number else f"on, {value_of(times)} x the device pool"
    else:
        return
    yield "host cache", f"{told}; for reuse only, it raises no limit"


def router_usage(server: Server) -> Iterable[tuple[str, str]]:
    for worker in server.workers:
        healthy = server.use(f"healthy {worker}")
        yield "worker", worker + ("" if not healthy.known else ", healthy" if healthy.value else ", unhealthy")
    told = ", ".join(f"{name} {plain(f.value)}" for name, f in server.usage.items() if not name.startswith("healthy"))
    if told:
        yield "counters", told
