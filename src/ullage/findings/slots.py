"""Findings about a llama.cpp server's slots: how they share the context, and what happens when it is gone."""

from __future__ import annotations

from collections.abc import Iterator

from ..capacity.pool import Pool
from ..deployment import Deployment, total_context
from ..engines.server import Server
from ..figure import Figure, derived
from .base import Hit, Severity, in_words, rule


def _pool(server: Server, name: str) -> Pool | None:
    return next((p for p in server.pools if p.name == name and p.size.known), None)


def _of_llama(deployment: Deployment) -> Iterator[tuple[Server, Pool, Figure]]:
    """(server, its slots, the context of one) where both are known."""
    for server in deployment.workers:
        slots, each = _pool(server, "slots"), server.figure("n_ctx_slot")
        if server.engine == "llama.cpp" and slots is not None and each.known:
            yield server, slots, each


@rule("np-divides-context", Severity.INFO, "-np divides the context among the slots")
def np_divides_context(deployment: Deployment) -> Iterator[Hit]:
    """`-c` is the context of all slots together. With an explicit `-np N` and no `-kvu`, llama-server gives each slot
    an Nth of it (rounded up to 256), and refuses longer prompts with 400 although the others are idle.

    `-kvu` beside `-np N` lets one request use all of it, and then all slots together may not hold more. For N full
    contexts give N times as much with `-c`. (ggml-org/llama.cpp issues 11681, 17300.)
    """
    for server, slots, each in _of_llama(deployment):
        unified, count = server.figure("kv_unified"), slots.size
        if unified.value is not False or count.count < 2:
            continue
        refused = server.use("refused_too_long_in_log")
        asked = server.figure("requested_n_ctx")
        whole = f" of the {asked.count:,} of -c" if asked.known and asked.number > 0 else ""
        logged = f"; {refused.count:,} were refused for that in the log" if refused.known else ""
        yield Hit(
            server.name,
            f"each of {count.count:,} slots has {each.count:,} tokens{whole}: a longer request is refused{logged}",
            tuple(f for f in (each, count, unified, asked, refused) if f.known),
            f"if one request needs more, give -kvu beside -np {count.count}, or -c {count.count} times as large",
            Severity.WARNING if refused.known else None,
        )


@rule("unified-overcommit", Severity.WARNING, "The slots may hold more than their one pool")
def unified_overcommit(deployment: Deployment) -> Iterator[Hit]:
    """With a unified pool (`-kvu`, or no `-np` at all since November 2025) every slot may grow to the whole context,
    and nothing tests whether they fit together.

    When the cells are gone, idle slots lose their cached prompts; then *every* request that is processed fails with
    "Context size has been exceeded." and starts anew from nothing. Bound each slot with `--kv-unified-per-slot`, give
    more with `-c`, or let fewer run with `-np`. (ggml-org/llama.cpp issue 23652.)
    """
    for server, slots, each in _of_llama(deployment):
        pool, unified = _pool(server, "KV pool"), server.figure("kv_unified")
        if pool is None or unified.value is not True or pool.partitions > 1:
            continue
        wanted = slots.size.count * each.count
        if wanted <= pool.size.count:
            continue
        may = derived("slots_may_hold", wanted, "tokens", (slots.size, each), "slots x context of a slot")
        failed = server.use("context_exceeded_in_log")
        share = pool.size.count // slots.size.count
        logged = f"; it happened {failed.count:,} times in the log" if failed.known else ""
        yield Hit(
            server.name,
            f"{slots.size.count:,} slots of up to {each.count:,} tokens share {pool.size.count:,}: beyond that every"
            f" request that is processed fails{logged}",
            (may, pool.size, *((failed,) if failed.known else ())),
            f"set --kv-unified-per-slot {share}, or -c {wanted}, or fewer slots with -kvu -np N",
            Severity.ERROR if failed.known else None,
        )


@rule("requests-deferred", Severity.WARNING, "Requests wait for a slot")
def requests_deferred(deployment: Deployment) -> Iterator[Hit]:
    """Every slot works on a request, and others wait. The queue has no bound, and llama-server refuses nothing, so
    clients see timeouts first.

    More slots (`-np`) cost little where requests are short: with `-kvu` they draw on the same cells. The time a token
    takes grows with the slots at work.
    """
    for server in (s for s in deployment.workers if s.engine == "llama.cpp"):
        waiting = next((queue.waiting for queue in server.queues if queue.waiting.known), None)
        if waiting is None or waiting.number < 1 or not server.running.known:
            continue
        slots = _pool(server, "slots")
        works = f"{server.running.count:,} of {slots.size.count:,} slots work" if slots else _all_work(server)
        count = slots.size.count if slots else max(1, server.running.count)
        yield Hit(
            server.name,
            f"{waiting.count:,} wait while {works}{_cells_held(server)}",
            (waiting, server.running, *((slots.size,) if slots else ())),
            f"if they are short, give more slots: -kvu -np {2 * count}",
        )


def _all_work(server: Server) -> str:
    """Nobody waits while a slot is idle, so as many slots as work are all there are."""
    return f"{server.running.count:,} are processed, which is then every slot"


def _cells_held(server: Server) -> str:
    pool = total_context(server)
    cells = f" of {in_words(pool)} cells" if pool.known else ""
    used = next((level.used for level in server.levels if level.pool == "KV pool" and level.used.known), None)
    return f"; the requests hold {used.count:,}{cells}" if used is not None else ""
