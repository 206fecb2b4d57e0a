"""Findings about requests that wait: in which queue, for what, and whether they will ever be served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    _Queue(
        "num_requests_waiting_by_reason_capacity",
        "the pool is full",
        "give it more memory (--gpu-memory-utilization), add servers or lower the length of requests",
    ),
    _Queue(
        "num_requests_waiting_by_reason_deferred",
        "a KV transfer, a LoRA slot or a grammar is awaited, not capacity",
        "look at what they wait for: num_requests_kv_fetch_by_stage, --max-loras, structured outputs",
        works=True,
    ),
    _Queue("num_requests_swapped", "their blocks are in host memory", "lower --max-num-seqs", works=True),
    _Queue(
        "num_requests_waiting",
        "the pool is full",
        "give it more memory (--gpu-memory-utilization), add servers or lower the length of requests",
    ),
)
_OF_CAPACITY = ("num_requests_waiting_by_reason_capacity", "num_requests_waiting")  # a part, and the whole
_FULL = 0.9
_FEW = 4  # so many may be in a queue at any moment of a server that keeps up


@rule("queue-waiting", Severity.WARNING, "Requests wait in a queue")
def queue_waiting(deployment: Deployment) -> Iterator[Hit]:
    """Each queue of a prefill/decode deployment says who is short.

    Decode's prealloc queue: decode's pool or its request slots. Transfer queue: the network. Prefill's bootstrap queue
    mirrors decode's prealloc queue. Prefill's in-flight queue: KV held until slow transfers end. The plain waiting
    queue: prefill compute, or the pool. On a decode server /v1/loads counts prealloc and transfer as waiting too.

    vLLM has one queue, and says since 0.20 whether its requests wait for capacity. With the pool below 90 % that is not
    the pool: `--max-num-seqs` is reached, the token budget of a step (`--max-num-batched-tokens`) is spent on prompts,
    or a long prompt at the head waits for all its blocks and holds up the others.

    A warning where a queue has grown over the lines that were read, or holds as many as run; one look at a short queue
    cannot tell growth, and is only told.
    """
    for server in deployment.workers:
        waiting = [queue for queue in _QUEUES if _waits(server, queue)]
        if waiting:
            evidence = tuple(f for queue in waiting for f in _counts(server, queue))
            says = "; ".join(_queue_says(server, queue) for queue in waiting)
            severity = None if any(_is_growing(server, queue) for queue in waiting) else Severity.INFO
            yield Hit(server.name, says, evidence, _advice(server, waiting[0]), severity)


def _waits(server: Server, queue: _Queue) -> bool:
    if queue.name == "num_queue_reqs" and server.role is Role.DECODE:
        return False
    if queue.name in _OF_CAPACITY and (stuck(server) or _told_by_part(server, queue)):
        return False
    count = server.use(queue.name)
    return count.known and count.number >= 1 and not (queue.works and count.number < _FEW)


def _counts(server: Server, queue: _Queue) -> tuple[Figure, ...]:
    return tuple(f for f in (server.use(queue.name), server.use(f"first_{queue.name}")) if f.known)


def _queue_says(server: Server, queue: _Queue) -> str:
    now, *before = _counts(server, queue)
    label = queue.name.removeprefix("num_").removesuffix("_reqs").replace("_", " ")
    label = label.removeprefix("requests waiting by reason ").removeprefix("requests ")
    label = {"capacity": "for capacity", "waiting": "queue"}.get(label, label)
    return f"{label}: {now.count:,} waiting{_growth(now, before)} ({_short(server, queue)[0]})"


def _told_by_part(server: Server, queue: _Queue) -> bool:
    """Is the whole told by its parts already?"""
    return queue.name == "num_requests_waiting" and server.use(_OF_CAPACITY[0]).known


def _short(server: Server, queue: _Queue) -> tuple[str, str]:
    """(who is short, advice). vLLM's queue for capacity may wait for something else than the pool."""
    usage, slots = server.use("kv_cache_usage_perc"), server.pool("request slots")
    if queue.name not in _OF_CAPACITY or not usage.known or usage.number >= _FULL:
        return queue.short, queue.advice
    told = f"the pool is used to {usage.number:.0%} only, so it is not the pool"
    if slots is not None and server.running.known and server.running.number >= slots.size.number * slots.partitions:
        return f"{told}: all {slots.size.count * slots.partitions:,} request slots run", "raise --max-num-seqs"
    advice = "raise --max-num-batched-tokens if prompts queue, or --max-num-seqs; look for a long prompt at the head"
    return f"{told}: the token budget of a step, request slots, or a long prompt at the head", advice


def _advice(server: Server, queue: _Queue) -> str:
    """The table can only tell what binds where a pool is known."""
    if queue.name != "num_queue_reqs" or any(pool.size.known for pool in server.pools):
        return _short(server, queue)[1]
    full = [(level.in_use.number, level.pool) for level in server.levels if level.in_use.known]
    if full and max(full)[0] >= _FULL:
        return f"the {max(full)[1]} is full: add servers, lower the length of requests, or raise its size"
    return "read the start-up lines or the server's URL too, which tell what binds; then add servers or raise that"


def _growth(now: Figure, before: Sequence[Figure]) -> str:
    if not before or before[0].number == now.number:
        return ""
    way = "up" if now.number > before[0].number else "down"
    return f", {way} from {before[0].count:,} at {before[0].observed_at or 'the first line read'}"


def _is_growing(server: Server, queue: _Queue) -> bool:
    now, *before = _counts(server, queue)
    if before and before[0].number != now.number:
        return now.number > before[0].number
    running = server.running if server.running.known else server.use("num_running_reqs")
    return now.number >= max(_FEW, running.number if running.known else 0)


@rule("head-of-line-stuck", Severity.ERROR, "Requests wait, nothing runs, and the pool is free")
def head_of_line_stuck(deployment: Deployment) -> Iterator[Hit]:
    """vLLM's queue is served in order. When the prompt at its head needs more blocks than can ever be free, nothing
    behind it runs: "Running: 0 reqs, Waiting: 1 reqs" for ever, and /health says that all is well.

    Since 0.19 the whole prompt must fit at the door, windows and all. (vllm-project/vllm issues 39734, 40002, 35541.)
    Abort the request at the head; then set `--max-model-len` to what the pool holds, so that such a prompt is refused
    with 400. One look cannot tell it from a request that has just come; two lines of statistics can.
    """
    for server in deployment.workers:
        seen = stuck(server)
        if seen:
            waiting, running, usage = seen
            longest = next((c.tokens for c in server.ceilings if c.what == "KV pool" and c.tokens.known), None)
            length = str(longest.count) if longest else "what the pool holds"
            lasting = _lasts(server)
            yield Hit(
                server.name,
                f"{waiting.count:,} wait and {running.count:,} run, with {usage.number:.0%} of the pool in use: the"
                " prompt at the head does not fit at the door",
                (*seen, *((longest,) if longest else ())),
                f"abort that request (or restart), and set --max-model-len {length}, or"
                " --no-scheduler-reserve-full-isl",
                None if lasting else Severity.WARNING,
                doubtful=not lasting,
            )


_FREE = 0.5


def stuck(server: Server) -> tuple[Figure, ...]:
    """(waiting, running, usage) of a vLLM server that runs nothing although it has room and requests; else nothing."""
    whole, part = (server.use(name) for name in reversed(_OF_CAPACITY))
    waiting, usage = part if part.known else whole, server.use("kv_cache_usage_perc")
    asleep = server.use("engine_sleep_state_awake").value == 0
    if asleep or not (waiting.known and usage.known and server.running.known):
        return ()
    held_up = waiting.number > 0 and server.running.number == 0 and usage.number < _FREE
    return (waiting, server.running, usage) if held_up else ()


def _lasts(server: Server) -> bool:
    """Do the last two lines of statistics of an engine both say so?"""
    last = [m.figures for m in server.history if "num_requests_waiting" in m.figures][-2:]
    return len(last) == 2 and all(
        f["num_requests_waiting"].number > 0 and f["num_requests_running"].number == 0 for f in last
    )


@rule("requests-rejected", Severity.WARNING, "The server rejects requests at its door")
def requests_rejected(deployment: Deployment) -> Iterator[Hit]:
    """With `--max-num-queued-reqs` or `--max-num-queued-tokens` vLLM answers 503 when its queue is full, and counts it.

    That is what the limits are for; it is too much where clients do not try again, or elsewhere.
    """
    for server in deployment.workers:
        names = [name for name in server.usage if name.startswith("admission_rejections_")]
        seen = tuple(f for name in names if (f := server.use(name)).known and f.number > 0)
        if seen:
            told = ", ".join(f"{f.count:,} by {f.name.removeprefix('admission_rejections_')}" for f in seen)
            flags = " and ".join(f"--{f.name.removeprefix('admission_rejections_').replace('_', '-')}" for f in seen)
            yield Hit(
                server.name,
                f"rejected with 503 since the start: {told}",
                seen,
                f"add servers, let clients try again later, or raise {flags}",
            )


@rule("engines-unbalanced", Severity.WARNING, "One engine has a queue while another has room")
def engines_unbalanced(deployment: Deployment) -> Iterator[Hit]:
    """Each data-parallel engine has a queue and a pool of its own, and a request stays where it was sent. Requests wait
    on one although another could run them.

    vLLM's own front end sends a request to the engine with the fewest waiting and running; by their number, not by
    their length. An external balancer (`--data-parallel-external-lb`) that goes round in turn does worse.
    """
    for server in deployment.workers:
        ranks = {
            r.name: r.figures
            for r in server.ranks
            if {"num_requests_waiting", "kv_cache_usage_perc"} <= r.figures.keys()
        }
        if len(ranks) < 2:
            continue
        busy = max(ranks, key=lambda name: ranks[name]["num_requests_waiting"].number)
        idle = min(ranks, key=lambda name: _pressure(ranks[name]))
        waiting = ranks[busy]["num_requests_waiting"]
        full, free = (ranks[name]["kv_cache_usage_perc"] for name in (busy, idle))
        if waiting.number < _FEW or ranks[idle]["num_requests_waiting"].number or free.number >= _FREE:
            continue
        yield Hit(
            server.name,
            f"{busy}: {waiting.count:,} wait at {full.number:.0%} of its pool; {idle}: none wait at {free.number:.0%}",
            (waiting, full, ranks[idle]["num_requests_waiting"], free),
            "send requests where fewest tokens wait, or bound what one engine is given (--max-num-queued-tokens, with"
            " clients that try elsewhere)",
        )


def _pressure(figures: Mapping[str, Figure]) -> tuple[float, float]:
    return figures["num_requests_waiting"].number, figures["kv_cache_usage_perc"].number
