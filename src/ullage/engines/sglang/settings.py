"""What was asked for beside what is in effect, and why they differ; what a client gets that names no output length."""

from __future__ import annotations

import json

from ...figure import Figure, default, derived, missing
from ..facts import Facts
from ..join import Joined
from ..server import Setting

# label, argument, quantity in effect, unit, what it means when nothing was asked
_ROWS = (
    ("context per request", "context_length", "context_len", "tokens", "the model's own"),
    ("KV pool", "max_total_tokens", "max_total_num_tokens", "tokens", "by memory"),
    ("running requests", "max_running_requests", "max_running_requests", "requests", "by the engine"),
    ("chunked prefill", "chunked_prefill_size", "chunked_prefill_size", "tokens", "by GPU memory"),
    ("prefill budget a pass", "max_prefill_tokens", "max_prefill_tokens", "tokens", "16,384"),
    ("queued requests", "max_queued_requests", "max_queued_requests", "requests", "no limit"),
    ("memory fraction", "mem_fraction_static", "mem_fraction_static", "", "by the engine"),
)
PER_RANK = "shared out over the data-parallel ranks"
_UNBOUNDED = (
    "a chat completion that names no max_tokens runs to its end token or the end of the context; "
    "engine defaults: 16 on /v1/completions, 128 on /generate"
)
_NO_ARGUMENTS = "the arguments are not part of the evidence"
_CUT_ARGUMENTS = "the arguments are not whole in the evidence, and it is not among those that are shown"


def settings_of(joined: Joined) -> tuple[Setting, ...]:
    return tuple(_setting(joined, *row) for row in _ROWS)


def _setting(joined: Joined, label: str, argument: str, quantity: str, unit: str, unset: str) -> Setting:
    asked = joined.asked_for.get(argument) or _not_asked(joined, argument, unit, unset)
    effective = joined.effective.get(quantity) or _unstated(joined, quantity, unit)
    if quantity in ("max_running_requests", "chunked_prefill_size"):
        whole = _over_ranks(joined, effective)  # some versions share the chunk out as well
        effective = whole if quantity == "max_running_requests" or whole.value == asked.value else effective
    return Setting(label, asked, effective, _why(joined, quantity, asked, effective))


def _unstated(joined: Joined, quantity: str, unit: str) -> Figure:
    seen = any(part.topic in ("server_info", "log") and _shows_arguments(part) for part in joined.parts)
    if quantity == "max_queued_requests" and seen:
        return default(
            quantity, "no limit", "", "SGLang's default; prefill and decode servers ignore the argument in any case"
        )
    return missing(quantity, unit, "no evidence states what is in effect")


def _not_asked(joined: Joined, argument: str, unit: str, unset: str) -> Figure:
    reason = f"not set: {unset}" if arguments_seen(joined) else _why_unseen(joined)
    return missing(f"requested_{argument}", unit, reason)


def arguments_seen(joined: Joined) -> bool:
    """Were all of them? Only then is one that is missing known not to be set."""
    return any(part.topic in ("server_info", "log", "flags") and _shows_arguments(part) for part in joined.parts)


def _shows_arguments(part: Facts) -> bool:
    return bool(part.args) and "arguments_cut" not in part.effective


def _why_unseen(joined: Joined) -> str:
    return _CUT_ARGUMENTS if "arguments_cut" in joined.effective else _NO_ARGUMENTS


def _over_ranks(joined: Joined, effective: Figure) -> Figure:
    """What one data-parallel rank is given, over all of them."""
    ranks = joined.known("dp_size")
    if not effective.known or ranks is None or not isinstance(ranks.value, int) or ranks.value < 2:
        return effective
    note = f"{effective.count:,} on each of {ranks.value} ranks"
    return derived(effective.name, effective.count * ranks.value, effective.unit, (effective, ranks), note)


def _why(joined: Joined, quantity: str, asked: Figure, effective: Figure) -> str:
    if not (asked.known and effective.known) or asked.value == effective.value:
        return ""
    if quantity == "max_running_requests":
        return _why_fewer(joined)
    ranks = joined.known("dp_size")
    if quantity == "chunked_prefill_size" and ranks and asked.number == effective.number * ranks.number:
        return PER_RANK
    if quantity == "max_total_num_tokens":
        page = joined.known("page_size")
        rounded = asked.number - effective.number < (page.count if page else 1)
        return "rounded to whole pages" if rounded else "the argument only caps the pool; memory holds less"
    return ""


def _why_fewer(joined: Joined) -> str:
    """What the evidence shows: a line that says so, or the engine's limit of half the pool's tokens met exactly."""
    running, pool = joined.effective["max_running_requests"], joined.effective.get("max_total_num_tokens")
    if "mamba_capped_max_running" in joined.effective:
        return "capped by the recurrent-state slots, as the log says"
    if pool and running.count == pool.count // 2:
        return f"half the pool's tokens ({running.count:,}) is the engine's limit"
    if "max_mamba_cache_size" in joined.effective:
        return "the model has recurrent states, whose slots cap it"
    return "the evidence does not say why"


def default_output(joined: Joined) -> Figure:
    """Tokens that a request may generate when its client names no limit: a number, or "unbounded". Missing where
    nothing shows the arguments.
    """
    preferred = joined.args.get("preferred_sampling_params")
    if preferred is not None and (named := _max_new_tokens(preferred)) is not None:
        return derived(
            "default_output_tokens", named, "tokens", (preferred,), "max_new_tokens of --preferred-sampling-params"
        )
    if not arguments_seen(joined):
        why = f"{_why_unseen(joined)}; unbounded, unless --preferred-sampling-params bounds it"
        return missing("default_output_tokens", "tokens", why)
    return default("default_output_tokens", "unbounded", "", _UNBOUNDED)


def _max_new_tokens(preferred: Figure) -> int | None:
    try:
        value = json.loads(str(preferred.value).replace("'", '"')).get("max_new_tokens")
    except (ValueError, AttributeError):
        return None
    return value if isinstance(value, int) else None
