"""What a llama-server has: slots, the context of each, and the cells of its KV cache. Read where it is stated, else
from the flags by the engine's own arithmetic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ...figure import Figure, default, derived, inferred, missing
from ...units import ceil_to
from ..join import Joined
from .sizing import AUTO_SLOTS, PAD, Cells, cells_of

AUTO_SINCE = 6900  # about the build of PR 16736 (2 November 2025), which made four slots on one pool the default
_BUILD = re.compile(r"b?(\d{3,6})\b")
_AUTO = "llama-server's default since November 2025: four slots on one unified pool; one slot before"
_NOT_STATED = "no evidence states it: /props or the start-up log would"
_SLOTS_UNKNOWN = "how many slots there are is not known"
_DOUBT = "the slots share one KV pool, or each has its own: /props does not tell, the start-up log or the flags would"


@dataclass(frozen=True, slots=True)
class Context:
    """`cells` is of one of `streams` parts. `unified`: the slots share one pool; missing where nothing tells."""

    slots: Figure
    each: Figure  # the context of one slot
    unified: Figure
    cells: Figure
    streams: int = 1
    doubt: str = ""


def context_of(joined: Joined) -> Context:
    slots = _slots(joined)
    unified = _unified(joined)
    by_flags = _by_flags(joined, slots, unified)
    each = _each(joined, slots, by_flags)
    cells, streams = _cells(joined, slots, each, unified, by_flags)
    return Context(slots, each, unified, cells, streams, _DOUBT if cells.low is not None else "")


def arguments_seen(joined: Joined) -> bool:
    return any(part.args for part in joined.parts)


def _is_auto(joined: Joined) -> bool:
    asked = joined.args.get("n_parallel")
    return asked is None or asked.count < 0


def _predates_auto(joined: Joined) -> bool:
    """A build that states its number (release builds do; others state 0 or 1)."""
    version = joined.effective.get("version")
    match = _BUILD.match(str(version.value)) if version else None
    return match is not None and int(match[1]) < AUTO_SINCE


def _slots(joined: Joined) -> Figure:
    stated = joined.effective.get("n_slots")
    if stated is not None:
        return stated
    if (sequences := joined.effective.get("n_seq_max")) is not None:
        return derived("n_slots", sequences.count, "requests", (sequences,), "one slot a sequence")
    if not arguments_seen(joined):
        return missing("n_slots", "requests", _reason(joined))
    asked = joined.args.get("n_parallel")
    if asked is not None and asked.count > 0:
        return derived("n_slots", asked.count, "requests", (asked,), "as asked for")
    return default("n_slots", 1 if _predates_auto(joined) else AUTO_SLOTS, "requests", _AUTO)


def _unified(joined: Joined) -> Figure:
    """server.cpp: -np auto turns it on; an explicit -np leaves it off unless -kvu is given too."""
    stated = joined.effective.get("kv_unified")
    if stated is not None:
        return stated
    asked = joined.args.get("kv_unified")
    if asked is not None:
        return derived("kv_unified", asked.value is True, "", (asked,), "as asked for")
    if _predates_auto(joined):
        return derived(
            "kv_unified", False, "", (joined.effective["version"],), "builds before b6900 divide the context"
        )
    if not arguments_seen(joined):
        return missing("kv_unified", "", _NOT_STATED)
    if not _is_auto(joined):
        return derived("kv_unified", False, "", (joined.args["n_parallel"],), "off where -np is given without -kvu")
    return default("kv_unified", True, "", _AUTO)


def _by_flags(joined: Joined, slots: Figure, unified: Figure) -> Cells | None:
    """The cells that the flags ask for. None: they leave the context to the model and to --fit."""
    asked, each = joined.args.get("n_ctx"), joined.args.get("kv_unified_per_slot")
    if not slots.known or not unified.known:
        return None
    if asked is not None and asked.count > 0:
        return cells_of(asked.count, slots.count, unified=unified.value is True)
    if asked is None and each is not None and each.count > 0:
        return cells_of(slots.count * each.count, slots.count, unified=unified.value is True)
    return None


def _inputs(joined: Joined, *figures: Figure) -> tuple[Figure, ...]:
    asked = [joined.args[name] for name in ("n_ctx", "kv_unified_per_slot") if name in joined.args]
    return (*asked, *(figure for figure in figures if figure.known))


def _each(joined: Joined, slots: Figure, by_flags: Cells | None) -> Figure:
    """min(n_ctx_seq, --kv-unified-per-slot, n_ctx_train)."""
    stated = joined.effective.get("n_ctx_slot")
    if stated is not None:
        return stated
    caps = [
        f for f in (joined.args.get("kv_unified_per_slot"), joined.effective.get("n_ctx_train")) if f and f.count > 0
    ]
    sequence = joined.effective.get("n_ctx_seq") or _divided(joined, slots)
    if sequence is not None:
        return derived("n_ctx_slot", min(f.count for f in (sequence, *caps)), "tokens", (sequence, *caps), "the least")
    if by_flags is None:
        return missing("n_ctx_slot", "tokens", _why_unknown(joined))
    count = min([by_flags.each, *(f.count for f in caps)])
    note = f"whole blocks of {PAD}; the model's own training context caps it"
    return derived("n_ctx_slot", count, "tokens", (*_inputs(joined, slots), *caps), note)


def _divided(joined: Joined, slots: Figure) -> Figure | None:
    """Builds that print no context per sequence divide it among the slots (until August 2025)."""
    whole = joined.effective.get("n_ctx")
    if whole is None or not slots.known or "kv_unified" in joined.effective:
        return None
    return derived("n_ctx_seq", whole.count // slots.count, "tokens", (whole, slots), "the context over the slots")


def _why_unknown(joined: Joined) -> str:
    if arguments_seen(joined) and not joined.args.get("n_ctx"):
        return "no -c: the model's training context, unless --fit shrinks it to what memory holds"
    if arguments_seen(joined):
        return "-c 0: the model's training context, which is not part of the evidence"
    return _reason(joined)


def _reason(joined: Joined) -> str:
    return "; ".join(note for part in joined.parts for note in part.notes) or _NOT_STATED


def _cells(joined: Joined, slots: Figure, each: Figure, unified: Figure, by_flags: Cells | None) -> tuple[Figure, int]:
    """(cells of one stream, streams), from the strongest source: the cache's own line, the context, the flags."""
    cells, streams = joined.effective.get("kv_cells"), joined.effective.get("kv_streams")
    whole, sequence = joined.effective.get("n_ctx"), joined.effective.get("n_ctx_seq")
    if cells is not None and streams is not None:
        return cells, streams.count
    shared = unified.value is True
    if whole is not None and (shared or sequence is None or not unified.known):
        return whole, 1
    if sequence is not None and unified.known:
        return sequence, 1 if shared else slots.count if slots.known else 1
    if cells is not None and "kv_seqs" in joined.effective:  # until July 2025 all sequences shared one
        return cells, 1
    if by_flags is not None:
        note = "from the flags: whole blocks of 256"
        return derived("kv_cells", by_flags.each, "tokens", _inputs(joined, slots, unified), note), by_flags.streams
    return _by_slots(joined, slots, each, unified)


def _by_slots(joined: Joined, slots: Figure, each: Figure, unified: Figure) -> tuple[Figure, int]:
    """Nothing but the context of a slot is stated: what that says of the pool."""
    if not each.known:
        return missing("kv_cells", "tokens", each.note), 1
    if not slots.known and unified.value is not True:
        return missing("kv_cells", "tokens", _SLOTS_UNKNOWN), 1
    if slots.value == 1 or unified.value is True:
        note = "every slot may use the whole pool" if unified.value is True else "the context of the only slot"
        return derived("kv_cells", each.count, "tokens", (each, *((unified,) if unified.known else ())), note), 1
    if unified.value is False:
        return derived("kv_cells", each.count, "tokens", (each, unified), "each slot has its own"), slots.count
    held = [f for name in ("processing_cells", "idle_cells") if (f := joined.usage.get(name))]
    least = max(each.count, ceil_to(sum(f.count for f in held), PAD) if held else 0)
    most = each.count * slots.count
    if least >= most:
        return derived("kv_cells", most, "tokens", (each, slots, *held), "the slots hold more than one of them may"), 1
    found = inferred("kv_cells", least, "tokens", (each, slots, *held), _DOUBT)
    return replace(found, low=least, high=most), 1
