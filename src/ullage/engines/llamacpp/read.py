"""llama.cpp's evidence read into Servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...evidence import Argv, Document, Evidence, Log, Samples
from ...figure import Figure, default
from ..facts import Facts
from ..grouping import group
from ..join import Joined, join
from ..server import Role, Server, Setting
from ..trust import Trust
from .context import Context, context_of
from .flags import from_argv, is_llama_server
from .host_memory import host_figures
from .pools import ceilings_of, pools_of, total_cells
from .settings import default_output, settings_of
from .use import levels_of, queues_of, ranks_of, running_of

TRUST = Trust(
    effective=("props", "slots", "models", "log", "metrics", "flags"),
    usage=("slots", "metrics", "props", "models", "log"),
    asked=("flags", "log"),
    identity=("model_path", "model_alias", "port"),
    pool="n_ctx_slot",
    loose=frozenset(["version", "model_alias", "model_path", "host", "port", "ready"]),
)
# A quantity that other engines have too -> what llama-server calls it
_SAME = {
    "served_model_name": ("model_alias", "hf_repo"),
    "enable_metrics": ("endpoint_metrics",),
    "api_key": ("api_key_file",),
}
ROUTER = "router mode: no model in this process; its children hold the pools"


def facts_of(evidence: Evidence) -> list[Facts]:
    """What an item says of llama.cpp servers; nothing where it is not llama.cpp's."""
    content = evidence.content
    if isinstance(content, Log):
        from .from_log import from_log  # its patterns take their time to compile

        return from_log(evidence, content)
    if isinstance(content, Argv):
        return [from_argv(evidence, content)] if is_llama_server(content.words) else []
    from . import from_endpoints as ends

    if isinstance(content, Samples):
        return [ends.from_metrics(evidence, content)] if ends.looks_like_metrics(content) else []
    if not isinstance(content, Document):
        return []
    documents: tuple[tuple[Callable[[Any], bool], Callable[[Evidence, Any], list[Facts]]], ...] = (
        (ends.looks_like_props, ends.from_props),
        (ends.looks_like_slots, ends.from_slots),
        (ends.looks_like_models, ends.from_models),
    )
    return next((read(evidence, content.data) for looks, read in documents if looks(content.data)), [])


def servers(facts: Sequence[Facts]) -> list[Server]:
    return [_server(join(parts, TRUST)) for parts in group(facts, TRUST) if not _is_hearsay(parts)]


def _is_hearsay(parts: list[Facts]) -> bool:
    """All that is known of it is what a router says it started it with: --follow reads the child itself."""
    return all(part.topic == "flags" and isinstance(part.evidence.content, Document) for part in parts)


def _server(joined: Joined) -> Server:
    if joined.role is Role.ROUTER:
        return _router(joined)
    context = context_of(joined)
    host = host_figures(joined, context)
    return Server(
        name=joined.name,
        engine="llama.cpp",
        role=Role.UNIFIED,
        figures=_figures(joined, context, host),
        settings=settings_of(joined, context, host),
        pools=pools_of(joined, context),
        ceilings=ceilings_of(context),
        usage=joined.usage,
        running=running_of(joined),
        queues=queues_of(joined),
        levels=levels_of(joined, context),
        total_context=total_cells(context).renamed("total_context_tokens"),
        default_output=default_output(joined),
        ranks=ranks_of(joined),
        earlier=joined.earlier,
        disagreements=joined.disagreements,
        evidence=joined.evidence,
        notes=tuple(_notes(joined, context)),
    )


def _router(joined: Joined) -> Server:
    """It holds nothing itself. The children that it has loaded are its workers, on ports of the same host."""
    asked = tuple(
        Setting(label, joined.args[name], joined.effective.get(name) or joined.args[name])
        for label, name in (("loaded at once", "models_max"), ("models from", "models_dir"), ("their context", "n_ctx"))
        if name in joined.args
    )
    return Server(
        name=joined.name,
        engine="llama.cpp",
        role=Role.ROUTER,
        figures=_figures(joined, None, {}),
        settings=asked,
        usage=joined.usage,
        earlier=joined.earlier,
        disagreements=joined.disagreements,
        evidence=joined.evidence,
        workers=tuple(str(f.value) for name, f in joined.effective.items() if name.startswith("child ")),
        notes=(ROUTER, *dict.fromkeys(note for part in joined.parts for note in part.notes)),
    )


def _figures(joined: Joined, context: Context | None, host: dict[str, Figure]) -> dict[str, Figure]:
    """What is in effect, what was asked for under its own name too, and what follows from the flags."""
    inferred = () if context is None else (context.slots, context.each, context.unified, context.cells)
    found = {figure.name: figure for figure in inferred if figure.known}
    if context is not None and context.cells.known and not context.doubt:
        found["n_ctx"] = total_cells(context).renamed("n_ctx")
    figures = {**joined.args, **joined.asked, **found, **{n: f for n, f in host.items() if f.known}, **joined.effective}
    for name, others in _SAME.items():
        if same := next((figures[other] for other in others if other in figures), None):
            figures.setdefault(name, same.renamed(name))
    if any(part.topic == "flags" for part in joined.parts):
        figures.setdefault("enable_metrics", default("enable_metrics", False, "", "off unless --metrics is given"))
    return figures


def _notes(joined: Joined, context: Context) -> Iterator[str]:
    yield from dict.fromkeys(note for part in joined.parts for note in part.notes)
    if joined.on("is_sleeping"):
        yield "the server sleeps: its model is not loaded, and the next request waits until it is"
    if context.doubt:
        yield context.doubt
    if joined.on("embedding") or joined.on("reranking"):
        yield "an input to embed that is longer than the physical batch (-ub) is refused"
