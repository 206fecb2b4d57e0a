"""Findings about the memory of the host."""

from __future__ import annotations

from collections.abc import Iterator

from ..deployment import Deployment
from ..engines.server import Server
from ..figure import Figure, derived
from .base import Hit, Severity, rule

_WORTH_TELLING_MIB = 1024


@rule("host-cache-grows", Severity.INFO, "Saved prompts and checkpoints grow in host memory")
def host_cache_grows(deployment: Deployment) -> Iterator[Hit]:
    """llama-server keeps prompts of idle slots in host memory (`--cache-ram`, 8,192 MiB unless set), and for models
    with sliding windows or recurrent states up to `--ctx-checkpoints` copies of the state for each slot.

    Nothing of it is taken at the start, so the host looks free until the server has run for a while. Lower both where
    memory is short. (ggml-org/llama.cpp issue 21690.)
    """
    for server in deployment.workers:
        parts = tuple(_known(server, "cache_ram_mib", "checkpoints_mib"))
        total = sum(part.number for part in parts)
        if total < _WORTH_TELLING_MIB:
            continue
        most = derived("host_cache_mib", total, "MiB", parts, "what both may grow to")
        yield Hit(
            server.name,
            f"up to {total:,.0f} MiB of host memory beside the model{_for_what(parts)}",
            (most,),
            "set --cache-ram and --ctx-checkpoints to what the host can spare",
        )


def _known(server: Server, *names: str) -> Iterator[Figure]:
    return (f for name in names if (f := server.figure(name)).known and f.number > 0)


def _for_what(parts: tuple[Figure, ...]) -> str:
    names = ["saved prompts" if part.name == "cache_ram_mib" else "checkpoints" for part in parts]
    if len(parts) == 1:
        return f", for {names[0]}"
    return ": " + " and ".join(f"{part.number:,.0f} of {name}" for part, name in zip(parts, names, strict=True))


@rule("killed-for-memory", Severity.ERROR, "The system killed the server for its memory")
def killed_for_memory(deployment: Deployment) -> Iterator[Hit]:
    """systemd-oomd or the kernel ended the process because the host had no memory left. What it served is lost, and the
    next start grows the same way.

    Lower what grows in host memory (`--cache-ram`, `--ctx-checkpoints`), keep fewer models in a router
    (`--models-max`), or bound the unit with `MemoryMax=`, so that it alone is hit.
    """
    for server in deployment.servers:
        by, result, peak = (server.use(name) for name in ("killed_by", "result", "memory_peak_gib"))
        if not by.known and result.value != "oom-kill":
            continue
        who = str(by.value) if by.known else "the kernel"
        at = f" at {peak.number:,.1f} GiB" if peak.known else ""
        evidence = tuple(f for f in (by, result, peak) if f.known)
        advice = "lower --cache-ram, --ctx-checkpoints or --models-max, or give the host more memory"
        yield Hit(server.name, f"{who} killed it{at}", evidence, advice)
