"""Findings about pools: what they are too small for, and what takes their bytes."""

from __future__ import annotations

from collections.abc import Iterator

from ..capacity.limits import limits
from ..capacity.pool import Pool
from ..capacity.request import Shape
from ..deployment import Deployment, reach_of, total_context
from ..engines.server import Role, Server
from ..figure import Figure, derived
from ..units import floor_to
from .base import Hit, Severity, rule
from .blocks import printed_as_enough, windows_at_the_door
from .levers import levers_of

_MANY = 2**40
_USUAL_TOKENS = 4096  # below this length, that slots bind is as it should be


@rule("pool-below-context", Severity.WARNING, "The KV pool is smaller than one full context")
def pool_below_context(deployment: Deployment) -> Iterator[Hit]:
    """The server advertises a context length (`/v1/models`: `max_model_len`) that its pool cannot hold for even one
    request.

    SGLang starts anyway, and refuses longer requests with 400 at run time. vLLM refuses to start, except where its
    check is wrong or was overridden; then a prompt between the two waits at the head of the queue for ever (since
    0.19, which wants the whole prompt's blocks free), and every request behind it too.

    Either lower the context length to what fits, so that clients are told the truth, or give the pool more memory
    (share of GPU memory, an fp8 KV cache, fewer graph sizes, more GPUs).
    """
    for server in deployment.workers:
        if printed_as_enough(server) or server.figure("start_refused").known:
            continue  # one-times-not-served or start-refused says it
        pool, context = _ceiling(server, "KV pool"), _ceiling(server, "context length")
        if pool and context and pool.known and context.known and pool.number < context.number:
            fits = floor_to(pool.count, 1024) or pool.count
            short = context.count - pool.count
            levers = levers_of(server)
            runs = server.engine == "vLLM" and (server.figure("ready").known or server.usage)
            beyond = "; a prompt between them is never served, and holds up all behind it" if runs else ""
            yield Hit(
                server.name,
                f"one request may be {context.count:,} tokens by the context length, but the pool holds {pool.count:,}:"
                f" {short:,} short{_short_gib(server, pool, short)}{beyond}",
                (pool, context),
                f"set {levers.context} {fits}, or raise {levers.memory}{_first_chunk(server)}",
            )


def _ceiling(server: Server, what: str) -> Figure | None:
    return next((c.tokens for c in server.ceilings if c.what == what), None)


def _first_chunk(server: Server) -> str:
    """What helps vLLM's door where windows ask for more than a request keeps."""
    return ", or --no-scheduler-reserve-full-isl" if windows_at_the_door(server) else ""


def _short_gib(server: Server, pool: Figure, tokens: int) -> str:
    """The same in memory, where the pool's bytes are known."""
    size = server.figure("kv_total_gib")
    return f" ({tokens * size.number / pool.number:,.2f} GiB of KV on each GPU)" if size.known and pool.number else ""


@rule("prefill-window-cap", Severity.WARNING, "Prefill refuses prompts longer than its sliding-window pool")
def prefill_window_cap(deployment: Deployment) -> Iterator[Hit]:
    """A prefill server of a hybrid sliding-window model takes no prompt longer than its window pool, however large its
    KV pool is.

    For DeepSeek-V4 the window pool is a tenth of the pool by default, so the cap is a tenth of what the pool suggests.
    Builds with sgl-project/sglang PR 26607 (merged at the beginning of June 2026; releases from 0.5.13) are free of it
    for DeepSeek-V4; other window models keep it. Where the version is not known, both limits are shown.
    """
    for server in deployment.of(Role.PREFILL):
        reach = reach_of(server)
        if reach.ceiling and "window" in reach.ceiling.what:
            cap = reach.ceiling.tokens
            yield Hit(
                server.name,
                f"prompts above {cap.count:,} tokens are refused with 400: the window pool caps them",
                (cap,),
                "raise --swa-full-tokens-ratio, or upgrade to 0.5.13 or later (DeepSeek-V4)",
                Severity.ERROR,
            )
        elif reach.perhaps and reach.ceiling:
            cap, free = reach.perhaps.tokens, reach.ceiling.tokens
            yield Hit(
                server.name,
                f"longest prompt is {free.count:,} tokens, or {cap.count:,} if this build is older than 0.5.13: the"
                " version is not known",
                (cap, free, server.figure("version")),
                "ask the server for its version (GET /server_info); if it is older, upgrade or raise"
                f" --swa-full-tokens-ratio, or one prompt above {cap.count:,} is refused",
                doubtful=True,
            )


@rule("slots-bind-before-kv", Severity.INFO, "Request slots bind while KV is free")
def slots_bind_before_kv(deployment: Deployment) -> Iterator[Hit]:
    """Up to some length, the limit on running requests (SGLang `--max-running-requests`, vLLM `--max-num-seqs`) binds
    and part of the pool stays unused; beyond it, the KV pool binds.

    Raising the flag costs a row of the request table per request (about (context + 4) x 4 bytes, outside the pool) and
    larger decode batches. It is worth it when requests queue while the pool's use is low.
    """
    for server in deployment.of(Role.UNIFIED, Role.DECODE, Role.UNKNOWN):
        slots, kv = server.pool("request slots"), server.pool("KV pool")
        length = _last_length_bound_by(server, "request slots")
        if slots is None or kv is None or length is None:
            continue
        busy = _all_slots_taken(server, slots)
        if not busy and length < _USUAL_TOKENS:
            continue
        held = limits([kv], (), Shape(_usual(server))).admits
        says = f"up to {length:,} tokens a request, {slots.size.count * slots.partitions:,} request slots bind"
        now = f"; now {busy[1].count:,} wait at {busy[2].number:.0%} KV use" if busy else " and KV is left over"
        evidence = (slots.size, kv.size, *busy)
        yield Hit(server.name, says + now, evidence, _more_slots(server, held), Severity.WARNING if busy else None)


def _usual(server: Server) -> int:
    return min(_USUAL_TOKENS, _longest(server))


def _longest(server: Server) -> int:
    reach = reach_of(server).tokens
    return max(1, reach.count) if reach.known else _MANY


_KV_USE = ("kv_pool_usage", "token_usage", "kv_cache_usage_perc")


def _all_slots_taken(server: Server, slots: Pool) -> tuple[Figure, ...]:
    """(running, waiting, KV use) where every slot is taken, requests wait, and KV is mostly free; else nothing."""
    running = server.running if server.running.known else server.use("num_running_reqs")
    queued = next((f for n in ("num_queue_reqs", "num_requests_waiting") if (f := server.use(n)).known), None)
    use = next((f for n in _KV_USE if (f := server.use(n)).known), None)
    if use is None or queued is None or not running.known:
        return ()
    taken = running.number >= slots.size.number * slots.partitions
    return (running, queued, use) if taken and queued.number > 0 and use.number < 0.7 else ()


def _more_slots(server: Server, held: Figure) -> str:
    """What gives more slots: recurrent states, where the model has them and they lowered what was asked for."""
    asked = server.figure("requested_max_running_requests")
    effective = server.figure("max_running_requests")
    states = server.pool("state slots")
    lowered = asked.known and effective.known and asked.number > effective.number
    if states and not asked.known and effective.known:
        running = limits([states], (), Shape(_usual(server))).admits
        lowered = not running.known or running.number <= effective.number
    if states and lowered:
        knob = "give it more state slots (--max-mamba-cache-size, --mamba-full-memory-ratio)"
    else:
        knob = f"set {levers_of(server).slots} {held.count}"
    return f"if short requests queue, {knob}: by its size the KV pool admits {held.count:,} of {_usual(server):,} each"


def _last_length_bound_by(server: Server, name: str) -> int | None:
    """The longest prompt, in whole pages, for which this pool binds. None: it binds for none, or for all."""
    kv, whole = server.pool("KV pool"), total_context(server)
    if kv is None or kv.demand is None or not whole.known:
        return None
    page = max(kv.demand.page, 1)
    most = min(whole.count // kv.partitions, _longest(server)) // page
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        bound = limits(server.pools, (), Shape(middle * page)).binds == name
        low, high = (middle, high) if bound else (low, middle - 1)
    return low * page if 0 < low < most else None


@rule("window-takes-the-pool", Severity.INFO, "Window and state pools take most of the pool's bytes")
def window_takes_the_pool(deployment: Deployment) -> Iterator[Hit]:
    """DeepSeek-V4 builds charge far more per token than context costs, because window and compressor-state pools scale
    with the pool.

    The log's `bytes_per_full_token` is what a token of the pool is charged. What context itself costs (compressed KV
    and index keys) is a quarter of it in the first builds: three quarters of the pool's memory buys no context.
    `--swa-full-tokens-ratio` sets how large those pools are; they must still hold window + page tokens for every
    running request.
    """
    for server in deployment.workers:
        charged = server.figure("bytes_per_full_token")
        context = server.figure("context_bytes_per_token")
        if not (charged.known and context.known and charged.number >= 2 * context.number):
            continue
        yield Hit(
            server.name,
            f"a token of the pool is charged {charged.number:,.2f} bytes, of which {context.number:,.2f} buy context",
            (charged, context),
            _exchange(server, charged, context),
        )


def _exchange(server: Server, charged: Figure, context: Figure) -> str:
    if any("window" in ceiling.what for ceiling in server.ceilings):
        return "leave --swa-full-tokens-ratio here: a smaller window pool may cap prompts further"
    pool, ratio = server.figure("max_total_num_tokens"), server.figures.get("swa_full_tokens_ratio")
    if server.figure("sized_tokens").known:
        return "--max-total-tokens caps the pool here: a lower --swa-full-tokens-ratio gives memory back, no tokens"
    held = float(ratio.number) if ratio and ratio.known else 0.1
    smaller = round(held / 2, 3)
    gain = charged.number / (context.number + (charged.number - context.number) * smaller / held)
    more = f" would hold about {pool.count * gain:,.0f} tokens (predicted)" if pool.known else " buys tokens"
    return f"--swa-full-tokens-ratio {smaller}{more} if the window pool still holds every running request"


_STATE_BYTES = (
    "mamba_conv_state_gib",
    "mamba_ssm_state_gib",
    "mamba_intermediate_ssm_gib",
    "mamba_intermediate_conv_gib",
)


@rule("states-take-the-pool", Severity.INFO, "Recurrent states take most of the pool's bytes")
def states_take_the_pool(deployment: Deployment) -> Iterator[Hit]:
    """A model with recurrent layers (Mamba, GDN, KDA) splits its pool memory between state slots and KV.

    `--mamba-full-memory-ratio` (default 0.9) sets the split. Many slots allow many requests of short context, few slots
    leave KV for long ones.
    """
    for server in deployment.workers:
        known = tuple(f for f in map(server.figure, _STATE_BYTES) if f.known)
        kv = server.figure("kv_total_gib")
        if not known or not kv.known or not kv.number:
            continue
        total = derived("mamba_total_gib", round(sum(f.number for f in known), 2), "GiB", known, "sum")
        if total.number >= 1.5 * kv.number:
            yield Hit(
                server.name,
                f"recurrent states take {total.number:,.2f} GiB, KV {kv.number:,.2f} GiB",
                (total, kv),
                "lower --mamba-full-memory-ratio (or --max-mamba-cache-size) if KV binds before the state slots do",
            )


@rule("chunk-above-prefill-budget", Severity.INFO, "The chunk is larger than the prefill budget of a pass")
def chunk_above_budget(deployment: Deployment) -> Iterator[Hit]:
    """A scheduling pass takes at most `--max-prefill-tokens` prompt tokens over all its requests.

    Raising `--chunked-prefill-size` above it changes nothing for several requests together: both have to be raised.
    """
    for server in deployment.workers:
        chunk, budget = server.figure("chunked_prefill_size"), server.figure("max_prefill_tokens")
        if chunk.known and budget.known and chunk.number > budget.number:
            yield Hit(
                server.name,
                f"chunks of {chunk.count:,} tokens, but a pass takes {budget.count:,}",
                (chunk, budget),
                f"raise --max-prefill-tokens to {chunk.count}, or lower the chunk",
            )


@rule("full-of-cache", Severity.INFO, "The pool looks full, but only of evictable cache")
def full_of_cache(deployment: Deployment) -> Iterator[Hit]:
    """Prefixes of ended requests stay in the pool until somebody needs the room. They are free for new requests at any
    time.

    SGLang's own `token_usage` leaves them out; tools that look at GPU memory or at available tokens alone do not.
    """
    for server in deployment.workers:
        pool, evictable, used = (
            total_context(server),
            server.use("kv_evictable_tokens"),
            server.use("num_used_tokens"),
        )
        if not (pool.known and evictable.known and used.known and pool.number):
            continue
        if (used.number + evictable.number) >= 0.8 * pool.number and used.number < 0.5 * pool.number:
            yield Hit(
                server.name,
                f"{evictable.count:,} of {pool.count:,} tokens are evictable cache; requests use {used.count:,}",
                (pool, evictable, used),
                "nothing to do: the cache gives way to new requests",
            )
