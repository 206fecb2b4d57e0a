"""What a llama-server keeps in host memory beside the model: saved prompts, and checkpoints of states and windows."""

from __future__ import annotations

from ...figure import Figure, default, derived, missing
from ..join import Joined
from .context import Context, arguments_seen

CACHE_RAM_MIB = 8192  # --cache-ram since October 2025 (PR 16391)
CHECKPOINTS = 32  # --ctx-checkpoints in autumn 2026; 3 when it came (PR 15293, August 2025), then 8
_DENSE = "the model has neither sliding-window nor recurrent layers, so it makes no checkpoints"


def host_figures(joined: Joined, context: Context) -> dict[str, Figure]:
    """The most that each may grow to, in MiB; nothing of it is taken at the start."""
    ram, count, size = _cache_ram(joined), _checkpoints(joined), _checkpoint_size(joined)
    found = {"cache_ram_mib": ram, "ctx_checkpoints": count, "checkpoint_mib": size}
    if count.known and size.known and context.slots.known:
        most = round(count.number * size.number * context.slots.number, 2)
        note = "checkpoints a slot x size x slots"
        found["checkpoints_mib"] = derived("checkpoints_mib", most, "MiB", (count, size, context.slots), note)
    return found


def _cache_ram(joined: Joined) -> Figure:
    stated = joined.effective.get("cache_ram_mib")
    if stated is not None:
        return stated
    word = joined.effective.get("cache_ram")
    if word is not None and word.value == "disabled":
        return derived("cache_ram_mib", 0, "MiB", (word,), "the prompt cache is disabled")
    asked = joined.args.get("cache_ram_mib")
    if (word is not None and word.value == "no limit") or (asked is not None and asked.count < 0):
        return missing("cache_ram_mib", "MiB", "saved prompts have no limit (--cache-ram -1)")
    if asked is not None:
        return derived("cache_ram_mib", asked.count, "MiB", (asked,), "as asked for")
    note = "llama-server's default since October 2025; none before"
    return _default(joined, "cache_ram_mib", CACHE_RAM_MIB, "MiB", note)


def _checkpoints(joined: Joined) -> Figure:
    stated = joined.effective.get("ctx_checkpoints") or joined.args.get("ctx_checkpoints")
    if stated is not None:
        return stated
    note = "llama-server's default in autumn 2026; builds of 2025 keep 3 or 8"
    return _default(joined, "ctx_checkpoints", CHECKPOINTS, "", note)


def _default(joined: Joined, name: str, value: int, unit: str, note: str) -> Figure:
    """Where nothing shows the arguments, a default is no more than a guess."""
    if arguments_seen(joined):
        return default(name, value, unit, note)
    return missing(name, unit, f"the arguments are not part of the evidence; {value:,} is {note}")


def _checkpoint_size(joined: Joined) -> Figure:
    """As logged, else the recurrent state of one sequence, which a checkpoint is a copy of."""
    logged = joined.usage.get("checkpoint_mib")
    if logged is not None:
        return logged
    states, sequences = joined.effective.get("rs_mib"), joined.effective.get("rs_seqs")
    if states is not None and sequences is not None and sequences.count:
        each = round(states.number / sequences.count, 3)
        return derived("checkpoint_mib", each, "MiB", (states, sequences), "the state of one sequence")
    if "kv_mib" in joined.effective and not joined.effective.keys() & {"swa_mib", "rs_mib"}:
        return derived("checkpoint_mib", 0, "MiB", (joined.effective["kv_mib"],), _DENSE)
    return missing("checkpoint_mib", "MiB", "a log with -lv 4 states it when the first checkpoint is made")
