"""All evidence of a run, handed to the engine it belongs to; what belongs to none is named, never guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..evidence import Argv, Document, Evidence, Failure, Log, Samples
from .replicas import answers_that_differ
from .router import read as router_read
from .server import Disagreement, Role, Server
from .sglang import read as sglang_read

# What the readers are told to look for. (topic, paths: the newer name first)
ENDPOINTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("server_info", ("/server_info", "/get_server_info")),
    ("model_info", ("/model_info", "/get_model_info")),
    ("loads", ("/v1/loads", "/get_load")),
    ("models", ("/v1/models",)),
    ("metrics", ("/metrics",)),
    ("workers", ("/workers",)),
)
# Topics that tell servers apart: the first of these that answered is asked again.
TELLING = ("server_info", "metrics")
# How the engines are launched. Their mere name stands in their logs too ("sglang is using nccl==2.27.3").
COMMANDS = re.compile(
    r"sglang\.launch_server|sglang/launch_server|\bsglang serve\b|launch_router|sgl(?:ang)?-router|sgl-model-gateway"
    r"|(?:^|/)smg(?:\s|$)|\bvllm serve\b|vllm\.entrypoints|llama[-_]server"
)
_OTHER_ENGINES = (("vllm:", "vLLM"), ("llamacpp:", "llama.cpp"), ("trtllm", "TensorRT-LLM"), ("tgi_", "TGI"))


class Unclaimed(NamedTuple):
    """Evidence that no engine here reads, and why."""

    evidence: Evidence
    reason: str


def log_markers() -> tuple[tuple[bytes, ...], re.Pattern[bytes]]:
    """(what marks the beginning of a start, which lines of a log to keep): bytes, for a reader that knows no engine."""
    from .sglang.lines import KEEP, STARTS

    return STARTS, KEEP


def read(items: Sequence[Evidence]) -> tuple[list[Server], list[Unclaimed]]:
    """The servers that the evidence speaks of, workers before routers, and what could not be used."""
    differing = answers_that_differ(items)
    items = [item for item in items if not item.again]
    routers = [item for item in items if not item.failed and router_read.is_routers(item)]
    taken = {id(item) for item in routers}
    router_targets = {item.origin.target for item in routers if item.origin.target.startswith("http")}
    facts, unclaimed = [], []
    for item in items:
        if item.failed or id(item) in taken or item.origin.target in router_targets:
            continue  # a router answers some worker endpoints on its workers' behalf
        found = sglang_read.facts_of(item)
        facts += found
        if not found:
            unclaimed.append(Unclaimed(item, _why(item)))
    servers = told_apart([*sglang_read.servers(facts), *router_read.servers(routers)])
    names = {server.name for server in servers}
    servers = [_with_workers(_with_unread(server, items), names) for server in servers]
    servers = [_with_page_alone(_with_replicas(server, differing), servers) for server in servers]
    return [_with_remarks(server) for server in servers], unclaimed


def _with_replicas(server: Server, differing: Mapping[str, tuple[Disagreement, ...]]) -> Server:
    """A router hands some questions on to its workers, each time to another: that is no finding."""
    targets = dict.fromkeys(item.origin.target for item in server.evidence)
    found = tuple(quantity for target in targets for quantity in differing.get(target, ()))
    if not found or server.role is Role.ROUTER:
        return server
    several = max(len(quantity.figures) for quantity in found)
    note = f"answers differ from call to call: at least {several} servers answer at this URL, and the figures mix them"
    return replace(server, differing=found, notes=(note, *server.notes))


def _with_remarks(server: Server) -> Server:
    """What bears on whether its evidence can be believed, each once."""
    remarks = dict.fromkeys(item.remark for item in server.evidence if item.remark)
    return replace(server, notes=(*server.notes, *remarks)) if remarks else server


def _with_page_alone(server: Server, servers: Sequence[Server]) -> Server:
    """A metrics page that was named by itself says how it is told whose it is."""
    if not _is_page_alone(server) or all(_is_page_alone(other) for other in servers):
        return server
    note = "only a metrics page was read here: --metrics SERVER=URL says which server it is of"
    return replace(server, notes=(*server.notes, note))


def _is_page_alone(server: Server) -> bool:
    live = server.name.startswith("http") and server.role is not Role.ROUTER
    return live and all(isinstance(item.content, Samples) for item in server.evidence)


def _with_workers(server: Server, names: set[str]) -> Server:
    """A router whose workers are not part of the evidence says how they can be."""
    live = server.name.startswith("http")
    missing = [worker for worker in server.workers if live and worker.rstrip("/") not in names]
    note = f"{len(missing)} of its workers not read: --follow reads them too"
    return replace(server, notes=(*server.notes, note)) if missing else server


def _with_unread(server: Server, items: Sequence[Evidence]) -> Server:
    """A server whose endpoints did not all answer says so wherever a figure is missing."""
    targets = {item.origin.target for item in server.evidence}
    unread = {
        item.topic: item.content.reason
        for item in items
        if isinstance(item.content, Failure) and item.content.status != "404" and item.origin.target in targets
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


def _why(item: Evidence) -> str:
    content = item.content
    other = _other_engine(item)
    if other:
        return f"this is {other}'s; Ullage reads SGLang and its router so far"
    if isinstance(content, Log):
        return "no line of it is SGLang's" if not content.lines else "it holds no figure of a start or a run"
    if isinstance(content, Samples):
        return "no metric of SGLang or its router in it"
    if isinstance(content, Document):
        return "not the answer of an SGLang endpoint"
    return "not the command line of an engine" if isinstance(content, Argv) else str(content)


def _other_engine(item: Evidence) -> str:
    content = item.content
    if isinstance(content, Samples):
        names = {s.name for s in content.samples}
        return next((engine for prefix, engine in _OTHER_ENGINES if any(n.startswith(prefix) for n in names)), "")
    if isinstance(content, Argv):
        text = " ".join(content.words)
        return "vLLM" if "vllm" in text else "llama.cpp" if "llama-server" in text or "llama_server" in text else ""
    if isinstance(content, Document) and isinstance(content.data, dict):
        models = content.data.get("data")
        owners = {m.get("owned_by") for m in models if isinstance(m, dict)} if isinstance(models, list) else set()
        return "vLLM" if "vllm" in owners else "llama.cpp" if "llamacpp" in owners else ""
    return ""
