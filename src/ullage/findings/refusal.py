"""Findings about a start that was refused: by how much, and what would start."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..deployment import Deployment
from ..engines.server import Server
from ..figure import Figure, derived
from ..units import floor_to
from .base import Hit, Severity, rule


@rule("start-refused", Severity.ERROR, "The last start was refused: it does not fit, or could not be loaded")
def start_refused(deployment: Deployment) -> Iterator[Hit]:
    """The engine found before it served anything that what was asked for does not fit into the GPU's memory, or that
    the model cannot be loaded, and gave up. A unit that restarts it will see the same again.

    vLLM wants the KV of one full-length request in the pool (V0: in tokens), and as much free memory at the start as
    `--gpu-memory-utilization` promises it. SGLang wants something left beside the weights, and host memory for each
    rank's host cache. llama-server says what it could not load, allocate or bind. Only the last start counts.
    """
    for server in deployment.workers:
        ready = server.figure("ready").value
        if ready or (server.usage.keys() - _TOLD_BY_A_START and ready is not False):
            continue
        found = next((hit for tell in _REFUSALS if (hit := tell(server)) is not None), None)
        if found is not None:
            yield found


def _short_of_kv(server: Server) -> Hit | None:
    """vLLM V1: GiB of one full-length request against those of the pool."""
    needed, held = server.figure("needed_kv_gib"), server.figure("available_kv_gib")
    length, fits = server.figure("max_model_len"), server.figure("estimated_max_model_len")
    if not (needed.known and held.known and length.known):
        return None
    short = derived(
        "short_of_kv_gib", round(needed.number - held.number, 2), "GiB", (needed, held), "needed - available"
    )
    about, longest = ("", fits.count) if fits.known else ("about ", _in_proportion(server, length, needed, held))
    tokens = f", {about}{length.count - longest:,} tokens" if longest else ""
    shorter = f"set --max-model-len {longest}, or " if longest else ""
    if about and longest:
        shorter = f"set --max-model-len to {longest} or a little less (the line that says it is cut), or "
    return Hit(
        server.name,
        f"one request of {length.count:,} tokens needs {needed.number:,.2f} GiB of KV, and {held.number:,.2f} GiB are"
        f" there: {short.number:,.2f} GiB{tokens} short",
        (needed, held, short, *((fits,) if fits.known else ())),
        f"{shorter}{_more_memory(server, short)}",
    )


def _in_proportion(server: Server, length: Figure, needed: Figure, held: Figure) -> int:
    """Tokens of the longest request, in whole blocks, with the sizes as far apart as their two decimals leave open. 0
    where a request takes more than its tokens (windows, states), or may.
    """
    from ..engines.vllm.families import Family, Layers, family_of

    names = [str(f.value) for n in ("architecture", "model", "served_model_name") if (f := server.figure(n)).known]
    if family_of(*names) != Family(Layers.PLAIN) or server.figure("hybrid_block_size").known:
        return 0
    return max(0, floor_to(int(length.number * (held.number - _HALF) / (needed.number + _HALF)), 16))


def _more_memory(server: Server, short: Figure) -> str:
    """The share that would hold it, where the GPU's memory is known; rounded up."""
    total, share = server.figure("total_gib"), server.figure("gpu_memory_utilization")
    if not (total.known and share.known and total.number):
        return f"give the pool {short.number:,.2f} GiB more on each GPU (--gpu-memory-utilization, fp8 KV, more GPUs)"
    wanted = -int(-100 * (share.number + short.number / total.number) // 1) / 100
    if wanted >= 1:
        return "use more GPUs or an fp8 KV cache: no --gpu-memory-utilization holds it"
    return f"--gpu-memory-utilization {wanted:.2f}"


def _short_of_tokens(server: Server) -> Hit | None:
    """vLLM V0: tokens of the context against those of the pool."""
    length, pool = server.figure("max_model_len"), server.figure("kv_cache_size_tokens")
    if not (server.figure("start_refused").known and length.known and pool.known and length.number > pool.number):
        return None
    return Hit(
        server.name,
        f"the context is {length.count:,} tokens, the pool holds {pool.count:,}: {length.count - pool.count:,} short",
        (length, pool),
        f"set --max-model-len {pool.count}, or raise --gpu-memory-utilization",
    )


def _short_of_free_memory(server: Server) -> Hit | None:
    """vLLM: what is free when it starts against the share that it was promised."""
    free, wanted, total = (server.figure(name) for name in ("free_gib", "budget_gib", "total_gib"))
    if not (free.known and wanted.known and total.known and free.number < wanted.number and total.number):
        return None
    fits = int(100 * free.number / total.number) / 100
    return Hit(
        server.name,
        f"{free.number:,.2f} of {total.number:,.2f} GiB were free, and the share asks for {wanted.number:,.2f}:"
        f" {wanted.number - free.number:,.2f} GiB short",
        (free, wanted, total),
        f"end what else holds the GPU, or set --gpu-memory-utilization {fits:.2f}",
    )


def _short_of_fraction(server: Server) -> Hit | None:
    """SGLang: the weights alone take what the fraction allows."""
    refused, least = _refused_fraction(server), _least_fraction(server)
    if not refused.known or server.figure("max_total_num_tokens").known:
        return None
    evidence = (refused, *((least,) if least.known else ()))
    says = f"--mem-fraction-static {refused.number:g} leaves nothing for the pool"
    if least.known and least.number <= refused.number:
        return Hit(server.name, f"{says}, though the weights alone take {least.number:g}", evidence, _BESIDE_WEIGHTS)
    above = f": the weights alone take {least.number:g}" if least.known else ""
    value = f" {min(least.number + 0.03, 0.99):.2f}" if least.known else ""
    return Hit(
        server.name,
        f"{says}{above}",
        evidence,
        f"see that nothing else holds the GPUs, and raise --mem-fraction-static{value}; or use more GPUs",
    )


def _refused_fraction(server: Server) -> Figure:
    """As the refusal names it; before 2026 it names none, and the arguments do."""
    told, asked = server.figure("refused_mem_fraction"), server.figure("mem_fraction_static")
    refused = "Not enough memory" in str(server.figure("start_refused").value)
    return asked if refused and not told.known else told


def _least_fraction(server: Server) -> Figure:
    """As the refusal names it, else by its own formula: 1 - free after the weights / free before them, rounded up to
    three decimals (kv_cache_configurator.py, 003fca80).
    """
    told = server.figure("least_mem_fraction")
    before, after = (server.figure(f"avail_{when}_weights_gib") for when in ("before", "after"))
    if told.known or not (before.known and after.known and before.number > after.number):
        return told
    least = math.ceil((1 - after.number / before.number) * 1000) / 1000
    return derived("least_mem_fraction", least, "", (before, after), "1 - free after the weights / free before them")


def _short_of_host_memory(server: Server) -> Hit | None:
    """SGLang: the host tier of the cache is sized by the device pool, and each rank takes its own."""
    wanted, free = server.figure("refused_host_gb"), server.figure("free_host_gb")
    if not (wanted.known and free.known):
        return None
    return Hit(
        server.name,
        f"a rank's host cache takes {wanted.number:,.2f} GB, and {free.number:,.2f} GB of the host are free",
        (wanted, free),
        "lower --hicache-ratio, or set --hicache-size (GB for each rank) to what the host has",
    )


def _refused_otherwise(server: Server) -> Hit | None:
    words = server.figure("start_refused")
    return Hit(server.name, f"{words.value}", (words,), "read the lines before it in the log") if words.known else None


def _never_came_up(server: Server) -> Hit | None:
    """llama.cpp: the first line that names what could not be done."""
    ready = server.figure("ready")
    if ready.value is not False or ready.source is None:
        return None
    words = ready.source.quote.rsplit("failed to", 1)
    says = f"failed to{words[-1]}" if len(words) > 1 else ready.source.quote
    advice = next((told for word, told in _LLAMA_ADVICE if word in says), "read the lines before it in the log")
    return Hit(server.name, f"the server did not come up: {says}", (ready,), advice)


_HALF = 0.005  # GiB: half of the last decimal
_TOLD_BY_A_START = frozenset(["scheduler_exceptions"])  # SGLang logs its refusal as one; all other use is of a run
_BESIDE_WEIGHTS = (
    "a higher fraction may not help: see what is taken beside the weights (state slots: --max-mamba-cache-size, the"
    " draft model, another process on the GPUs)"
)
_LLAMA_ADVICE = (  # a word of the line -> what to do
    ("out of memory", "lower -c or -np, use -ctk q8_0 -ctv q8_0, or keep fewer layers on the GPU (-ngl)"),
    ("kv cache", "lower -c or -np, or use -ctk q8_0 -ctv q8_0"),
    ("bind", "end what listens on that port, or set --port to another"),
    ("context", "lower -c or -np; the lines before it say what was too large"),
    ("load model", "see that -m names a whole GGUF file of an architecture that this build knows"),
    ("loading", "see that -m names a whole GGUF file of an architecture that this build knows"),
)
_REFUSALS = (
    _short_of_kv,
    _short_of_free_memory,
    _short_of_tokens,
    _short_of_fraction,
    _short_of_host_memory,
    _refused_otherwise,
    _never_came_up,
)
