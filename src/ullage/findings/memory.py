"""Findings about GPU memory: what is inside the share that a server was given, and what is not."""

from __future__ import annotations

from collections.abc import Iterator

from ..deployment import Deployment
from ..engines.server import Server
from ..engines.vllm.ledger import graphs_inside as is_inside
from ..figure import Figure, derived
from .base import Hit, Severity, rule

_SPARE_GIB = 0.5  # what the driver, NCCL and fragments need beside the graphs
_OFF_GIB = 0.5
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
