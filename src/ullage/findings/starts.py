"""Findings about starts and sources: figures of another start, ranks and sources that disagree."""

from __future__ import annotations

from collections.abc import Iterator

from ..deployment import Deployment
from ..engines.server import EarlierStart, Role, Server
from ..figure import Figure
from .base import Hit, Severity, rule

_TOLD = (  # by the names of SGLang and of vLLM
    *("max_total_num_tokens", "mem_fraction_static", "context_len", "max_running_requests", "chunked_prefill_size"),
    *("swa_full_tokens_ratio", "num_gpu_blocks", "kv_cache_size_tokens", "available_kv_gib", "gpu_memory_utilization"),
    *("max_model_len", "max_num_seqs", "max_num_batched_tokens"),
)
_POOLS = ("max_total_num_tokens", "num_gpu_blocks", "kv_cache_size_tokens")
_OF_REPLICAS = (*_POOLS, "context_len", "max_model_len", "max_running_requests", "max_num_seqs")
_REPRINTED = ("kv_cache_size_tokens", "kv_cache_max_concurrency")


@rule("earlier-start-differs", Severity.INFO, "The log holds earlier starts with other figures")
def earlier_start_differs(deployment: Deployment) -> Iterator[Hit]:
    """A log or a journal holds every start of a server; only the last one is running.

    Searching it for a figure finds the figures of all starts. They are not ranks of one server: free memory is
    MIN-reduced over ranks, so ranks of one group report the same pool. Ullage counts the last start and names the
    others.
    """
    for server in deployment.workers:
        seen = set()
        for start in reversed(server.earlier):
            changed = tuple(name for name in _TOLD if _changed(server, start, name))
            values = tuple(start.figures[name].value for name in changed)
            if changed and values not in seen:
                seen.add(values)
                yield _earlier(server, start, changed)


def _changed(server: Server, start: EarlierStart, name: str) -> bool:
    before, now = start.figures.get(name), server.figures.get(name)
    return before is not None and now is not None and before.value != now.value


def _earlier(server: Server, start: EarlierStart, changed: tuple[str, ...]) -> Hit:
    parts = [
        f"{name} {_plain(start.figures[name].value)} (now {_plain(server.figures[name].value)})" for name in changed
    ]
    evidence = tuple(f for name in changed for f in (start.figures[name], server.figures[name]))
    began = f" of {start.began}" if start.began else ""
    return Hit(
        server.name,
        f"an earlier start{began} had {', '.join(parts)}",
        evidence,
        "count the figures of the current start only; these are history, not ranks",
    )


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


@rule("ranks-disagree", Severity.WARNING, "Data-parallel ranks or replicas hold different pools")
def ranks_disagree(deployment: Deployment) -> Iterator[Hit]:
    """Each data-parallel rank has a pool of its own, and a request lives in one rank: the sum of what each holds, not
    the sum of tokens.

    Ranks of different size fill unevenly, and a long request may fit one and not the other. The limits here are the sum
    over the ranks, which is reached only if each request is sent where there is room. Replicas behind one router that
    differ have the same effect.
    """
    for server in deployment.workers:
        by_name = ({r.name: f for r in server.ranks if (f := r.figures.get(name))} for name in _POOLS)
        pools = next((found for found in by_name if len({f.value for f in found.values()}) > 1), {})
        if pools:
            sizes = ", ".join(f"{name} {f.count:,}" for name, f in pools.items())
            yield Hit(
                server.name,
                f"pools differ by rank: {sizes}",
                tuple(pools.values()),
                "find what else runs on the GPUs of the smaller rank, and restart it",
            )
    for role in (Role.UNIFIED, Role.DECODE, Role.PREFILL):
        yield from _replicas(deployment, role)


def _replicas(deployment: Deployment, role: Role) -> Iterator[Hit]:
    replicas = [s for s in deployment.of(role) if any(s.figure(name).known for name in _POOLS)]
    models = {_model(s) for s in replicas}
    for name in _OF_REPLICAS:
        figures = tuple(s.figures[name] for s in replicas if name in s.figures)
        if len(replicas) > 1 and len(models) == 1 and len({f.value for f in figures}) > 1:
            told = ", ".join(f"{s.name} {_plain(s.figures[name].value)}" for s in replicas if name in s.figures)
            yield Hit(
                f"{role.value} replicas",
                f"{name} differs: {told}",
                figures,
                "start the replicas with the same flags, or route by what each holds",
            )


def _model(server: Server) -> str:
    names = ("served_model_name", "model_path", "model")
    return next((str(f.value) for name in names if (f := server.figure(name)).known), "")


@rule("sources-disagree", Severity.WARNING, "Two sources state different figures for one quantity")
def sources_disagree(deployment: Deployment) -> Iterator[Hit]:
    """Server info, metrics, log and flags speak of the same server and do not agree. Both figures are shown; the first
    is the one used.

    The usual cause is evidence of another start (an old log, flags edited since). For flags: the server runs with what
    it started with until it is restarted.
    """
    for server in deployment.workers:
        for found in server.disagreements:
            if found.quantity in _REPRINTED:
                continue  # page-reckons-again tells these
            told = " against ".join(f"{_plain(f.value)} ({f.source or f.note})" for f in found.figures)
            yield Hit(server.name, f"{found.quantity}: {told}", found.figures, f"using the first: {found.why}")


@rule("page-reckons-again", Severity.WARNING, "Log and metrics page of one server state different KV sizes")
def page_reckons_again(deployment: Deployment) -> Iterator[Hit]:
    """vLLM logs the KV cache's size and the concurrency that it starts with. Since 0.26 the labels of
    `vllm:cache_config_info` state both too, but are reckoned again with a block size that is resolved late, and are
    wrong for models with several groups of layers: 0.47x on the page of a server that logged 1.16x, `block_size` 4
    where 256 was asked for. (vllm-project/vllm issues 50456, 51163.)

    The log is believed: the start check went by it, and a server with less than 1.00x would not have started. A log of
    another start disagrees too; then the number of blocks or other figures differ as well.
    """
    for server in deployment.workers:
        told = [found for found in server.disagreements if found.quantity in _REPRINTED]
        if told:
            parts = [f"{d.quantity} {' against '.join(_shown(f) for f in d.figures)}" for d in told]
            own = tuple(f for n in ("kv_blocks", "blocks_per_full_request") if (f := server.figure(n)).known)
            full = f"; by blocks {own[0].count // own[1].count:,} full requests fit" if len(own) == 2 else ""
            yield Hit(
                server.name,
                f"the log and the metrics page differ: {'; '.join(parts)}{full}",
                (*(f for d in told for f in d.figures), *own),
                f"believe the first: {told[0].why}; and take num_gpu_blocks, not block_size, from the page",
            )


def _shown(figure: Figure) -> str:
    value = figure.value
    where = figure.source.evidence if figure.source else figure.note
    return f"{f'{value:,.4g}' if isinstance(value, float) else _plain(value)} ({where})"
