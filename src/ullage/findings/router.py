"""Findings about the router in front."""

from __future__ import annotations

from collections.abc import Iterator

from ..capacity.request import Shape
from ..deployment import Deployment, answer
from ..engines.server import Server
from ..figure import Figure, derived
from .base import Hit, Severity, rule


@rule("router-unlimited", Severity.WARNING, "The router passes everything on")
def router_unlimited(deployment: Deployment) -> Iterator[Hit]:
    """With `--max-concurrent-requests -1` (the default) sglang-router has no limit: overload piles up in the workers'
    queues.

    The engine refuses nothing in prefill/decode mode (`--max-queued-requests` is ignored there), so clients see
    timeouts instead of a quick 429. A limit near what the deployment holds keeps the rest waiting where it costs
    nothing.
    """
    for router in deployment.routers:
        limit = router.figure("max_concurrent_requests")
        if limit.known and limit.number < 0:
            fits = _in_flight(deployment)
            value = (
                f"--max-concurrent-requests {fits.count}"
                if fits
                else "--max-concurrent-requests N, with N what the workers hold"
            )
            yield Hit(
                router.name,
                "no limit on concurrent requests"
                + (f"; the workers hold {fits.count:,} requests of 4,096 tokens" if fits else ""),
                (limit, *((fits,) if fits else ())),
                f"set {value} (a token bucket: it limits bursts, and is no strict cap)",
            )


def _in_flight(deployment: Deployment) -> Figure | None:
    found = answer(deployment, Shape(4096))
    admits = [found.chain.admits] if found.chain else [limits.admits for limits in found.by_server.values()]
    if not admits or not all(figure.known for figure in admits):
        return None
    if not any(figure.count for figure in admits):
        return None  # no worker takes a prompt of that length
    if len(admits) == 1:
        return admits[0]
    return derived("admits", sum(f.count for f in admits), "requests", tuple(admits), "sum over the workers")


@rule("router-token-bucket", Severity.WARNING, "The router's limit is a token bucket, not a cap")
def router_token_bucket(deployment: Deployment) -> Iterator[Hit]:
    """`--max-concurrent-requests N` fills a bucket of N that refills at `--rate-limit-tokens-per-second` (N a second by
    default).

    With 4 set, 21 requests were in flight at the worker (measured on sglang-router 0.3.2). When the bucket is empty,
    requests wait in a queue of `--queue-size` and come back as 408, whatever `--queue-timeout-secs` says; with
    `--queue-size 0`, as 429.
    """
    for router in deployment.routers:
        limit = router.figure("max_concurrent_requests")
        if limit.known and limit.number > 0:
            yield Hit(
                router.name,
                f"--max-concurrent-requests {limit.count:,} refills {limit.count:,} times a second: more than"
                f" {limit.count:,} can be in flight",
                (limit,),
                "do not count on it as a cap; bound parallel requests at the clients or the gateway in front, and set"
                " --queue-size 0 for a quick 429",
            )


@rule("router-rejects", Severity.WARNING, "The router turns requests away at its limit")
def router_rejects(deployment: Deployment) -> Iterator[Hit]:
    """A request that finds the bucket of `--max-concurrent-requests` empty waits in the router's queue (`--queue-size`)
    and comes back as 408 when its turn does not come; with a full queue or none, as 429. The workers never see it, so
    their queues and pools look idle meanwhile.

    The counters run since the router's start. That is what a limit is for; it is too much where the workers had room.
    """
    for router in deployment.routers:
        rejected, allowed = router.use("rate_limit rejected"), router.use("rate_limit allowed")
        if not (rejected.known and rejected.number > 0):
            continue
        answers = tuple(f for code in ("408", "429") if (f := router.use(f"responses {code}")).known and f.number)
        told = ", ".join(f"{f.count:,} times {f.name.removeprefix('responses ')}" for f in answers)
        whole = f" of {rejected.count + allowed.count:,}" if allowed.known else ""
        yield Hit(
            router.name,
            f"the limit turned {rejected.count:,}{whole} requests away since the start"
            + (f"; answered {told}" if told else ""),
            (rejected, *((allowed,) if allowed.known else ()), *answers),
            "if the workers had room, raise --max-concurrent-requests and --rate-limit-tokens-per-second; else let"
            " clients try again later, and set --queue-size 0 for a quick 429 instead of a late 408",
        )


@rule("router-retries", Severity.INFO, "Retries multiply load in overload")
def router_retries(deployment: Deployment) -> Iterator[Hit]:
    """A failed request is tried again up to 5 times by default, on 408, 429 and 5xx alike. In prefill/decode mode every
    try runs prefill again.

    A dead decode server thus costs five prefills a request; 10 failures open the worker's breaker for 60 s, and an open
    prefill breaker turns everything into 503 "No available prefill workers".
    """
    for router in deployment.routers:
        tries, seen = router.figure("retry_max_retries"), router.use("worker_retries_total")
        if router.figure("disable_retries").value is True:
            continue
        retried = seen.known and seen.number > 0
        if retried or (tries.known and tries.number > 1):
            says = f"{seen.count:,} retries so far" if retried else f"up to {tries.count} tries a request"
            yield Hit(
                router.name,
                says,
                tuple(f for f in (tries, seen) if f.known),
                "set --disable-retries (or --retry-max-retries 1) where clients retry themselves",
                Severity.WARNING if retried else None,
            )


@rule("router-worker-down", Severity.ERROR, "The router holds a worker for unhealthy")
def router_worker_down(deployment: Deployment) -> Iterator[Hit]:
    """The router sends nothing to a worker whose health checks fail; in prefill/decode mode one dead role stops
    everything.
    """
    for router in deployment.routers:
        for figure in _down(router):
            yield Hit(
                router.name,
                f"{figure.name.removeprefix('healthy ')} is unhealthy",
                (figure,),
                "look at that worker's log; the router takes it back after two good checks (every 60 s by default)",
            )


def _down(router: Server) -> Iterator[Figure]:
    return (f for name, f in router.usage.items() if name.startswith("healthy http") and f.value is False)


@rule("router-flags-malformed", Severity.ERROR, "The router's command line is refused at start")
def router_flags(deployment: Deployment) -> Iterator[Hit]:
    """`--prefill` takes two words, the URL and the bootstrap port: `--prefill http://host:30000 8998`. Joined by a
    comma they are no URL.
    """
    for router in deployment.routers:
        joined = router.figure("urls_with_a_comma")
        if joined.known:
            yield Hit(
                router.name,
                f"{joined.value}: the bootstrap port stands after a space, not a comma; the router refuses to start",
                (joined,),
                "write --prefill URL PORT, with a space",
            )
