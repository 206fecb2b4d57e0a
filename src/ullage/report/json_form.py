"""The report as JSON, versioned; its schema is limits.schema.json beside this file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .. import __version__
from ..capacity.chain import ChainLimits
from ..capacity.limits import Ceiling, Limits
from ..capacity.pool import Pool
from ..capacity.request import Shape
from ..deployment import Answer, reach_of, total_context
from ..engines.server import Disagreement, Level, OnHost, Server, Setting
from ..evidence import Evidence, Unit
from ..figure import Figure
from ..findings.base import Finding
from .model import Report

SCHEMA = "ullage.limits/1"


def to_json(report: Report) -> str:
    return json.dumps(to_data(report), indent=1, ensure_ascii=False, allow_nan=False)


def to_data(report: Report) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "ullage": __version__,
        "read_at": _time(report.read_at),
        "read_as": list(report.echoes),
        "servers": [_server(report, server) for server in report.deployment.servers],
        "chain": [_chain(a, a.chain) for a in report.answers if a.chain],
        "chain_not_computed": "; ".join(part.no_chain for part in report.deployment.parts if part.no_chain) or None,
        "findings": [_finding(finding) for finding in report.findings],
        "not_read": _not_read(report),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "subject": finding.subject,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "where": finding.where,
        "says": finding.says,
        "advice": finding.advice,
        "evidence": [figure_form(figure) for figure in finding.evidence],
    }


def _not_read(report: Report) -> list[dict[str, str]]:
    failed = [(e.place, f.status, f.reason, f.advice) for e, f in report.failed]
    unclaimed = [(u.evidence.place, "not understood", u.reason, "") for u in report.unclaimed]
    names = ("place", "status", "reason", "advice")
    return [dict(zip(names, told, strict=True)) for told in (*failed, *unclaimed)]


def _server(report: Report, server: Server) -> dict[str, Any]:
    """Who it is, what it holds, what of that is in use, what was before, where all of it was read, and its limits."""
    return {
        "name": server.name,
        "engine": server.engine,
        "role": server.role.value,
        **_capacity(server),
        **_use(server),
        **_past(server),
        "disagreements": [_disagreement(d) for d in server.disagreements],
        "workers": list(server.workers),
        "host": _on_host(server.host) if server.host else None,
        "notes": list(server.notes),
        "evidence": [_evidence(item) for item in server.evidence],
        "limits": [_limits(a.label, a.by_server[server.name]) for a in report.answers if server.name in a.by_server],
    }


def _capacity(server: Server) -> dict[str, Any]:
    reach = reach_of(server)
    return {
        "figures": _figures(server.figures),
        "settings": [_setting(setting) for setting in server.settings],
        "pools": [_pool(pool) for pool in server.pools],
        "longest_request": figure_form(reach.tokens),
        "longest_request_by": reach.ceiling.what if reach.ceiling else None,
        "longest_request_perhaps": _ceiling(reach.perhaps),
        "total_context": figure_form(total_context(server)),
        "default_output": figure_form(server.default_output),
    }


def _use(server: Server) -> dict[str, Any]:
    return {
        "usage": _figures(server.usage),
        "peaks": _figures(server.peaks),
        "running": figure_form(server.running),
        "queues": [{"label": q.label, "waiting": figure_form(q.waiting)} for q in server.queues],
        "levels": [_level(level) for level in server.levels],
        "ranks": {rank.name: _figures(rank.figures) for rank in server.ranks},
    }


def _past(server: Server) -> dict[str, Any]:
    return {
        "history": [
            {"at": m.at, "rank": m.rank, "values": {name: f.value for name, f in m.figures.items()}}
            for m in server.history
        ],
        "earlier_starts": [
            {"began": e.began, "note": e.why_earlier, "figures": _figures(e.figures)} for e in server.earlier
        ],
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {
        "label": setting.label,
        "requested": figure_form(setting.requested),
        "effective": figure_form(setting.effective),
        "differs": setting.differs,
        "why": setting.why,
    }


def _disagreement(found: Disagreement) -> dict[str, Any]:
    return {"quantity": found.quantity, "figures": [figure_form(f) for f in found.figures], "why": found.why}


def _evidence(item: Evidence) -> dict[str, Any]:
    return {
        "place": item.place,
        "topic": item.topic,
        "stream": item.origin.stream,
        "pid": item.origin.pid,
        "read_at": _time(item.read_at),
    }


def _on_host(host: OnHost) -> dict[str, Any]:
    """Where it was found: its processes and its unit; what its unit's files ask for that its command line does not."""
    process, unit = host.process, host.unit
    return {
        "pid": process.pid,
        "started_at": _time(process.started_at),
        "user": process.user,
        "processes": [{"pid": member.pid, "title": member.title} for member in process.members],
        "listens": list(process.listens),
        "cwd": process.cwd,
        "container": process.container,
        "network": process.network,
        "output": process.output,
        "environment": dict(host.environment),
        "unit": _unit(unit) if unit else None,
        "configured": None if host.configured is None else _figures(host.configured),
    }


def _unit(unit: Unit) -> dict[str, Any]:
    return {
        "name": unit.name,
        "manager": unit.manager,
        "state": unit.state,
        "invocation": unit.invocation,
        "since": _time(unit.since),
        "restarts": unit.restarts,
        "result": unit.result,
        "reload_pending": unit.reload_pending,
        "gone": unit.gone,
        "files": [{"path": file.path, "changed_at": _time(file.changed_at)} for file in unit.files],
    }


def _limits(label: str, found: Limits) -> dict[str, Any]:
    return {
        "label": label,
        "shape": _shape(found.shape),
        "admits": figure_form(found.admits),
        "safe": figure_form(found.safe),
        "at_most": found.at_most,
        "binds": found.binds,
        "safe_binds": found.safe_binds,
        "beyond": found.beyond,
        "overflow": found.overflow,
        "why": found.why,
        "by_pool": [
            {
                "pool": p.pool.name,
                "admits_low": p.admits.low if p.admits else None,
                "admits_high": p.admits.high if p.admits else None,
                "admits_now": p.admits.now if p.admits else None,
                "safe": p.safe,
            }
            for p in found.by_pool
        ],
        "not_counted": [{"pool": p.name, "reason": p.unknown or p.size.note} for p in found.uncounted],
        "refused_by": _ceiling(found.refused),
        "perhaps_refused_by": _ceiling(found.perhaps_refused),
    }


def _chain(answer: Answer, found: ChainLimits) -> dict[str, Any]:
    return {
        "label": answer.label,
        "servers": list(answer.by_server),
        "shape": _shape(answer.shape),
        "admits": figure_form(found.admits),
        "safe": figure_form(found.safe),
        "at_most": found.at_most,
        "binds": found.binds,
        "beyond": found.beyond,
        "overflow": found.overflow,
        "why": found.why,
        "in_prefill": figure_form(found.in_prefill),
        "refused_by": _ceiling(found.refused),
        "perhaps_refused_by": _ceiling(found.perhaps_refused),
    }


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None


def _shape(shape: Shape) -> dict[str, int | None]:
    return {"prompt_tokens": shape.prompt, "output_tokens": shape.output, "shared_tokens": shape.shared}


def _pool(pool: Pool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "unit": pool.unit,
        "size": figure_form(pool.size),
        "partitions": pool.partitions,
        "counted": pool.counted,
        "reason": "" if pool.counted else pool.unknown or pool.size.note,
        "beyond": pool.beyond,
        "lever": pool.lever,
    }


def _level(level: Level) -> dict[str, Any]:
    parts = ("size", "used", "evictable", "reserved", "free", "in_use", "room")
    return {"pool": level.pool, **{name: figure_form(getattr(level, name)) for name in parts}}


def _ceiling(ceiling: Ceiling | None) -> dict[str, Any] | None:
    if ceiling is None:
        return None
    return {
        "what": ceiling.what,
        "tokens": figure_form(ceiling.tokens),
        "beyond": ceiling.beyond,
        "certain": ceiling.certain,
    }


def _figures(figures: Mapping[str, Figure]) -> dict[str, Any]:
    return {name: figure_form(figure) for name, figure in figures.items()}


def figure_form(figure: Figure) -> dict[str, Any]:
    """A figure with its source or inputs; empty fields are left out, `value` never."""
    source = figure.source
    optional = {
        "source": {"evidence": source.evidence, "place": source.place, "quote": source.quote} if source else None,
        "inputs": [figure_form(f) for f in figure.inputs] or None,
        "note": figure.note or None,
        "low": figure.low,
        "high": figure.high,
        "observed_at": figure.observed_at,
    }
    return {"name": figure.name, "value": figure.value, "unit": figure.unit, "kind": figure.kind.value} | {
        k: v for k, v in optional.items() if v is not None
    }
