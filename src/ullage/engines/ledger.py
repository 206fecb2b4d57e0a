"""The ledgers of a server and what is on tap, by its engine; with GPU evidence, of each card as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from ..capacity.ledger import Ledger
from ..capacity.ledger_tap import OnTap
from ..evidence import Evidence, Failure
from .ledger_claims import cards_of
from .ledger_gpus import on_cards, unserved
from .server import Role, Server

_MODULES = {"SGLang": "sglang", "vLLM": "vllm", "llama.cpp": "llamacpp", "tank": "tank"}
_LINES = {  # of a start, which state sizes in bytes
    "SGLang": "'Load weight end' and 'Memory pool end'",
    "vLLM": "'Model loading took' and 'Available KV cache memory'",
    "llama.cpp": "'model buffer size' and 'KV buffer size'",
}


class _Reckons(Protocol):
    """What an engine's `ledger` and `on_tap` modules offer."""

    def ledgers(self, server: Server) -> list[Ledger]: ...

    def on_tap(self, server: Server, ledgers: list[Ledger], margin: int) -> OnTap: ...


class Account(NamedTuple):
    """A server's memory: a ledger of each device, and what is on tap."""

    server: Server
    ledgers: tuple[Ledger, ...]
    tap: OnTap


def accounts_of(
    servers: Sequence[Server], items: Sequence[Evidence], margin: int
) -> tuple[list[Account], list[Ledger]]:
    """Of every worker; and the GPUs that no server here is known to use. `margin`: bytes that are to be left free."""
    cards = cards_of(items)
    workers = [s for s in servers if s.role is not Role.ROUTER and s.engine in _MODULES]
    lost = next((i.content for i in items if i.topic == "gpus" and isinstance(i.content, Failure)), None)
    why = f"{lost.reason}; {lost.advice}" if lost else ""
    placed = on_cards({s.name: _ledgers(s) for s in workers}, workers, cards, why)
    accounts = [Account(s, tuple(placed[s.name]), _tap(s, placed[s.name], margin)) for s in workers]
    accounts = [account._replace(tap=_with_others(account, workers)) for account in accounts]
    return accounts, unserved(cards, [led for found in placed.values() for led in found])


def _ledgers(server: Server) -> list[Ledger]:
    """Those that tell anything."""
    return [led for led in _module(server, "ledger").ledgers(server) if led.parts or led.whole.known]


def _tap(server: Server, ledgers: list[Ledger], margin: int) -> OnTap:
    if not ledgers:
        lines = f", in lines of {_LINES[server.engine]}" if server.engine in _LINES else ""
        return OnTap(
            "", unknown=f"nothing of its memory is part of the evidence: the start-up log would tell it{lines}"
        )
    return _module(server, "on_tap").on_tap(server, ledgers, margin)


def _with_others(account: Account, workers: Sequence[Server]) -> OnTap:
    """Are the pools of SGLang's other servers what this one's figures give?"""
    if account.server.engine != "SGLang":
        return account.tap
    from .sglang.on_tap import check_against

    others = [s for s in workers if s is not account.server and s.engine == "SGLang"]
    found = [check_against(account.server, account.ledgers, other) for other in others]
    return account.tap._replace(checks=(*account.tap.checks, *(check for check in found if check is not None)))


def _module(server: Server, name: str) -> _Reckons:
    module: _Reckons = import_module(f"{__package__}.{_MODULES[server.engine]}.{name}")
    return module
