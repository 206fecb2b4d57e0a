"""Findings about GPU memory: what is inside the share that a server was given, what is not, and what is idle."""

from __future__ import annotations

from collections.abc import Iterator

from ..capacity.ledger_tap import Setting
from ..deployment import Deployment
from ..engines.server import Server
from ..figure import Figure, derived
from ..units import GIB, floor_to
from .base import Hit, Severity, rule

_SPARE_GIB = 0.5  # what the driver, NCCL and fragments need beside the graphs
_OFF_GIB = 0.5
_IDLE_GIB, _GUIDE_GIB = 10, 8  # SGLang's guide: 10 to 20 GB left is too much, 5 to 8 are good
_LEAST_GIB, _ENOUGH_GIB, _LARGE_GIB = 2, 5, 40
_WORTH_TELLING = 0.05  # of what the pool would be


@rule("graphs-outside-the-share", Severity.WARNING, "CUDA graphs leave little of the memory outside the share")
def graphs_outside(deployment: Deployment) -> Iterator[Hit]:
    """Before 0.20 vLLM captures its graphs after the pool was made, in the memory that `--gpu-memory-utilization` left
    over; the driver, NCCL and whatever else runs on the GPU live there too.

    With too little left the capture fails for memory, or a later request does. (vllm-project/vllm issues 17549, 11251.)
    Lower the share, capture fewer sizes, or run with `--enforce-eager`.
    """
    for server in deployment.workers:
        graphs, total, share = (server.figure(n) for n in ("graph_gib", "total_gib", "gpu_memory_utilization"))
        if not (graphs.known and total.known and share.known) or _graphs_are_inside(server):
            continue
        outside = total.number * (1 - share.number)
        left = derived(
            "outside_share_gib", round(outside - graphs.number, 2), "GiB", (total, share, graphs), "what is left"
        )
        if left.number < _SPARE_GIB:
            fits = int(100 * (1 - (graphs.number + 2 * _SPARE_GIB) / total.number)) / 100
            yield Hit(
                server.name,
                f"graphs take {graphs.number:,.2f} of the {outside:,.2f} GiB outside the share: {left.number:,.2f} GiB"
                " are left for the driver, NCCL and everything else",
                (graphs, total, share, left),
                f"set --gpu-memory-utilization {max(fits, 0.01):.2f}, fewer --cuda-graph-sizes, or --enforce-eager",
            )


def _graphs_are_inside(server: Server) -> bool:
    from ..engines.vllm.ledger import graphs_inside as is_inside

    return is_inside({name: figure for name, figure in server.figures.items() if figure.known})


@rule("graphs-inside-the-share", Severity.INFO, "The estimate for CUDA graphs comes out of the KV pool")
def graphs_inside(deployment: Deployment) -> Iterator[Hit]:
    """Since 0.20 vLLM estimates what its graphs will take and makes the pool that much smaller, so the same flags give
    a smaller pool than before.

    It prints the share that gives the same pool as before; raise `--gpu-memory-utilization` to it where the GPU is the
    server's alone.
    """
    for server in deployment.workers:
        estimate, pool = server.figure("estimated_cudagraph_gib"), server.figure("available_kv_gib")
        if not (estimate.known and pool.known) or not _graphs_are_inside(server):
            continue
        share = estimate.number / (estimate.number + pool.number) if estimate.number else 0
        if share < _WORTH_TELLING:
            continue
        now, back = server.figure("gpu_memory_utilization"), server.figure("suggested_utilization")
        fits = back.known and back.number < 1
        value = f"{back.number:.4g} (printed by the engine)" if fits else "as far as the GPU allows"
        yield Hit(
            server.name,
            f"graphs are estimated at {estimate.number:,.2f} GiB, and the pool is that much smaller:"
            f" {pool.number:,.2f} GiB, {share:.0%} less",
            tuple(f for f in (estimate, pool, now, server.figure("equivalent_utilization"), back) if f.known),
            f"raise --gpu-memory-utilization to {value}, or capture fewer sizes (--max-cudagraph-capture-size)",
        )


@rule("graph-estimate-off", Severity.WARNING, "CUDA graphs took much more or less than was estimated")
def graph_estimate_off(deployment: Deployment) -> Iterator[Hit]:
    """The estimate is made with a tiny pool before the real capture. Too high, and the pool is smaller for nothing (a
    transient that grows with `--max-num-batched-tokens` was charged: vllm-project/vllm issue 50780); too low, and the
    difference comes out of the memory outside the share (issue 57475).
    """
    for server in deployment.workers:
        estimate, took = server.figure("estimated_cudagraph_gib"), server.figure("graph_gib")
        if not (estimate.known and took.known) or abs(estimate.number - took.number) <= _OFF_GIB:
            continue
        off = derived("graph_estimate_off_gib", round(estimate.number - took.number, 2), "GiB", (estimate, took), "")
        yield Hit(
            server.name,
            f"{estimate.number:,.2f} GiB were estimated, {took.number:,.2f} GiB taken: {_told(off)}",
            (estimate, took, off),
            _correction(server, off),
        )


def _told(off: Figure) -> str:
    if off.number > 0:
        return f"the pool is {off.number:,.2f} GiB smaller for nothing"
    return f"{-off.number:,.2f} GiB come out of what is outside the share"


def _correction(server: Server, off: Figure) -> str:
    total, share = server.figure("total_gib"), server.figure("gpu_memory_utilization")
    if not (total.known and share.known):
        way = "raise" if off.number > 0 else "lower"
        return f"{way} --gpu-memory-utilization by {abs(off.number):,.2f} GiB, or lower --max-num-batched-tokens"
    value = int(100 * (share.number + off.number / total.number)) / 100
    return f"set --gpu-memory-utilization {min(max(value, 0.01), 0.99):.2f}, which moves {abs(off.number):,.2f} GiB"


@rule("memory-idle", Severity.INFO, "Much GPU memory is idle while the pool is what limits")
def memory_idle(deployment: Deployment) -> Iterator[Hit]:
    """When the start had ended, SGLang left more than 10 GiB of each GPU to nobody, while the pool holds fewer tokens
    than its running requests may grow to.

    SGLang's guide to its settings wants 5 to 8 GB there, for activations, and a higher `--mem-fraction-static` where it
    is 10 to 20. Raise it by a few hundredths at a time and try each under load: a start measures no activations.
    `ullage memory` tells what each hundredth buys.
    """
    for server in deployment.workers:
        left, fraction = server.figure("available_gpu_mem_gib"), server.figure("mem_fraction_static")
        if not (left.known and fraction.known) or left.number <= _IDLE_GIB or not _pool_binds(server):
            continue
        best = _best(server)
        if best is None or best.value <= float(fraction.number):
            continue
        yield Hit(
            server.name,
            f"{left.number:,.2f} GiB of each GPU were idle when the start had ended, at --mem-fraction-static"
            f" {fraction.number:g}",
            (left, fraction, server.figure("max_total_num_tokens"), best.pool),
            f"raise --mem-fraction-static, step by step and under load, up to {best.value:g}: about"
            f" {best.pool.number:,} tokens, with {_GUIDE_GIB} GiB left",
        )


def _pool_binds(server: Server) -> bool:
    """Is the pool smaller than what its running requests may grow to?"""
    names = ("max_total_num_tokens", "max_running_requests", "context_len")
    pool, running, context = (f.count if type((f := server.figure(n)).value) is int else 0 for n in names)
    return 0 < pool < running * context


def _best(server: Server) -> Setting | None:
    """The fraction that leaves what SGLang's guide wants."""
    from ..engines.sglang.ledger import ledgers
    from ..engines.sglang.on_tap import on_tap

    return on_tap(server, ledgers(server), _GUIDE_GIB * GIB).best


@rule("little-left-for-a-step", Severity.WARNING, "Little memory is left for activations")
def little_left(deployment: Deployment) -> Iterator[Hit]:
    """SGLang sizes its pools before any request runs, so activations have to find room in what the start leaves free:
    its guide wants 5 to 8 GB. With less than 2 GiB on a large GPU a long prompt or a large batch may fail for memory.

    Lower `--mem-fraction-static` or `--chunked-prefill-size`, or capture fewer graph sizes.
    """
    for server in deployment.workers:
        left, whole = server.figure("available_gpu_mem_gib"), server.figure("avail_before_weights_gib")
        if not (left.known and whole.known) or left.number >= _LEAST_GIB or whole.number < _LARGE_GIB:
            continue
        fraction = server.figure("mem_fraction_static")
        lower = "lower --mem-fraction-static"
        if fraction.known and type(fraction.value) is float:
            fits = int(100 * (fraction.value - (_ENOUGH_GIB - left.number) / whole.number)) / 100
            lower = f"set --mem-fraction-static {max(fits, 0.01):.2f}, which leaves about {_ENOUGH_GIB} GiB"
        yield Hit(
            server.name,
            f"{left.number:,.2f} GiB of {whole.number:,.2f} were left when the start had ended: activations come out of"
            " them",
            tuple(figure for figure in (left, whole, fraction) if figure.known),
            f"{lower}, or lower --chunked-prefill-size",
        )


@rule("long-prompt-above-what-is-left", Severity.WARNING, "A prompt of the whole context takes more than is left")
def long_prompt(deployment: Deployment) -> Iterator[Hit]:
    """While DeepSeek-V4 computes a prompt, its indexer takes up to chunk x context bytes on each GPU, outside the
    fraction: 4 GiB for 8,192 x 524,288. Where less is left, such a prompt ends the server for memory.
    (sgl-project/sglang issue 35201; builds with PR 39095 go row by row and take less.)

    Lower `--chunked-prefill-size`, `--context-length` or `--mem-fraction-static`.
    """
    for server in deployment.workers:
        if "bytes_per_full_token" not in server.figures:
            continue
        logits, left = _logits(server), server.figure("available_gpu_mem_gib")
        if logits is None or not left.known or logits.number <= left.number * GIB:
            continue
        chunk = server.figure("chunked_prefill_size")
        fits = max(256, floor_to(int(chunk.number * left.number * GIB / 2 / logits.number), 256))
        yield Hit(
            server.name,
            f"a prompt of the whole context takes up to {logits.number / GIB:,.2f} GiB while it is computed, and"
            f" {left.number:,.2f} GiB are left",
            (logits, left),
            f"set --chunked-prefill-size {fits}, or a build with row-wise index logits",
            doubtful=True,
        )


def _logits(server: Server) -> Figure | None:
    from ..engines.sglang.ledger import context_costs

    return next((figure for figure in context_costs(server) if figure.name == "index_logits"), None)
