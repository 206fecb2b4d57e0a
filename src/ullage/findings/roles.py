"""Findings about prefill and decode as a pair: what one side holds for the other, and pairs that do not work."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..deployment import Deployment
from ..engines.server import Role, Server
from ..figure import Figure
from .base import Hit, Severity, rule

_MUCH = 0.1
_LEASE = "the lease ends (kv_lease_duration in kv_connector_extra_config, 30 s) or"
_TIMEOUT = "VLLM_NIXL_ABORT_REQUEST_TIMEOUT is over (480 s; 120 s in mid-2025)"


@rule("kv-held-for-decode", Severity.INFO, "Blocks are held although nothing runs")
def kv_held(deployment: Deployment) -> Iterator[Hit]:
    """A vLLM prefill server keeps the blocks of a finished prompt until the decode side has read them. They count as
    used while nothing runs and nothing waits, and new prompts cannot have them.

    They come free when they were read, or when their time is over: builds of 2026 give a lease that decode renews
    (`kv_lease_duration`, 30 s), earlier ones a time-out (`VLLM_NIXL_ABORT_REQUEST_TIMEOUT`, 480 s). A request that is
    aborted in between holds them all that time. (vllm-project/vllm PR 29906.) A warning from a tenth of the pool on.
    """
    for server in deployment.workers:
        usage, waiting = server.use("kv_cache_usage_perc"), server.use("num_requests_waiting")
        pair = _of_a_pair(server)
        if not (pair and usage.known and waiting.known and server.running.known):
            continue
        if usage.number > 0 and not (server.running.number or waiting.number):
            yield Hit(
                server.name,
                f"{usage.number:.1%} of the pool is held, and nothing runs or waits",
                (usage, server.running, waiting, pair),
                f"look at the decode side: they are held until it has read them, {_LEASE} {_TIMEOUT}",
                Severity.WARNING if usage.number >= _MUCH else None,
            )


def _of_a_pair(server: Server) -> Figure | None:
    """What shows that the server moves KV to or from another."""
    connector = server.figure("kv_connector")
    moved = (figure for name, figure in server.usage.items() if name.startswith("nixl_"))
    return connector if connector.known else next(moved, None)


@rule("kv-expired", Severity.WARNING, "KV was given up before decode had read it")
def kv_expired(deployment: Deployment) -> Iterator[Hit]:
    """The time that a prefill server holds finished blocks was over before the decode side had read them all. The
    request fails or is computed again on decode (`kv_load_failure_policy`).

    An error where decode still read afterwards: the blocks may have been another request's by then, and what was
    generated from them is wrong.
    """
    for server in deployment.workers:
        names = ("nixl_num_kv_expired_reqs", "kv_expired_reqs_in_log", "nixl_num_notifications_after_expiry")
        seen = tuple(f for name in names if (f := server.use(name)).known and f.number > 0)
        if seen:
            late = server.use(names[-1])
            read_late = late.known and late.number > 0
            says = f"{seen[0].count:,} requests expired" if seen[0].name != late.name else "blocks expired"
            yield Hit(
                server.name,
                says
                + (f"; {late.count:,} were read after that, from blocks that may be another's" if read_late else ""),
                seen,
                "give decode more room or servers, or raise kv_lease_duration (before it:"
                " VLLM_NIXL_ABORT_REQUEST_TIMEOUT)",
                Severity.ERROR if read_late else None,
            )


_ONE_VECTOR = r"deepseek|kimi|glm-?[56]|minicpm-?3|longcat|mistral-?large-?3|ling-?2|ring-?2"


@rule("roles-differ-in-ranks", Severity.WARNING, "Prefill and decode split the model over different numbers of GPUs")
def roles_differ_in_ranks(deployment: Deployment) -> Iterator[Hit]:
    """With another `--tp-size` on each side, every decode rank has to gather its heads from several prefill ranks, or
    part of one. Models with one latent vector a token (MLA) have the same KV on every rank and do not care; others get
    slow, and fail under load. (sgl-project/sglang issue 15674; window and hybrid models are refused at the first
    transfer.)

    Whether a model is one with MLA is told by its name here. Data-parallel attention divides the ranks: counted is
    `--tp-size` over `--dp-size` where it is on.
    """
    sides = {role: _ranks(deployment, role) for role in (Role.PREFILL, Role.DECODE)}
    if not all(sides.values()):
        return
    model = _model(deployment.of(Role.PREFILL)[0])
    name = str(model.value).lower() if model else ""
    if model is None or (re.search(_ONE_VECTOR, name) and "distill" not in name):
        return
    prefill, decode = ({size for size, _ in sides[role]} for role in (Role.PREFILL, Role.DECODE))
    if prefill != decode:
        told = [", ".join(map(str, sorted(sizes))) for sizes in (prefill, decode)]
        yield Hit(
            "prefill and decode",
            f"attention runs on {told[0]} ranks at prefill and {told[1]} at decode, and the model is not known to have"
            " one latent KV for all of them",
            (*(figure for found in sides.values() for _, figure in found), model),
            "start both with the same --tp-size, unless the model has MLA",
            doubtful=True,
        )


def _ranks(deployment: Deployment, role: Role) -> list[tuple[int, Figure]]:
    """(ranks that share the attention heads, the figure that says so) of the SGLang servers of a role."""
    found = []
    for server in deployment.of(role):
        ranks, engines = server.figure("tp_size"), server.figure("dp_size")
        if server.engine == "SGLang" and ranks.known:
            apart = server.figure("enable_dp_attention").value is True and engines.known
            found.append((ranks.count // engines.count if apart and engines.count else ranks.count, ranks))
    return found


def _model(server: Server) -> Figure | None:
    return next((f for n in ("model_path", "served_model_name") if (f := server.figure(n)).known), None)
