"""The pools of an SGLang server, by role, and the ceilings on one request."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from ...capacity.admission import FitsNow, Rule
from ...capacity.demand import Demand
from ...capacity.limits import Ceiling
from ...capacity.pool import Pool
from ...figure import Figure, default, derived, inferred, missing
from ...units import floor_to
from ..join import Joined
from ..server import Role
from ..version import release_of
from .admission import RESERVED_DECODE_TOKENS, DecodeReserve, PrefillPass, TokenRatio
from .deepseek_v4 import is_v4
from .state_slots import slots_per_request

V4_PAGE, V4_WINDOW, V4_WINDOW_RATIO = 256, 128, 0.1  # forced by the engine for DeepSeek-V4 (facts: model hook, 2026)
_UNCAPPED_SINCE = (0, 5, 13)  # PR 26607 was merged at the beginning of June 2026; 0.5.12 is of May, 0.5.13 of mid-June

_COMPRESSED = {"c4": 4, "c128": 128}  # DeepSeek-V4's pools of compressed KV, and tokens a slot

_WAITS = {
    Role.UNIFIED: "waits in the server's queue",
    Role.PREFILL: "waits in the prefill queue",
    Role.DECODE: "waits in the prealloc queue (and in prefill's bootstrap queue); nothing is refused",
    Role.UNKNOWN: "waits in the server's queue",
}
_NO_SLOTS = (
    "slots per request depend on --disable-radix-cache and --mamba-radix-cache-strategy (older:"
    " --mamba-scheduler-strategy), which no evidence states"
)
_RETRACTED = "output is not reserved: when the pool is full, the newest requests are retracted and recomputed"


class Model(NamedTuple):
    """What the pools need to know of the model and the page."""

    page: Figure
    window: Figure
    is_v4: bool


def model_of(joined: Joined) -> Model:
    v4 = is_v4({**joined.args, **joined.effective})
    page = joined.known("page_size") or (
        default("page_size", V4_PAGE, "tokens", "SGLang forces pages of 256 for DeepSeek-V4")
        if v4
        else default(
            "page_size", 1, "tokens", "SGLang's default; some attention backends raise it, and no evidence states it"
        )
    )
    window = (
        default("sliding_window", V4_WINDOW, "tokens", "DeepSeek-V4 models have a window of 128")
        if v4
        else missing(
            "sliding_window", "tokens", "the model's window is in its config, which is not part of the evidence"
        )
    )
    return Model(page, window, v4)


def pools_of(joined: Joined) -> tuple[Pool, ...]:
    model = model_of(joined)
    partitions = int(f.number) if (f := joined.known("dp_size")) and isinstance(f.value, int) else 1
    pools = [_kv(joined, model, partitions), _request_slots(joined, partitions)]
    if (window := _window_size(joined, model)) is not None:
        pools.append(_window(joined, model, window, partitions))
    pools += [
        pool for name, share in _COMPRESSED.items() if (pool := _compressed(joined, model, name, share, partitions))
    ]
    if (states := joined.effective.get("max_mamba_cache_size")) is not None:
        pools.append(_states(joined, states, partitions))
    return tuple(pools)


def _kv(joined: Joined, model: Model, partitions: int) -> Pool:
    page = max(1, model.page.count)
    size = joined.effective.get("max_total_num_tokens") or missing(
        "max_total_num_tokens", "tokens", pool_reason(joined)
    )
    draft = joined.known("speculative_num_draft_tokens")
    rule, inputs = _kv_rule(joined)
    return Pool(
        name="KV pool",
        unit="tokens",
        size=size,
        rule=rule,
        demand=Demand(
            page=page,
            shares=_shares_prefixes(joined),
            draft=draft.count if draft and isinstance(draft.value, int) else 0,
            prompt_only=joined.role is Role.PREFILL,
        ),
        partitions=partitions,
        beyond=_waits(joined),
        overflow="" if joined.role is Role.PREFILL else _RETRACTED,
        lever="--mem-fraction-static",
        inputs=(model.page, *inputs, *((draft,) if draft else ())),
    )


def _kv_rule(joined: Joined) -> tuple[Rule, tuple[Figure, ...]]:
    if joined.role is Role.DECODE:
        reserved = joined.known("num_reserved_decode_tokens") or default(
            "num_reserved_decode_tokens",
            RESERVED_DECODE_TOKENS,
            "tokens",
            "SGLang's default of --num-reserved-decode-tokens",
        )
        return DecodeReserve(reserved.count), (reserved,)
    if joined.role is Role.PREFILL:
        return PrefillPass(), ()
    conservative = joined.known("schedule_conservativeness") or default(
        "schedule_conservativeness", 1.0, "", "SGLang's default"
    )
    live = joined.usage.get("new_token_ratio")
    rule = TokenRatio.of(float(conservative.number), float(live.number) if live else None)
    return rule, (_ratio_range(rule, conservative), *((live,) if live else ()))


def _ratio_range(rule: TokenRatio, conservative: Figure) -> Figure:
    """The share of output that is kept back for running requests: where it starts, and where it falls to."""
    low, high = float(rule.low), float(rule.high)
    note = "starts at 0.7 x conservativeness, falls to 0.14 of that in 600 steps, jumps up at a retraction"
    figure = derived("new_token_ratio_range", high, "", (conservative,), note)
    return replace(figure, low=low, high=high)


def _waits(joined: Joined) -> str:
    queue = joined.known("max_queued_requests")
    if queue and joined.role is not Role.DECODE and joined.role is not Role.PREFILL:
        return f"waits in the server's queue; when {queue.count:,} wait, the next is refused (503)"
    return _WAITS[joined.role]


def _shares_prefixes(joined: Joined) -> bool:
    if joined.role is Role.DECODE:
        return joined.on("disaggregation_decode_enable_radix_cache")
    return not joined.on("disable_radix_cache")


def pool_reason(joined: Joined) -> str:
    reasons = [part.no_pool for part in joined.parts if part.no_pool]
    return "; ".join(reasons) or "no evidence states the pool: server info, the metrics or the start-up log would"


def _request_slots(joined: Joined, partitions: int) -> Pool:
    running = joined.effective.get("max_running_requests") or missing(
        "max_running_requests",
        "requests",
        "no evidence states what is in effect: server info or the start-up log would",
    )
    size = running
    if running.known and joined.role is Role.DECODE and (extra := _extra_slots(joined, running)).count:
        size = derived(
            "request_slots",
            running.count + extra.count,
            "requests",
            (running, extra),
            "decode keeps extra slots for requests in transfer",
        )
    return Pool(
        name="request slots",
        unit="requests",
        size=size,
        rule=FitsNow(),
        demand=Demand(per_token=0, fixed=1),
        partitions=partitions,
        beyond=_waits(joined),
        lever="--max-running-requests",
    )


def _extra_slots(joined: Joined, running: Figure) -> Figure:
    asked = joined.known("disaggregation_decode_extra_slots")
    if asked is not None and isinstance(asked.value, int):
        return asked
    extra = 2 * running.count if running.count <= 32 else 0
    return default(
        "disaggregation_decode_extra_slots",
        extra,
        "requests",
        "SGLang's default: twice the running requests up to 32 of them, else none",
    )


def _window_size(joined: Joined, model: Model) -> Figure | None:
    """The sliding-window pool: as stated, else (DeepSeek-V4) by the ratio that builds before its cap mode use."""
    stated = joined.effective.get("swa_max_total_num_tokens")
    pool = joined.effective.get("max_total_num_tokens")
    if stated is not None or not model.is_v4 or pool is None:
        return stated
    ratio = joined.known("swa_full_tokens_ratio") or default(
        "swa_full_tokens_ratio", V4_WINDOW_RATIO, "", "SGLang's setting for DeepSeek-V4"
    )
    size = floor_to(int(pool.number * float(ratio.number)), model.page.count)
    return inferred(
        "swa_max_total_num_tokens",
        size,
        "tokens",
        (pool, ratio, model.page),
        "ratio x pool in whole pages, as builds before September 2026 size it; not stated by the evidence",
    )


def _window(joined: Joined, model: Model, size: Figure, partitions: int) -> Pool:
    """Each request keeps at most window + page - 1 slots of it (facts: decode side, rule 6)."""
    page = max(1, model.page.count)
    demand = Demand(page=page, window=model.window.count + page - 1) if model.window.known else None
    return Pool(
        name="window pool",
        unit="tokens",
        size=size,
        rule=FitsNow(),
        demand=demand,
        partitions=partitions,
        beyond=_waits(joined),
        lever="--swa-full-tokens-ratio",
        inputs=(model.page, model.window),
        unknown=model.window.note if demand is None else "",
    )


def _compressed(joined: Joined, model: Model, name: str, share: int, partitions: int) -> Pool | None:
    """DeepSeek-V4's compressed KV: one slot for every `share` tokens, in pages of as many tokens as the full pool's."""
    size = joined.effective.get(f"{name}_tokens")
    if size is None or not size.number:
        return None
    return Pool(
        name=f"{name} pool",
        unit="slots",
        size=size,
        rule=FitsNow(),
        demand=Demand(per_token=Fraction(1, share), page=max(1, model.page.count // share)),
        partitions=partitions,
        beyond=_waits(joined),
        lever="--mem-fraction-static",
        inputs=(model.page,),
    )


def _states(joined: Joined, size: Figure, partitions: int) -> Pool:
    slots, inputs = slots_per_request(joined)
    return Pool(
        name="state slots",
        unit="slots",
        size=size,
        rule=FitsNow(),
        demand=Demand(per_token=0, fixed=slots) if slots else None,
        partitions=partitions,
        beyond=_waits(joined),
        lever="--max-mamba-cache-size or --mamba-full-memory-ratio",
        inputs=inputs,
        unknown="" if slots else _NO_SLOTS,
    )


def ceilings_of(joined: Joined) -> tuple[Ceiling, ...]:
    refused = "refused with 400"
    context = joined.effective.get("context_len") or _asked_context(joined)
    pool = joined.effective.get("max_total_num_tokens") or missing(
        "max_total_num_tokens", "tokens", pool_reason(joined)
    )
    found = [Ceiling("context length", context, refused), Ceiling("KV pool", pool, refused)]
    if (limit := joined.effective.get("max_req_input_len")) is not None:
        found.append(Ceiling("input limit of the server", _below(limit), refused))
    if joined.role is Role.PREFILL and (cap := _window_cap(joined)) is not None:
        found.append(cap)
    return tuple(found)


def _below(limit: Figure) -> Figure:
    """The engine turns away a prompt that is as long as the limit (managers/utils.py, validate_input_length)."""
    return derived(
        "longest_prompt", limit.count - 1, "tokens", (limit,), "a prompt must be shorter than max_req_input_len"
    )


def _asked_context(joined: Joined) -> Figure:
    asked = joined.args.get("context_length")
    if asked is not None and isinstance(asked.value, int):
        return derived(
            "context_len", asked.value, "tokens", (asked,), "as asked for; no evidence states what is in effect"
        )
    return missing(
        "context_len",
        "tokens",
        "no evidence states the context length: the metrics, /v1/models or the start-up log would",
    )


def _window_cap(joined: Joined) -> Ceiling | None:
    """Prefill servers of hybrid window models take no prompt longer than the window pool; DeepSeek-V4 was freed of it
    by PR 26607.
    """
    model = model_of(joined)
    size = _window_size(joined, model)
    if size is None:
        return None
    capped = window_capped(joined) if model.is_v4 else True
    if capped is False:
        return None
    what = "window pool of the prefill role"
    return Ceiling(what, size, "refused with 400", certain=capped is True)


def window_capped(joined: Joined) -> bool | None:
    """Does this build cap a DeepSeek-V4 prompt at the window pool? None: the version does not tell."""
    release = release_of(joined.effective.get("version"))
    return None if release is None else release < _UNCAPPED_SINCE
