"""What was asked for beside what is in effect, and what a client gets that names no output length."""

from __future__ import annotations

from ...figure import Figure, default, derived, missing
from ..join import Joined
from ..server import Setting
from .context import Context, arguments_seen
from .pools import total_cells

_DEFAULTS: dict[str, tuple[int | str, str]] = {
    "n_batch": (2048, "tokens"),
    "n_ubatch": (512, "tokens"),
    "cache_type_k": ("f16", ""),
    "cache_type_v": ("f16", ""),
}
# label, argument, what it means when nothing was asked
_ROWS = (
    ("context of all slots", "n_ctx", "the model's own, or what --fit leaves"),
    ("slots", "n_parallel", "auto"),
    ("one pool for all slots", "kv_unified", "on where -np is auto"),
    ("context of a slot", "kv_unified_per_slot", "a share of the context, or all of it"),
    ("keys in the cache", "cache_type_k", "f16"),
    ("values in the cache", "cache_type_v", "f16"),
    ("batch", "n_batch", "2,048"),
    ("physical batch", "n_ubatch", "512"),
    ("saved prompts, MiB host", "cache_ram_mib", "8,192 since October 2025"),
    ("checkpoints a slot", "ctx_checkpoints", "by version"),
)
_UNBOUNDED = "n_predict -1: a request that names no limit runs to its end token or to the end of its slot's context"


def settings_of(joined: Joined, context: Context, host: dict[str, Figure]) -> tuple[Setting, ...]:
    effective = {
        "n_ctx": total_cells(context).renamed("n_ctx"),
        "n_parallel": context.slots,
        "kv_unified": context.unified,
        "kv_unified_per_slot": context.each,
        **{name: _effective(joined, name) for name in _DEFAULTS},
        **host,
    }
    return tuple(_setting(joined, context, label, name, unset, effective[name]) for label, name, unset in _ROWS)


def _setting(joined: Joined, context: Context, label: str, name: str, unset: str, effective: Figure) -> Setting:
    asked = joined.args.get(name) or _not_asked(joined, name, unset, effective.unit)
    return Setting(label, asked, effective, _why(context, name, asked, effective))


def _not_asked(joined: Joined, name: str, unset: str, unit: str) -> Figure:
    reason = f"not set: {unset}" if arguments_seen(joined) else "the arguments are not part of the evidence"
    return missing(f"requested_{name}", unit, reason)


def _effective(joined: Joined, name: str) -> Figure:
    stated = joined.effective.get(name)
    if stated is not None:
        return stated
    value, unit = _DEFAULTS[name]
    if (asked := joined.args.get(name)) is not None and asked.value is not None:
        return derived(name, asked.value, unit, (asked,), "as asked for")
    return (
        default(name, value, unit, "llama-server's default")
        if arguments_seen(joined)
        else missing(name, unit, "no evidence states what is in effect")
    )


def _why(context: Context, name: str, asked: Figure, effective: Figure) -> str:
    if not (asked.known and effective.known) or asked.value == effective.value:
        return ""
    if name == "n_ctx":
        return "each slot's share is rounded up to 256" if context.streams > 1 else "rounded up to 256"
    if name == "n_parallel":
        return "auto: -1 asks for four slots" if asked.count < 0 else "the evidence does not say why"
    return "the pool or the model's training context holds less" if name == "kv_unified_per_slot" else ""


def default_output(joined: Joined) -> Figure:
    """Tokens that a request may generate when its client names no limit: a number, or "unbounded"."""
    stated = joined.effective.get("n_predict") or joined.args.get("n_predict")
    if joined.on("embedding") or joined.on("reranking"):
        return missing("default_output_tokens", "tokens", "it generates nothing: it embeds or ranks")
    if stated is None:
        return default("default_output_tokens", "unbounded", "", _UNBOUNDED)
    if stated.count >= 0:
        return derived("default_output_tokens", stated.count, "tokens", (stated,), "n_predict (-n)")
    return derived("default_output_tokens", "unbounded", "", (stated,), _UNBOUNDED)
