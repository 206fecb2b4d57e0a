"""SGLang's evidence read into Servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...evidence import Argv, Document, Evidence, Log, Samples
from ...figure import Figure, derived
from ..facts import Facts
from ..grouping import group
from ..join import Joined
from ..quantities import unit_of
from ..server import Role, Server
from .deepseek_v4 import context_bytes_per_token
from .flags import from_argv, is_sglang
from .from_endpoints import (
    from_loads,
    from_model_info,
    from_models,
    from_server_info,
    looks_like_loads,
    looks_like_model_info,
    looks_like_models,
    looks_like_server_info,
)
from .from_metrics import from_metrics, looks_like_sglang, pages_of
from .join import TRUST, join
from .pools import ceilings_of, pools_of, window_capped
from .settings import arguments_seen, default_output, settings_of
from .use import kv_use, levels, queues, running

_POOL_SHARES = ("full_token_usage", "swa_token_usage", "mamba_usage")
_DOCUMENTS: tuple[tuple[Callable[[Any], bool], Callable[[Evidence, Any], Facts]], ...] = (
    (looks_like_server_info, from_server_info),
    (looks_like_model_info, from_model_info),
    (looks_like_models, from_models),
    (looks_like_loads, from_loads),
)


def facts_of(evidence: Evidence) -> list[Facts]:
    """What an item says of SGLang servers; nothing where it is not SGLang's."""
    content = evidence.content
    if isinstance(content, Log):
        from .from_log import from_log  # its patterns take as long to compile as everything else takes to import

        return from_log(evidence, content)
    if isinstance(content, Samples):
        pages = pages_of(evidence, content) if looks_like_sglang(content) else []
        return [from_metrics(*page) for page in pages if looks_like_sglang(page[1])]
    if isinstance(content, Argv):
        return [from_argv(evidence, content)] if is_sglang(content.words) else []
    if isinstance(content, Document):
        return [read(evidence, content.data) for looks, read in _DOCUMENTS if looks(content.data)][:1]
    return []


def servers(facts: Sequence[Facts]) -> list[Server]:
    return [_server(join(parts)) for parts in group(facts, TRUST)]


def _server(joined: Joined) -> Server:
    role = joined.role if joined.role is not Role.UNKNOWN else _role_by_default(joined)
    joined.role = role
    pools = pools_of(joined)
    full = levels(joined, pools)
    return Server(
        name=joined.name,
        engine="SGLang",
        role=role,
        figures=_figures(joined),
        settings=settings_of(joined),
        pools=pools,
        ceilings=ceilings_of(joined),
        usage={**joined.usage, **_share(joined), **kv_use(full)},
        running=running(joined),
        queues=queues(joined),
        levels=full,
        default_output=default_output(joined),
        ranks=joined.ranks,
        earlier=joined.earlier,
        disagreements=joined.disagreements,
        evidence=joined.evidence,
        notes=_notes(joined),
    )


def _figures(joined: Joined) -> dict[str, Figure]:
    """What is in effect, what was asked for under its own name too, and what follows for the model."""
    figures = {**joined.args, **joined.asked, **joined.effective}
    if arguments_seen(joined):
        figures.pop("arguments_cut", None)
    cost = context_bytes_per_token(figures)
    return {**figures, cost.name: cost} if cost else figures


def _role_by_default(joined: Joined) -> Role:
    """Arguments without a disaggregation mode are an aggregated server's; anything less says nothing of the role."""
    return Role.UNIFIED if any(p.topic in ("server_info", "flags") for p in joined.parts) else Role.UNKNOWN


def _share(joined: Joined) -> dict[str, Figure]:
    """The share in use where only its pools are told apart: the fullest's, as in the engine's own gauge."""
    parts = tuple(f for n in _POOL_SHARES if (f := joined.usage.get(n)))
    if not parts or "token_usage" in joined.usage:
        return {}
    share = max(f.number for f in parts)
    return {"token_usage": derived("token_usage", share, unit_of("token_usage"), parts, "the fullest of its pools")}


def _notes(joined: Joined) -> tuple[str, ...]:
    notes = [note for part in joined.parts for note in part.notes]
    log = next((p for p in joined.parts if p.topic == "log"), None)
    pool = joined.effective.get("max_total_num_tokens")
    if log and pool and pool.source and "max_total_num_tokens" not in log.effective:
        notes.append(f"the pool is read from {pool.source.evidence}, for the start-up lines are not in the log")
    if joined.role is Role.UNKNOWN:
        notes.append("the role is not known; the limits are those of an aggregated server")
    if joined.role is Role.PREFILL and window_capped(joined) is None and "swa" in "".join(joined.effective):
        notes.append("the version is not known, so whether the window pool caps a prompt is not known either")
    return tuple(dict.fromkeys(notes))
