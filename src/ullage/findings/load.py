"""Findings about the present load: queues and who is short, retractions, gauges that are stale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..deployment import Deployment
from ..engines.server import Role, Server
from ..figure import Figure
from .base import Hit, Severity, rule


class _Queue(NamedTuple):
    """A queue, who is short when it grows, and what to do. `works`: a few in it are no waiting but work under way."""

    name: str
    short: str
    advice: str
    works: bool = False


_QUEUES = (  # the first that holds somebody gives the advice
    _Queue(
        "num_decode_prealloc_queue_reqs",
        "decode has no pool tokens or slots for them",
        "give decode a larger pool (--mem-fraction-static) or more decode servers",
    ),
    _Queue(
        "num_decode_transfer_queue_reqs",
        "the transfer between prefill and decode is slow",
        "look at the network: kv_transfer_speed_gb_s, the transfer backend and its devices",
        works=True,
    ),
    _Queue(
        "num_prefill_bootstrap_queue_reqs",
        "prefill waits for decode to pre-allocate",
        "look at the decode servers: their prealloc queue says whether tokens or slots are short",
    ),
    _Queue(
        "num_prefill_inflight_queue_reqs",
        "prefill holds KV until its transfers have ended",
        "look at the transfer; decode may be slow to take it",
        works=True,
    ),
    _Queue(
        "num_queue_reqs",
        "prefill compute, request slots or a pool is short",
        "see what binds in the table; add servers or lower the length of requests",
    ),
)
_FEW = 4  # so many may be in a queue at any moment of a server that keeps up


@rule("queue-waiting", Severity.WARNING, "Requests wait in a queue")
def queue_waiting(deployment: Deployment) -> Iterator[Hit]:
    """Each queue of a prefill/decode deployment says who is short.

    Decode's prealloc queue: decode's pool or its request slots. Transfer queue: the network. Prefill's bootstrap queue
    mirrors decode's prealloc queue. Prefill's in-flight queue: KV held until slow transfers end. The plain waiting
    queue: prefill compute, or the pool. On a decode server /v1/loads counts prealloc and transfer as waiting too.

    A warning where a queue has grown over the lines that were read, or holds as many as run; one look at a short queue
    cannot tell growth, and is only told.
    """
    for server in deployment.workers:
        waiting = [queue for queue in _QUEUES if _waits(server, queue)]
        if waiting:
            evidence = tuple(f for queue in waiting for f in _counts(server, queue))
            says = "; ".join(_queue_says(server, queue) for queue in waiting)
            severity = None if any(_is_growing(server, queue) for queue in waiting) else Severity.INFO
            yield Hit(server.name, says, evidence, waiting[0].advice, severity)


def _waits(server: Server, queue: _Queue) -> bool:
    if queue.name == "num_queue_reqs" and server.role is Role.DECODE:
        return False
    count = server.use(queue.name)
    return count.known and count.number >= 1 and not (queue.works and count.number < _FEW)


def _counts(server: Server, queue: _Queue) -> tuple[Figure, ...]:
    return tuple(f for f in (server.use(queue.name), server.use(f"first_{queue.name}")) if f.known)


def _queue_says(server: Server, queue: _Queue) -> str:
    now, *before = _counts(server, queue)
    label = queue.name.removeprefix("num_").removesuffix("_reqs").replace("_", " ")
    return f"{label}: {now.count:,} waiting{_growth(now, before)} ({queue.short})"


def _growth(now: Figure, before: Sequence[Figure]) -> str:
    if not before or before[0].number == now.number:
        return ""
    way = "up" if now.number > before[0].number else "down"
    return f", {way} from {before[0].count:,} at {before[0].observed_at or 'the first line read'}"


def _is_growing(server: Server, queue: _Queue) -> bool:
    now, *before = _counts(server, queue)
    if before and before[0].number != now.number:
        return now.number > before[0].number
    running = server.use("num_running_reqs")
    return now.number >= max(_FEW, running.number if running.known else 0)


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
                f"{seen[0].count:,} requests were retracted and"
                f" recomputed{' in the lines read' if seen[0] is logged else ' since the start'}",
                seen,
                f"raise {knob}, lower --max-running-requests, or bound max_tokens",
            )


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
    """A request whose KV does not arrive is lost, and prefill has worked for nothing. One failed request is logged by
    every rank.

    The usual causes: the other side died or was restarted, or the transfer backend lost its connection.
    """
    for server in deployment.workers:
        counted, logged = server.use("num_transfer_failed_reqs_total"), server.use("failed_transfers_in_log")
        seen = tuple(f for f in (counted, logged) if f.known and f.number > 0)
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
    """SGLang ends a server whose scheduler raises. The lines before it say why; gauges after it are stale."""
    for server in deployment.workers:
        seen = server.use("scheduler_exceptions")
        if seen.known:
            yield Hit(
                server.name,
                f"the scheduler hit an exception{f' at {seen.observed_at}' if seen.observed_at else ''}",
                (seen,),
                "read the lines that follow it in the log, and restart the server",
            )
