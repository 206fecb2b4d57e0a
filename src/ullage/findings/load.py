"""Findings about the present load: work that was done twice, gauges that are stale, engines that broke."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..capacity.request import Shape
from ..deployment import Deployment, server_limits
from ..engines.server import Role, Server
from ..figure import Figure, inferred
from .base import Hit, Severity, rule
from .levers import levers_of


@rule("retractions", Severity.WARNING, "Requests were retracted: the pool ran full")
def retractions(deployment: Deployment) -> Iterator[Hit]:
    """The scheduler let in more requests than the pool holds at their full length, and had to throw some back: their
    work is done twice.

    On an aggregated server a higher `--schedule-conservativeness` keeps more room per running request; on a decode
    server a higher `--num-reserved-decode-tokens` does. Fewer running requests, or bounded outputs, help on both.
    """
    for server in deployment.workers:
        counted, logged = server.use("num_retracted_requests_total"), server.use("retractions_in_log")
        seen = tuple(f for f in (counted, logged) if f.known and f.number > 0)
        if seen:
            knob = (
                "--num-reserved-decode-tokens (default 512)"
                if server.role is Role.DECODE
                else "--schedule-conservativeness (default 1.0)"
            )
            yield Hit(
                server.name,
                f"{seen[0].count:,} request{'s were' if seen[0].count != 1 else ' was'} retracted and"
                f" recomputed{' in the lines read' if seen[0] is logged else ' since the start'}",
                seen,
                f"raise {knob}, lower --max-running-requests, or bound max_tokens",
            )


@rule("preemptions", Severity.WARNING, "Requests were preempted: no block was free")
def preemptions(deployment: Deployment) -> Iterator[Hit]:
    """vLLM reserves no output. When a running request needs a block and none is free, the newest is thrown back to the
    head of the queue and computed again from its prompt (its blocks may still be found by the prefix cache).

    Fewer running requests (`--max-num-seqs`), bounded outputs, or a share of the pool that stays free at the door
    (`--watermark`, since 0.26) keep it from happening.
    """
    for server in deployment.workers:
        counted, logged = server.use("num_preemptions"), server.use("preemptions_in_log")
        cumulative = server.figure("num_preemptions")  # V0 logs the sum
        seen = tuple(f for f in (counted, logged, cumulative) if f.known and f.number > 0)
        if seen:
            yield Hit(
                server.name,
                f"{seen[0].count:,} requests were preempted and"
                f" recomputed{' in the lines read' if seen[0] is logged else ' since the start'}",
                seen,
                f"lower --max-num-seqs{_held(server)}, bound max_tokens, or set --watermark 0.05 (since 0.26)",
            )


def _held(server: Server) -> str:
    """How many of the mean length the pool holds, where that is known."""
    prompt, output = server.use("mean_request_prompt_tokens"), server.use("mean_request_generation_tokens")
    if not (prompt.known and output.known and server.pool("KV pool")):
        return ""
    safe = server_limits(server, Shape(max(1, round(prompt.number)), round(output.number))).safe
    return f" to {safe.count:,}, which is what the pool holds of the mean length" if safe.known and safe.count else ""


@rule("pool-nearly-full", Severity.WARNING, "The running requests hold nearly all of the pool")
def pool_nearly_full(deployment: Deployment) -> Iterator[Hit]:
    """What runs now holds 80 % of the KV pool or more (a warning from 90 %), and nobody waits yet. Running requests
    divided by their share of the pool is how many of their present length fit; a prefix that they share makes it more,
    and they grow while they generate.

    Beyond it newcomers wait, and running requests that need more are preempted (vLLM), retracted (SGLang) or all fail
    (llama.cpp with one pool for its slots). It is an inference from the last statistics, not the table's count, and it
    is silent below four requests: a few long ones may fill a pool that holds many usual ones.
    """
    for server in deployment.of(Role.UNIFIED, Role.DECODE, Role.UNKNOWN):
        seen = fullest(server)
        if seen is None or seen.share.least < _NEARLY or seen.running.number < _FEW or _waits_already(server):
            continue
        count = int(seen.running.number / seen.share.number)
        note = "running / their share of the pool"
        fits = inferred("fits_of_this_length", count, "requests", (seen.running, seen.share), note)
        levers = levers_of(server)
        yield Hit(
            f"{server.name}{seen.rank}",
            f"{seen.running.count:,} running requests hold {seen.share.number:.0%} of the pool{_course(server, seen)}:"
            f" about {count:,} of their present length fit, and they grow as they generate",
            (seen.running, seen.share, fits),
            f"bound outputs, let no more run than the pool holds at full length ({levers.slots} {count} at most), or"
            f" give it more memory ({levers.memory})",
            None if seen.share.least >= _FULL else Severity.INFO,
        )


_NEARLY, _FULL, _FEW = 0.8, 0.9, 4
_SHARES = ("kv_cache_usage_perc", "full_token_usage", "token_usage")  # as vLLM and SGLang state them by rank
_COUNTS = ("num_requests_running", "num_running_reqs")


class Held(NamedTuple):
    """Running requests, and the share of one KV pool that they hold."""

    running: Figure
    share: Figure
    rank: str = ""


def fullest(server: Server) -> Held | None:
    """Over the whole pool where its parts are one or their use is counted; else of the fullest rank."""
    level = next((level for level in server.levels if level.pool == "KV pool"), None)
    if level is None or not level.in_use.known or (server.engine == "llama.cpp" and _is_divided(server)):
        return None
    if len(server.ranks) < 2 or level.used.known:
        return Held(server.running, level.in_use) if server.running.known else None
    ranks = [
        Held(count, share, f" {rank.name}")
        for rank in server.ranks
        if (share := _first_of(rank.figures, _SHARES)) and (count := _first_of(rank.figures, _COUNTS))
    ]
    return max(ranks, key=lambda held: held.share.number, default=None)


def _first_of(figures: Mapping[str, Figure], names: tuple[str, ...]) -> Figure | None:
    return next((figures[name] for name in names if name in figures), None)


def _is_divided(server: Server) -> bool:
    """Each slot has its own part, so that one may be full while the others are empty."""
    return any(pool.name == "KV pool" and pool.partitions > 1 for pool in server.pools)


def _waits_already(server: Server) -> bool:
    """Then queue-waiting speaks. llama.cpp's queue is for slots, and says nothing of the pool."""
    return server.engine != "llama.cpp" and any(q.waiting.known and q.waiting.number > 0 for q in server.queues)


def _course(server: Server, seen: Held) -> str:
    """Where the log shows how it came to that."""
    if len(server.ranks) > 1 and not seen.rank:
        return ""  # each moment is that of one rank
    for moment in server.history:
        count, share = _first_of(moment.figures, _COUNTS), _first_of(moment.figures, _SHARES)
        if seen.rank.strip() in ("", moment.rank) and count and share and share.number < seen.share.number:
            return f" ({count.count:,} held {share.number:.0%} at {moment.at})"
    return ""


@rule("stale-gauges", Severity.WARNING, "Gauges of the metrics page are stale")
def stale_gauges(deployment: Deployment) -> Iterator[Hit]:
    """SGLang refreshes its gauges only when it logs a batch. A server that hangs or idles shows the numbers of its last
    batch.

    Found where /v1/loads, which is computed when asked, and the metrics page state different loads. The page's use is
    then not used.
    """
    for server in deployment.workers:
        loads, gauge = server.use("num_running_reqs"), server.use("gauge_num_running_reqs")
        if loads.known and gauge.known and (loads.number == 0) != (gauge.number == 0):
            yield Hit(
                server.name,
                f"the metrics page shows {gauge.count:,} running requests, /v1/loads {loads.count:,}",
                (gauge, loads),
                "believe /v1/loads; if it shows load and tokens do not grow, the scheduler hangs: look at its last log"
                " lines",
            )


@rule("transfers-failed", Severity.ERROR, "KV transfers between prefill and decode failed")
def transfers_failed(deployment: Deployment) -> Iterator[Hit]:
    """A request whose KV does not arrive is lost, and prefill has worked for nothing (vLLM: unless
    `kv_load_failure_policy` is recompute). SGLang logs one failed request on every rank.

    The usual causes: the other side died or was restarted, or the transfer backend lost its connection.
    """
    for server in deployment.workers:
        counted, logged = server.use("num_transfer_failed_reqs_total"), server.use("failed_transfers_in_log")
        seen = tuple(f for f in (counted, logged, server.use("nixl_num_failed_transfers")) if f.known and f.number > 0)
        if seen:
            why = f": {logged.note}" if logged.known and logged.note else ""
            yield Hit(
                server.name,
                f"{seen[0].count:,} transfers failed{why}",
                seen,
                "see whether the other side is alive, and restart the pair if it was restarted alone",
            )


@rule("scheduler-exception", Severity.ERROR, "The scheduler hit an exception")
def scheduler_exception(deployment: Deployment) -> Iterator[Hit]:
    """SGLang ends a server whose scheduler raises. The lines before it say why; gauges after it are stale.

    A start that was refused is logged as one too, and told as that.
    """
    for server in deployment.workers:
        seen = server.use("scheduler_exceptions")
        if seen.known and not server.figure("start_refused").known:
            yield Hit(
                server.name,
                f"the scheduler hit an exception{f' at {seen.observed_at}' if seen.observed_at else ''}",
                (seen,),
                "read the lines that follow it in the log, and restart the server",
            )


@rule("engine-died", Severity.ERROR, "The engine process died")
def engine_died(deployment: Deployment) -> Iterator[Hit]:
    """vLLM's engine runs in a process of its own, beside the front end. When it dies, every request fails with 500 and
    the front end shuts down; where it does not, the port still answers and nothing is served.

    Why it died stands in the traceback before the line.
    """
    for server in deployment.workers:
        seen = server.use("engine_deaths_in_log")
        if seen.known and seen.number > 0:
            yield Hit(
                server.name,
                f"{seen.count:,} engine {'processes' if seen.count > 1 else 'process'} died in the lines read",
                (seen,),
                "read the traceback before that line, and restart the server; probe it with a request, not /health",
            )
