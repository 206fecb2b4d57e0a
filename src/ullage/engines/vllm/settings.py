"""What was asked for beside what is in effect, and what a client gets that names no output length."""

from __future__ import annotations

from ...figure import Figure, default, derived, missing
from ..join import Joined
from ..server import Setting
from ..version import Release, release_of
from .layout import Decision
from .pools import asked_slots, block_of, pool_blocks

# label, argument and quantity in effect, unit, what it means when nothing was asked
_ROWS = (
    ("context per request", "max_model_len", "tokens", "the model's own"),
    ("running requests", "max_num_seqs", "requests", "by GPU memory"),
    ("token budget a step", "max_num_batched_tokens", "tokens", "by GPU memory"),
    ("block", "block_size", "tokens", "16, or by the backend"),
    ("blocks of the pool", "num_gpu_blocks", "blocks", "by memory"),
    ("queued requests", "max_num_queued_reqs", "requests", "no limit"),
    ("share of GPU memory", "gpu_memory_utilization", "", "0.9; 0.92 since 0.20"),
)
_ASKED_AS = {"num_gpu_blocks": "num_gpu_blocks_override"}
_MORE_MEMORY: Release = (0, 20, 0)  # since then the default share is 0.92
# vLLM takes these as they are, or ends (arg_utils.py sets a token budget only where none is asked for)
_AS_ASKED = {
    "max_num_queued_reqs": "as asked for",
    "max_model_len": "as asked for",
    "max_num_batched_tokens": "as asked for; only MLA models on a CPU or an XPU get more (their context)",
}
_UNBOUNDED = (
    "a chat completion that names no max_tokens runs to its end token or the end of the context; "
    "engine default: 16 on /v1/completions"
)
_PERHAPS_UNBOUNDED = (
    "the arguments are not part of the evidence; unbounded, unless --override-generation-config or the model's"
    " generation_config.json bounds it"
)

_GENERATES = ("generate", "transcription", "realtime")  # tasks with an output (tasks.py); all others pool


def settings_of(joined: Joined, decision: Decision) -> tuple[Setting, ...]:
    return tuple(_setting(joined, decision, *row) for row in _ROWS)


def _setting(joined: Joined, decision: Decision, label: str, name: str, unit: str, unset: str) -> Setting:
    argument = _ASKED_AS.get(name, name)
    asked = joined.args.get(argument) or _not_asked(joined, argument, unit, unset)
    effective = joined.effective.get(name) or _assumed(joined, decision, name, unit)
    return Setting(label, asked, effective, _why(joined, name, asked, effective))


def _not_asked(joined: Joined, argument: str, unit: str, unset: str) -> Figure:
    if _arguments_seen(joined):
        return missing(argument, unit, f"not set: {unset}")
    return missing(argument, unit, "the server's arguments are not part of the evidence")


def _arguments_seen(joined: Joined) -> bool:
    return any(part.topic in ("flags", "log") and part.args for part in joined.parts)


def _assumed(joined: Joined, decision: Decision, name: str, unit: str) -> Figure:
    """What follows from the other figures, or is the engine's default where the arguments do not set it."""
    if name == "num_gpu_blocks":
        return pool_blocks(joined, decision)
    if name == "block_size":
        return block_of(joined)
    if name == "gpu_memory_utilization":
        return _share_of_memory(joined)
    if name == "max_num_seqs":
        slots = asked_slots(joined)
        return derived(name, slots.count, unit, (slots,), "as asked for") if name in joined.args else slots
    if name in _AS_ASKED and name in joined.args:
        asked = joined.args[name]
        return derived(name, asked.count, unit, (asked,), _AS_ASKED[name])
    return missing(name, unit, "no evidence states what is in effect")


def _share_of_memory(joined: Joined) -> Figure:
    name, release = "gpu_memory_utilization", release_of(joined.effective.get("version"))
    if name in joined.args:
        asked = joined.args[name]
        return derived(name, asked.number, "", (asked,), "as asked for")
    if release is None or not _arguments_seen(joined):
        return missing(name, "", "no evidence states what is in effect")
    return default(name, 0.92 if release >= _MORE_MEMORY else 0.9, "", "vLLM's default in this version")


def _why(joined: Joined, name: str, asked: Figure, effective: Figure) -> str:
    if not (asked.known and effective.known) or asked.value == effective.value:
        return ""
    if name == "max_model_len" and "requested_max_model_len" in joined.effective:
        return "reduced to what fits, as the log says"
    if name == "block_size":
        return "enlarged to hold a recurrent state" if "hybrid_block_size" in joined.effective else "by the backend"
    return "the evidence does not say why"


def default_output(joined: Joined) -> Figure:
    """Tokens that a request may generate when its client names no limit: a number, or "unbounded"."""
    tasks = joined.effective.get("supported_tasks")
    if tasks is not None and not any(word in str(tasks.value) for word in _GENERATES):
        return missing("default_output_tokens", "tokens", f"it generates nothing: its tasks are {tasks.value}")
    bound = joined.args.get("default_max_new_tokens")
    if bound is not None:
        note = "max_new_tokens of --override-generation-config"
        return derived("default_output_tokens", bound.count, "tokens", (bound,), note)
    if not any(part.topic in ("flags", "log", "server_info") and part.args for part in joined.parts):
        return missing("default_output_tokens", "tokens", _PERHAPS_UNBOUNDED)
    return default("default_output_tokens", "unbounded", "", f"{_UNBOUNDED}, unless the model's own config bounds it")
