"""The memory report as JSON, versioned; its schema is memory.schema.json beside this file. Sizes are bytes."""

from __future__ import annotations

import json
from typing import Any

from .. import __version__
from ..capacity.ledger import Ledger, Part
from ..capacity.ledger_tap import OnTap, Setting, Way
from ..engines.ledger import Account
from ..figure import Figure
from .json_form import figure_form as figure_data
from .memory_model import Buys, Memory

SCHEMA = "ullage.memory/1"


def to_json(memory: Memory) -> str:
    return json.dumps(to_data(memory), indent=1, ensure_ascii=False, allow_nan=False)


def to_data(memory: Memory) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "ullage": __version__,
        "read_at": memory.read_at.isoformat(timespec="seconds"),
        "read_as": list(memory.echoes),
        "margin_bytes": memory.margin,
        "servers": [_account(account, memory.buys[account.server.name]) for account in memory.accounts],
        "gpus_without_server": [_ledger(ledger) for ledger in memory.unserved],
        "not_read": [
            *({"place": e.place, "status": f.status, "reason": f.reason, "advice": f.advice} for e, f in memory.failed),
            *(
                {"place": u.evidence.place, "status": "not understood", "reason": u.reason, "advice": ""}
                for u in memory.unclaimed
            ),
        ],
    }


def _account(account: Account, buys: tuple[Buys, ...]) -> dict[str, Any]:
    server = account.server
    return {
        "name": server.name,
        "engine": server.engine,
        "role": server.role.value,
        "devices": [_ledger(ledger) for ledger in account.ledgers],
        "on_tap": _tap(account.tap, buys),
    }


def _ledger(ledger: Ledger) -> dict[str, Any]:
    return {
        "device": ledger.device,
        "whole_is": ledger.of_whole,
        "whole": figure_data(ledger.whole),
        "usable": _perhaps(ledger.usable),
        "held_by_its_processes": _perhaps(ledger.held),
        "parts": [_part(part) for part in ledger.parts],
        "unaccounted": figure_data(ledger.unaccounted),
        "not_known": [figure_data(figure) for figure in ledger.unknown],
        "remarks": list(ledger.remarks),
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "size": figure_data(part.size),
        "free": part.free,
        "why": part.why,
        "of_it": [_part(inner) for inner in part.of_it],
    }


def _perhaps(figure: Figure | None) -> dict[str, Any] | None:
    return figure_data(figure) if figure is not None else None


def _tap(tap: OnTap, buys: tuple[Buys, ...]) -> dict[str, Any]:
    return {
        "lever": tap.lever,
        "now": _perhaps(tap.now),
        "pool": _perhaps(tap.pool),
        "left": _perhaps(tap.left),
        "pool_per_hundredth": _perhaps(tap.each),
        "best": tap.best.value if tap.best else None,
        "settings": [_setting(setting, buys) for setting in tap.settings],
        "grows_with_context": [figure_data(figure) for figure in tap.grows],
        "ways": [_way(way) for way in tap.ways],
        "checks": [
            {"of": c.of, "predicted": figure_data(c.predicted), "stated": figure_data(c.stated), "error": c.error}
            for c in tap.checks
        ],
        "warnings": list(tap.warns),
        "says": list(tap.says),
        "unknown": tap.unknown,
    }


def _way(way: Way) -> dict[str, Any]:
    return {
        "what": way.what,
        "gives": figure_data(way.gives),
        "worth": _perhaps(way.worth),
        "by": way.by,
        "price": way.price,
    }


def _setting(setting: Setting, buys: tuple[Buys, ...]) -> dict[str, Any]:
    return {
        "value": setting.value,
        "pool": figure_data(setting.pool),
        "left": figure_data(setting.left),
        "safe_requests": {found.label: figure_data(found.safe[setting.value]) for found in buys},
    }
