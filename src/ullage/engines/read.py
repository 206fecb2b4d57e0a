"""All evidence of a run, handed to the engine it belongs to; what belongs to none is named, never guessed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple, Protocol

from ..evidence import MAXIMA, Argv, Document, Evidence, Failure, Gpus, Log, Samples
from ..figure import Figure, Kind
from .facts import Facts
from .intended import with_intended
from .on_host import is_at, is_of, is_of_host, only_seen, with_host
from .programs import ROUTER
from .remarks import remarked
from .router import read as router_read
from .server import Role, Server
from .signs import engine_of
from .tank.read import as_tank
from .unread import told_together

# What the readers are told to look for. (topic, paths: the newer name first, unless that topic is answered)
ENDPOINTS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("server_info", ("/server_info", "/get_server_info"), ()),
    ("model_info", ("/model_info", "/get_model_info"), ()),
    ("loads", ("/v1/loads", "/get_load"), ()),
    ("models", ("/v1/models",), ()),
    ("metrics", ("/metrics",), ()),
    ("workers", ("/workers",), ()),
    ("version", ("/version",), ("model_info", "workers")),
    ("vllm_config", ("/server_info?config_format=json",), ("model_info", "workers")),
    ("props", ("/props",), ("model_info", "workers")),
    ("slots", ("/slots",), ("model_info", "workers")),
)
# Topics that tell servers apart: the first of these that answered is asked again.
TELLING = ("server_info", "metrics", "props")
# Endpoints that one engine serves: that another does not is nothing to tell.
ENDPOINTS_OF = {
    "SGLang": frozenset(["server_info", "model_info", "loads", "models", "metrics"]),
    "tank": frozenset(["server_info", "model_info", "loads", "models", "metrics"]),
    "vLLM": frozenset(["version", "models", "metrics"]),
    "llama.cpp": frozenset(["props", "slots", "models", "metrics"]),
    "llama.cpp router": frozenset(["props", "models"]),  # it asks for a model's name where a child would answer
}
# Of a server whose program is known, what is asked.
TOPICS_OF = {
    "SGLang": ENDPOINTS_OF["SGLang"],
    "vLLM": ENDPOINTS_OF["vLLM"] | {"vllm_config"},
    "llama.cpp": ENDPOINTS_OF["llama.cpp"],
    ROUTER: frozenset(["workers"]),  # what else it answers, its workers do
}
# How the engines are launched. Their mere name stands in their logs too ("sglang is using nccl==2.27.3").
COMMANDS = (
    r"sglang\.launch_server|sglang/launch_server|\bsglang serve\b|launch_router|sgl(?:ang)?-router|sgl-model-gateway"
    r"|(?:^|/)smg(?:\s|$)|\bvllm serve\b|vllm\.entrypoints|llama[-_]server(?!:|\.service)|llama\.cpp:\S*server"
    r"|llama\.cpp:full\S* (?:--server|-s)\b|(?:^|[\s/])llama(?:\.exe)? serve\b|\bullage[./]tank[./]worker\b"
)
_ENGINES = {"SGLang": "sglang", "vLLM": "vllm", "llama.cpp": "llamacpp"}


class Engine(Protocol):
    """What an engine's `read` module offers."""

    def facts_of(self, evidence: Evidence) -> list[Facts]: ...

    def servers(self, facts: Sequence[Facts]) -> list[Server]: ...


class Unclaimed(NamedTuple):
    """Evidence that no engine here reads, and why."""

    evidence: Evidence
    reason: str


def log_markers() -> list[tuple[tuple[bytes, ...], re.Pattern[bytes]]]:
    """By engine (what marks the beginning of a start, which lines of a log to keep): bytes, for a reader that knows no
    engine.
    """
    lines = [import_module(f"{__package__}.{name}.lines") for name in _ENGINES.values()]
    return [(module.STARTS, module.KEEP) for module in lines]


def read(items: Sequence[Evidence]) -> tuple[list[Server], list[Unclaimed]]:
    """The servers that the evidence speaks of, workers before routers, and what could not be used."""
    every, items = items, [item for item in items if not (item.again or is_of_host(item) or item.topic == MAXIMA)]
    routers = [item for item in items if not item.failed and router_read.is_routers(item)]
    taken = {id(item) for item in routers}
    router_targets = {item.origin.target for item in routers if item.origin.target.startswith("http")}
    facts: dict[str, list[Facts]] = {}
    unclaimed = []
    for item in items:
        if item.failed or id(item) in taken or item.origin.target in router_targets:
            continue  # a router answers some worker endpoints on its workers' behalf
        engine, found = _facts(item)
        facts.setdefault(engine, []).extend(found)
        if not found:
            unclaimed.append(Unclaimed(item, _why(item, engine)))
    workers = [as_tank(s) for engine, found in facts.items() if found for s in _engine(engine).servers(found)]
    told = [*workers, *router_read.servers(routers)]
    servers = told_apart([*told, *only_seen(told, every)])
    servers = [with_intended(with_host(server, every, asked_of), every, asked_of) for server in servers]
    servers = [_with_peaks(server, every) for server in servers]
    asked = {item.origin.target for item in items}
    servers = [_with_workers(_with_unread(server, items), servers, asked) for server in servers]
    return remarked(servers, every), unclaimed


def _facts(item: Evidence) -> tuple[str, list[Facts]]:
    """The engine of an item and what it says. One without a sign is offered to every engine in turn."""
    engine = engine_of(item)
    for name in (engine,) if engine else _ENGINES:
        found = _engine(name).facts_of(item) if name in _ENGINES else []
        if found and (engine or any(map(_is_telling, found))):
            return name, found
    return engine, []


def _is_telling(facts: Facts) -> bool:
    """Does it say more than the lines of a web server do, which many programs have?"""
    figures = facts.args.keys() | facts.effective.keys() | facts.usage.keys()
    return bool(figures - {"host", "port", "ready"})


def _engine(name: str) -> Engine:
    """Loaded when the first evidence of that engine is met."""
    module: Engine = import_module(f"{__package__}.{_ENGINES[name]}.read")
    return module


def _with_peaks(server: Server, items: Sequence[Evidence]) -> Server:
    """The highest use of a window, where a source remembers it."""
    targets = {item.origin.target for item in server.evidence}
    found = [i for i in items if i.topic == MAXIMA and not i.failed and i.origin.target in targets]
    peaks = {f.name: replace(f, note=i.remark) for i in found for facts in _facts(i)[1] for f in facts.usage.values()}
    return replace(server, peaks=peaks) if peaks else server


def asked_of(item: Evidence) -> Mapping[str, Figure]:
    """What a command line asks for, by the names of its engine."""
    if router_read.is_routers(item):
        return {name: f for name, f in router_read.asked_of(item).items() if f.kind is Kind.CONFIGURED}
    return next((facts.args for facts in _facts(item)[1]), {})


def _with_workers(server: Server, servers: Sequence[Server], asked: Collection[str]) -> Server:
    """A router whose workers are not part of the evidence says how they can be. Of one that was asked and did not
    answer, the reason stands with what was not read.
    """
    live = server.name.startswith("http")
    absent = [url for url in server.workers if live and not any(is_at(other, url) for other in servers)]
    silent = [url for url in absent if url.rstrip("/") in asked]
    others = [url for url in absent if url not in silent]
    notes = [f"{_workers(len(silent))} did not answer"] if silent else []
    return replace(server, notes=(*server.notes, *notes, *_not_asked(server, others)))


def _not_asked(server: Server, urls: Sequence[str]) -> list[str]:
    if not urls:
        return []
    if server.host is None:
        return [f"{len(urls)} of its workers not read: --follow reads them too"]
    here = sum(is_of(server.host.process, url) for url in urls)
    away = len(urls) - here
    notes = []
    if away:
        notes.append(f"{_workers(away)} on another host not read: --follow reads {'it' if away == 1 else 'them'}")
    if here:
        notes.append(f"{_workers(here)} of this host not found: nothing listens there that Ullage knows")
    return notes


def _workers(count: int) -> str:
    return f"{count} worker{'s' if count != 1 else ''}"


def _with_unread(server: Server, items: Sequence[Evidence]) -> Server:
    """A server whose endpoints did not all answer says so wherever a figure is missing."""
    targets = {item.origin.target for item in server.evidence}
    unread = {
        item.topic or failure.reason: failure.reason
        for item, failure in failures(items, [server])
        if failure.status != "404" and item.origin.target in targets
    }
    return replace(server, unread=unread) if unread else server


def told_apart(servers: Sequence[Server]) -> list[Server]:
    """Every server by a name of its own: logs of several hosts often have one name and one port."""
    named: dict[str, list[Server]] = {}
    for server in servers:
        named.setdefault(server.name, []).append(server)
    return [replace(s, name=_own_name(s, named[s.name])) if len(named[s.name]) > 1 else s for s in servers]


def _own_name(server: Server, namesakes: Sequence[Server]) -> str:
    places = [s.evidence[0].origin.target for s in namesakes]
    number = next(n for n, other in enumerate(namesakes) if other is server)
    return f"{server.name}, {places[number]}" if len(set(places)) == len(places) else f"{server.name} #{number + 1}"


def _why(item: Evidence, engine: str) -> str:
    content = item.content
    if isinstance(content, Gpus):
        return "GPUs, of which only `ullage memory` tells"
    if engine and engine not in _ENGINES:
        return f"this is {engine}'s, which Ullage does not read yet"
    if isinstance(content, Log):
        why = "it holds no figure of a start or a run" if content.lines else "no line of it is an engine's"
        return "; ".join((why, *content.gaps))
    if isinstance(content, Samples):
        return "no metric of an engine or a router in it"
    if isinstance(content, Document):
        return "not the answer of an engine's endpoint"
    return "not the command line of an engine" if isinstance(content, Argv) else str(content)


def failures(items: Sequence[Evidence], servers: Sequence[Server]) -> list[tuple[Evidence, Failure]]:
    """What could not be read. That a server lacks the endpoints of another engine is no failure."""
    engines = {item.origin.target: _kind(server) for server in servers for item in server.evidence}
    failed = [(item, item.content) for item in items if isinstance(item.content, Failure)]
    return told_together([(e, f) for e, f in failed if _expected(e.topic, engines.get(e.origin.target))])


def _kind(server: Server) -> str:
    own_router = server.role is Role.ROUTER and server.engine in ENDPOINTS_OF
    return f"{server.engine} router" if own_router else server.engine


def _expected(topic: str, engine: str | None) -> bool:
    known = frozenset(name for name, _, _ in ENDPOINTS)
    return engine not in ENDPOINTS_OF or topic not in known or topic in ENDPOINTS_OF[engine]
