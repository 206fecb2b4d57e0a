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
    output: str  # bounds the output of clients that name none; "" where the server has no such thing
    metrics: str  # what serves the metrics page
    pool: str  # sizes the pool itself, where it only caps
    key: str  # a key that does not stand on the command line
    untold: str  # what nobody knows without the metrics page


LEVERS: Mapping[str, Levers] = {
    "SGLang": Levers(
        context="--context-length",
        memory="--mem-fraction-static",
        slots="--max-running-requests",
        output="--preferred-sampling-params '{\"max_new_tokens\": 2048}'",
        metrics="--enable-metrics (and --enable-metrics-for-all-schedulers for every rank)",
        pool="--max-total-tokens",
        key="a line api-key: in a YAML file for --config",  # server_args.py names no variable for it
        untold="use, queues and evictable cache now; retractions; transfer and latency histograms",
    ),
    "tank": Levers(
        context="--context-length",
        memory="--memory or --mem-fraction-static",
        slots="--max-running-requests",
        output="",  # it has no bound of its own
        metrics="--enable-metrics",
        pool="--max-total-tokens",
        key="ULLAGE_TANK_API_KEY in its environment",
        untold="use, queues and evictable cache now; retractions; transfer and latency histograms",
    ),
    "vLLM": Levers(
        context="--max-model-len",
        memory="--gpu-memory-utilization",
        slots="--max-num-seqs",
        output="--override-generation-config '{\"max_new_tokens\": 2048}'",
        metrics="its statistics: without --disable-log-stats",
        pool="--num-gpu-blocks-override",
        key="VLLM_API_KEY in its environment",
        untold="use and queues now; preemptions; lengths of requests; latency histograms",
    ),
    "llama.cpp": Levers(
        context="-c",
        memory="-c",
        slots="-np",
        output="-n 2048",
        metrics="--metrics",
        pool="-c",
        key="--api-key-file, or LLAMA_API_KEY in its environment",
        untold="how many requests wait for a slot; tokens and seconds so far",
    ),
}
_UNNAMED = Levers(
    context="a context length of",
    memory="more memory for the pool",
    slots="a limit on parallel requests of",
    output="a bound on the output in the server",
    metrics="its metrics page",
    pool="the pool",
    key="--api-key",
    untold="use and queues now",
)


def levers_of(server: Server) -> Levers:
    return LEVERS.get(server.engine, _UNNAMED)
