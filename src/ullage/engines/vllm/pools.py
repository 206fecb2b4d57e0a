"""The pools of a vLLM server, and the ceilings on one request."""

from __future__ import annotations

from fractions import Fraction

from ...capacity.admission import FitsNow
from ...capacity.demand import Demand, Together
from ...capacity.limits import Ceiling
from ...capacity.pool import Pool
from ...figure import Figure, default, derived, inferred, missing
from ..join import Joined
from ..server import Role
from ..version import release_of
from .admission import PromptFits
from .families import Family, Layers, family_of
from .groups import V4_BLOCK
from .layout import Decision, Stated, decide
from .size import longest

PAGE = 16  # vLLM's default block, in tokens
_FULL_PROMPT = (0, 19, 0)  # since then the whole prompt must fit at the door
_ROUNDED = 0.0051  # the log rounds the concurrency to two decimals
_V0_WATERMARK = 0.01  # SelfAttnBlockSpaceManager of V0
_WAITS = "waits in the server's queue, behind the request at its head"
_PREEMPTED = "output is not reserved: when no block is free, the newest request is preempted and recomputed"
_HELD = "waits; blocks of a finished prompt stay allocated until decode has read them or the lease ends"


def engines_of(joined: Joined) -> int:
    """Data-parallel engines, each with a pool of its own."""
    return joined.whole("data_parallel_size") or 1


def stated_of(joined: Joined) -> Stated:
    """What the evidence states of one engine's pool, as the layout is decided by it."""
    concurrency, printed = joined.effective.get("kv_cache_max_concurrency"), joined.whole("kv_cache_size_tokens")
    hybrid = joined.effective.get("hybrid_block_size")
    states = any(n in joined.effective for n in ("mamba_block_size", "mamba_page_size_padded", "hybrid_block_size"))
    return Stated(
        length=joined.whole("max_model_len"),
        block=block_of(joined).count,
        blocks=joined.whole("num_gpu_blocks"),
        concurrency=float(concurrency.number) if concurrency else None,
        rounded=concurrency is not None and concurrency.source is not None and "line" in concurrency.source.place,
        printed=printed,
        batched=joined.whole("max_num_batched_tokens"),
        release=release_of(joined.effective.get("version")),
        family=model_family(joined),
        enlarged_block=states or hybrid is not None,
        parallel=context_parallel(joined),
        shares=caches_prefixes(joined),
        draft=joined.whole("num_speculative_tokens") or 0,
    )


def block_of(joined: Joined) -> Figure:
    """Tokens of a block of the attention layers. DeepSeek-V4's page states the least of its groups' (issue 51163)."""
    family = model_family(joined)
    if family is not None and family.layers is Layers.DEEPSEEK_V4:
        return default("block_size", V4_BLOCK, "tokens", "vLLM's main block for DeepSeek-V4")
    names = ("effective_attention_block_size", "hybrid_block_size", "block_size")
    stated = next((f for n in names if (f := joined.effective.get(n)) and type(f.value) is int), None)
    asked = joined.args.get("block_size")
    if stated is not None:
        return stated.renamed("block_size")
    if asked is not None and isinstance(asked.value, int):
        return asked
    return default("block_size", PAGE, "tokens", "vLLM's default; some backends raise it, and no evidence states it")


def model_family(joined: Joined) -> Family | None:
    names = ("architecture", "model", "served_model_name")
    if joined.on("disable_hybrid_kv_cache_manager") or "hybrid_manager_off" in joined.effective:
        return Family(Layers.PLAIN)  # windows are then kept like full attention
    return family_of(*(str(f.value) for n in names if (f := joined.known(n))))


def context_parallel(joined: Joined) -> int:
    sizes = [joined.whole(f"{kind}_context_parallel_size") or 1 for kind in ("decode", "prefill")]
    return joined.whole("cp_world_size") or sizes[0] * sizes[1]


def caches_prefixes(joined: Joined) -> bool:
    """On by default in V1, where the evidence does not say that it is off."""
    asked = joined.known("enable_prefix_caching")
    return asked is None or asked.value is not False


def pools_of(joined: Joined, decision: Decision) -> tuple[Pool, Pool]:
    """The blocks, and the slots of requests."""
    return (_blocks(joined, decision), _request_slots(joined))


def kv_blocks(joined: Joined, decision: Decision) -> Figure:
    """Blocks that requests can be given: the pool less the null block (V0 has none)."""
    total = pool_blocks(joined, decision)
    if not total.known:
        return total
    reserved = 0 if is_v0(joined) else 1
    note = "one block is the null block, which is never given out" if reserved else "V0 gives out all of them"
    return derived("kv_blocks", total.count - reserved, "blocks", (total,), note)


def pool_blocks(joined: Joined, decision: Decision) -> Figure:
    """Blocks of one engine's pool: as stated, else from the printed tokens."""
    stated = joined.effective.get("num_gpu_blocks")
    if stated is not None:
        return stated
    printed, block = joined.effective.get("kv_cache_size_tokens"), block_of(joined)
    if decision.blocks is None or printed is None:
        return missing("num_gpu_blocks", "blocks", pool_reason(joined))
    inputs = tuple(f for f in (printed, joined.effective.get("kv_cache_max_concurrency"), block) if f)
    make = derived if decision.proven else inferred
    return make("num_gpu_blocks", decision.blocks, "blocks", inputs, f"from the printed tokens: {decision.why}")


def is_v0(joined: Joined) -> bool:
    generation = joined.effective.get("engine_generation")
    release = release_of(joined.effective.get("version"))
    return (generation is not None and generation.value == 0) or (release is not None and release < (0, 7, 0))


def _blocks(joined: Joined, decision: Decision) -> Pool:
    if decision.layout is None and decision.blocks is None and (tokens := full_length_tokens(joined)) is not None:
        return _in_full_lengths(joined, tokens)
    size, asked, held = kv_blocks(joined, decision), _asked(decision, joined), _held(decision, joined)
    rule = PromptFits(held, _watermark(joined, size), *_chunk(joined)) if held else FitsNow()
    return Pool(
        name="KV pool",
        unit="blocks",
        size=size,
        rule=rule,
        demand=asked,
        partitions=engines_of(joined),
        beyond=_HELD if joined.role is Role.PREFILL else _beyond(joined),
        overflow="" if joined.role is Role.PREFILL else _PREEMPTED,
        lever="--gpu-memory-utilization or --kv-cache-memory-bytes",
        inputs=(block_of(joined), *_layout_figure(joined, decision)),
        unknown="" if asked else decision.why,
    )


def _asked(decision: Decision, joined: Joined) -> Together | None:
    """What a request asks for; where the groups are not known, as much as a full-length one whatever its length."""
    if decision.layout is not None:
        return _of_role(decision.layout.asked, joined)
    if decision.request_blocks is None:
        return None
    return Together((Demand(per_token=0, fixed=decision.request_blocks),))


def _held(decision: Decision, joined: Joined) -> Together | None:
    """What a request holds at least: the blocks of its tokens in one group."""
    if decision.layout is not None:
        return _of_role(decision.layout.held, joined)
    block = block_of(joined).count * context_parallel(joined)
    return Together((Demand(per_token=Fraction(1, block)),)) if decision.request_blocks else None


def _of_role(groups: Together, joined: Joined) -> Together:
    """A prefill server generates nothing."""
    if joined.role is not Role.PREFILL:
        return groups
    return Together(
        tuple(
            Demand(g.per_token, g.fixed, g.page, g.window, g.shares, g.draft, prompt_only=True) for g in groups.groups
        )
    )


def _layout_figure(joined: Joined, decision: Decision) -> tuple[Figure, ...]:
    """Blocks of one full-length request: what tells the groups."""
    if decision.request_blocks is None:
        return ()
    names = ("num_gpu_blocks", "kv_cache_max_concurrency", "kv_cache_size_tokens", "max_model_len")
    inputs = tuple(f for n in names if (f := joined.effective.get(n)))
    make = derived if decision.proven else inferred
    return (make("blocks_per_full_request", decision.request_blocks, "blocks", inputs, decision.why),) if inputs else ()


def full_length_tokens(joined: Joined) -> Figure | None:
    """Tokens of as many full-length requests as the engine states; not what shorter requests may hold."""
    printed, length = joined.effective.get("kv_cache_size_tokens"), joined.effective.get("max_model_len")
    concurrency = joined.effective.get("kv_cache_max_concurrency")
    if concurrency is None or length is None:
        return None
    tokens = int(concurrency.number * length.number)
    if printed is not None and abs(printed.number - tokens) <= _ROUNDED * length.number:
        tokens = printed.count
    inputs = tuple(f for f in (concurrency, length, printed) if f)
    return derived("full_length_tokens", tokens, "tokens", inputs, "concurrency x max_model_len")


def _in_full_lengths(joined: Joined, tokens: Figure) -> Pool:
    """The groups are not known: a request takes between its own length and a full one of what is stated."""
    length = joined.effective["max_model_len"]
    return Pool(
        name="KV pool",
        unit="tokens",
        size=tokens,
        rule=PromptFits(Together((Demand(),))),
        demand=Together((Demand(per_token=0, fixed=length.count),)),
        partitions=engines_of(joined),
        beyond=_HELD if joined.role is Role.PREFILL else _beyond(joined),
        overflow="" if joined.role is Role.PREFILL else _PREEMPTED,
        lever="--gpu-memory-utilization or --kv-cache-memory-bytes",
        inputs=(length,),
    )


def _watermark(joined: Joined, size: Figure) -> int:
    """Blocks that stay free at the door. V0 keeps 1 %; V1 has a flag since 0.26, 0 by default."""
    share = joined.known("watermark")
    if not size.known:
        return 0
    kept = float(share.number) if share else _V0_WATERMARK if is_v0(joined) else 0.0
    return int(kept * size.number)


def _chunk(joined: Joined) -> tuple[int | None, bool]:
    """(tokens of the first chunk, where only that must fit; whether that depends on a version that is not known)."""
    asked = joined.known("scheduler_reserve_full_isl")
    release, budget = release_of(joined.effective.get("version")), joined.whole("max_num_batched_tokens")
    if asked is not None:
        return (None, False) if asked.value is True else (budget, False)
    if is_v0(joined) or budget is None or (release is not None and release >= _FULL_PROMPT):
        return None, False
    return budget, release is None


def _beyond(joined: Joined) -> str:
    limit = joined.whole("max_num_queued_reqs")
    return f"{_WAITS}; when {limit:,} wait, the next is refused (503)" if limit else _WAITS


def _request_slots(joined: Joined) -> Pool:
    return Pool(
        name="request slots",
        unit="requests",
        size=joined.effective.get("max_num_seqs") or asked_slots(joined),
        rule=FitsNow(),
        demand=Demand(per_token=0, fixed=1),
        partitions=engines_of(joined),
        beyond=_beyond(joined),
        lever="--max-num-seqs",
    )


def asked_slots(joined: Joined) -> Figure:
    """--max-num-seqs is in effect as it was asked for; by default it goes with the token budget."""
    asked = joined.args.get("max_num_seqs")
    if asked is not None and isinstance(asked.value, int):
        return asked
    shown = any(part.topic in ("flags", "log") and part.args for part in joined.parts)
    budget = joined.whole("max_num_batched_tokens")
    usual = {16384: 1024, 8192: 1024, 2048: 256}.get(budget or 0)
    if shown and usual and "max_num_batched_tokens" not in joined.args and not is_v0(joined):
        figure = joined.effective["max_num_batched_tokens"]
        note = "not asked for; vLLM's default beside this token budget, which is by GPU memory"
        return inferred("max_num_seqs", usual, "requests", (figure,), note)
    if shown and is_v0(joined):
        return default("max_num_seqs", 256, "requests", "vLLM's default in V0")
    if shown:
        return missing("max_num_seqs", "requests", "--max-num-seqs is not set, and vLLM's default goes by the device")
    why = "no endpoint states it; --flags with the server's command line would tell it"
    return missing("max_num_seqs", "requests", why)


def pool_reason(joined: Joined) -> str:
    reasons = [part.no_pool for part in joined.parts if part.no_pool]
    return "; ".join(reasons) or "no evidence states the pool: the metrics page or the start-up log would"


def ceilings_of(joined: Joined, decision: Decision) -> tuple[Ceiling, ...]:
    context = joined.effective.get("max_model_len") or _asked_length(joined)
    found = [Ceiling("context length", context, "refused with 400")]
    chunked, budget = joined.known("enable_chunked_prefill"), joined.effective.get("max_num_batched_tokens")
    if chunked is not None and chunked.value is False and budget is not None:
        found.append(Ceiling("token budget of a step, for prefill is not chunked", budget, "refused"))
    reach = longest_that_fits(joined, decision)
    if reach is not None:
        found.append(
            Ceiling(
                "KV pool",
                reach,
                "never finishes: it waits for blocks that are not there, or is preempted again and again",
            )
        )
    return tuple(found)


def longest_that_fits(joined: Joined, decision: Decision) -> Figure | None:
    """Tokens of the longest request that the pool holds, where it is less than the context."""
    size, layout, length = kv_blocks(joined, decision), decision.layout, joined.whole("max_model_len")
    if layout is None or not size.known or length is None or layout.blocks(length) <= size.count:
        return None
    tokens = longest(layout.blocks, size.count, length)
    note = f"the most tokens that take no more than {size.count:,} blocks"
    return derived("longest_request_of_pool", tokens, "tokens", (size, block_of(joined)), note)


def _asked_length(joined: Joined) -> Figure:
    asked = joined.args.get("max_model_len")
    if asked is not None and isinstance(asked.value, int):
        note = "as asked for; no evidence states what is in effect"
        return derived("max_model_len", asked.value, "tokens", (asked,), note)
    why = "no evidence states it: /v1/models or the start-up log would"
    return missing("max_model_len", "tokens", why)


def decision_of(joined: Joined) -> Decision:
    return decide(stated_of(joined))
