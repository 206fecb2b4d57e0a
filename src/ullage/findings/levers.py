"""What each engine calls the things that findings advise to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..engines.server import Server


class Levers(NamedTuple):
    """Flags of one engine, or what to do where it has none."""

    context: str  # tokens of one request
    memory: str  # more memory for the pool
    slots: str  # requests that run at once
    output: str  # bounds the output of clients that name none
    metrics: str  # what serves the metrics page
    pool: str  # sizes the pool itself, where it only caps


LEVERS: Mapping[str, Levers] = {
    "SGLang": Levers(
        context="--context-length",
        memory="--mem-fraction-static",
        slots="--max-running-requests",
        output="--preferred-sampling-params '{\"max_new_tokens\": 2048}'",
        metrics="--enable-metrics (and --enable-metrics-for-all-schedulers for every rank)",
        pool="--max-total-tokens",
    ),
    "vLLM": Levers(
        context="--max-model-len",
        memory="--gpu-memory-utilization",
        slots="--max-num-seqs",
        output="--override-generation-config '{\"max_new_tokens\": 2048}'",
        metrics="its statistics: without --disable-log-stats",
        pool="--num-gpu-blocks-override",
    ),
    "llama.cpp": Levers(
        context="-c",
        memory="-c",
        slots="-np",
        output="-n 2048",
        metrics="--metrics",
        pool="-c",
    ),
}
_UNNAMED = Levers(
    context="a context length of",
    memory="more memory for the pool",
    slots="a limit on parallel requests of",
    output="a bound on the output in the server",
    metrics="its metrics page",
    pool="the pool",
)


def levers_of(server: Server) -> Levers:
    return LEVERS.get(server.engine, _UNNAMED)
