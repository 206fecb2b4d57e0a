"""Findings about vLLM's pool of blocks: what its printed size is not, and what a request takes beside its tokens."""

from __future__ import annotations

from collections.abc import Iterator

from ..capacity.demand import Demand, Together
from ..capacity.limits import Limits, limits
from ..capacity.pool import Pool
from ..capacity.request import Shape
from ..deployment import Deployment
from ..engines.server import Role, Server
from ..figure import Figure, derived
from ..units import floor_to
from .base import Hit, Severity, rule

_USUAL_TOKENS = 4096
_FAR = 0.2  # so far the printed tokens may be from what requests hold before it misleads
_MOST = 2 / 3
_CLOSE_TO_ONE = 1.02  # a concurrency that may be less than one request, where the groups are not known
_ENOUGH = 20  # requests whose mean says something
_LARGE_BLOCK = 256


def printed_as_enough(server: Server) -> bool:
    """Does the engine state that at least one full-length request fits?"""
    stated = server.figure("kv_cache_max_concurrency")
    return stated.known and stated.number >= 1


def windows_at_the_door(server: Server) -> bool:
    return any(group.window is not None for group in _groups(server.pool("KV pool")))


def _groups(pool: Pool | None) -> tuple[Demand, ...]:
    return pool.demand.groups if pool is not None and isinstance(pool.demand, Together) else ()


def _known(server: Server, *names: str) -> tuple[Figure, ...]:
    return tuple(figure for name in names if (figure := server.figure(name)).known)


@rule("printed-tokens-no-capacity", Severity.WARNING, "The printed size of the KV cache is not its capacity")
def printed_tokens(deployment: Deployment) -> Iterator[Hit]:
    """vLLM prints "GPU KV cache size: N tokens", and for models with several groups of layers (windows, recurrent
    states, DeepSeek-V4) N is not what requests can hold.

    Before 0.20.2 it is the pool divided evenly among the groups, which is far too low; since then it is the concurrency
    times `--max-model-len`, which changes with that flag although the memory does not, and is more than short requests
    hold together. (vllm-project/vllm issues 40691, 51041, 54662.) Plan with requests at lengths instead.
    """
    for server in deployment.workers:
        meaning, printed = server.figure("kv_cache_size_meaning"), server.figure("kv_cache_size_tokens")
        kv = server.pool("KV pool")
        if not meaning.known or kv is None or not kv.counted:
            continue
        held = [(length, limits([kv], (), Shape(length))) for length in _lengths(server)]
        exact = server.figure("fixed_blocks_per_request").known
        told = " and ".join(_of_length(found, length, exact) for length, found in held)
        yield Hit(
            server.name,
            f"the engine prints {printed.count:,} tokens, which is {meaning.value}: {meaning.note}. The pool holds"
            f" {told}",
            (printed, meaning, kv.size, *(found.safe for _, found in held)),
            "plan with requests at lengths, not with tokens: ullage limits --at LENGTH",
            Severity.INFO if exact and all(_is_near(printed, kv, *pair) for pair in held) else None,
        )


def _of_length(found: Limits, length: int, exact: bool) -> str:
    """`33 requests of 32,768 tokens`, or from what to what where the groups are not known."""
    least, most = found.safe.count, int(found.admits.most)
    count = f"{least:,}" if exact or least == most else f"{least:,} to {most:,} (the groups are not known)"
    return f"{count} requests of {length:,} tokens"


def _is_near(printed: Figure, kv: Pool, length: int, found: Limits) -> bool:
    return abs(found.safe.count * length / kv.partitions / printed.number - 1) <= _FAR


def _lengths(server: Server) -> list[int]:
    """The usual length and the full context, the longer last."""
    context = next((c.tokens.count for c in server.ceilings if c.what == "context length" and c.tokens.known), None)
    return sorted({min(_USUAL_TOKENS, context or _USUAL_TOKENS), context or _USUAL_TOKENS})


@rule(
    "one-times-not-served",
    Severity.WARNING,
    "The printed concurrency is 1.00x or more, and a full request does not fit",
)
def one_times_not_served(deployment: Deployment) -> Iterator[Hit]:
    """The concurrency that vLLM prints is blocks over blocks of a full-length request, and counts the null block, which
    no request is ever given. Before 0.29 the start check counts it too.

    At 1.00x a full-length request can thus be one block short. Since 0.19 its prompt waits for ever, and every request
    behind it; before, it is preempted again and again.
    """
    for server in deployment.workers:
        if not printed_as_enough(server):
            continue
        printed, blocks, full = (
            server.figure(n) for n in ("kv_cache_max_concurrency", "kv_blocks", "blocks_per_full_request")
        )
        length = server.figure("max_model_len")
        if blocks.known and full.known:
            if full.number > blocks.number:
                yield Hit(
                    server.name,
                    f"{printed.number:.2f}x is printed, but a request of {length.count:,} tokens takes {full.count:,}"
                    f" blocks and only {blocks.count:,} can be given to requests",
                    (printed, full, blocks),
                    _shorter(server),
                )
        elif printed.number < _CLOSE_TO_ONE and length.known:
            yield Hit(
                server.name,
                f"{printed.number:.2f}x is printed: whether a request of {length.count:,} tokens fits is not known, for"
                " one block of the pool is never given out",
                (printed, length),
                f"test one request of {length.count:,} tokens, or set --max-model-len"
                f" {floor_to(length.count - 1, 1024)}",
                doubtful=True,
            )


def _shorter(server: Server) -> str:
    longest = next((c.tokens for c in server.ceilings if c.what == "KV pool" and c.tokens.known), None)
    size = server.figure("bytes_per_block")
    more = f" by a block ({size.number / 2**20:,.1f} MiB) or more" if size.known else ""
    length = f"--max-model-len {longest.count}" if longest is not None else "a shorter --max-model-len"
    return f"set {length}, or raise --gpu-memory-utilization{more}"


@rule("more-slots-than-pool", Severity.INFO, "More requests may run than the pool holds at their observed lengths")
def more_slots_than_pool(deployment: Deployment) -> Iterator[Hit]:
    """vLLM reserves no output: it lets requests in by their prompts, up to `--max-num-seqs`, and when a block is
    missing it preempts the newest, whose work is then done twice.

    Compared are the mean prompt and the mean output of the requests that have finished (histograms of the metrics page)
    with the pool. A warning where requests wait or were preempted already.
    """
    for server in deployment.of(Role.UNIFIED, Role.DECODE, Role.UNKNOWN):
        kv, slots, means = server.pool("KV pool"), server.pool("request slots"), _mean_request(server)
        told = server.figure("fixed_blocks_per_request").known  # else how fewer tokens take fewer blocks is not known
        if kv is None or slots is None or not kv.counted or means is None or not told:
            continue
        shape = Shape(max(1, round(means[0].number)), round(means[1].number))
        found = limits([kv, slots], (), shape)
        if found.safe.number >= found.admits.most:
            continue
        pressed = any(f.known and f.number > 0 for f in map(server.use, ("num_preemptions", "num_requests_waiting")))
        yield Hit(
            server.name,
            f"up to {found.admits.most:,.0f} requests are let in, but the pool holds {found.safe.count:,} of the mean"
            f" length ({shape.prompt:,} + {shape.named_output:,} tokens): beyond that the newest are preempted",
            (slots.size, kv.size, *means),
            f"set --max-num-seqs {max(1, found.safe.count // kv.partitions)}, or bound max_tokens",
            Severity.WARNING if pressed else None,
        )


def _mean_request(server: Server) -> tuple[Figure, Figure] | None:
    """(mean prompt, mean output) of the requests that have finished, where there were enough."""
    prompt, output = server.use("mean_request_prompt_tokens"), server.use("mean_request_generation_tokens")
    count = server.use("request_prompt_tokens_count")
    enough = count.known and count.number >= _ENOUGH
    return (prompt, output) if enough and prompt.known and output.known else None


@rule("fixed-cost-per-request", Severity.INFO, "Most of what a request takes is not its context")
def fixed_cost(deployment: Deployment) -> Iterator[Hit]:
    """A request takes blocks of every group of layers: of full attention by its tokens, of windows at most a window and
    what is in flight, of recurrent states a fixed number. A token of a short request therefore costs far more.

    "In flight" is `--max-num-batched-tokens`, twice that since 0.26 with asynchronous scheduling. DeepSeek-V4's
    compressor states have blocks of 4 and 8 tokens, so that a batch of 16,384 tokens in flight asks for some 6 GiB a
    request at the door. (vllm-project/vllm issues 51041, 51799.) `--max-num-batched-tokens` is the lever, not the
    context.
    """
    for server in deployment.workers:
        kv, length = server.pool("KV pool"), _lengths(server)[0]
        groups = _groups(kv)
        whole = sum(group.units(length) for group in groups)
        besides = whole - sum(g.units(length) for g in groups if g.per_token and g.window is None)
        if kv is None or len(groups) < 2 or besides < _MOST * whole:
            continue
        cost = derived("blocks_beside_context", besides, "blocks", (kv.size,), f"of a request of {length:,} tokens")
        size = server.figure("bytes_per_block")
        gib = f" ({besides * size.number / 2**30:,.2f} GiB)" if size.known else ""
        yield Hit(
            server.name,
            f"a request of {length:,} tokens takes {whole:,} blocks at the door, of which {besides:,}{gib} are not for"
            f" its context but for {_what_besides(groups)}",
            (cost, *_known(server, "max_num_batched_tokens", "fixed_blocks_per_request", "bytes_per_block")),
            _cheaper(server, groups),
        )


def _what_besides(groups: tuple[Demand, ...]) -> str:
    windows = any(group.window is not None for group in groups)
    states = any(not group.per_token for group in groups)
    parts = [*(["windows and the batch in flight"] if windows else []), *(["recurrent states"] if states else [])]
    return " and ".join(parts)


def _cheaper(server: Server, groups: tuple[Demand, ...]) -> str:
    budget = server.figure("max_num_batched_tokens")
    if any(group.window is not None for group in groups):
        half = f" (now {budget.count:,}; {budget.count // 2:,} halves it)" if budget.known else ""
        return f"lower --max-num-batched-tokens{half}; lowering --max-model-len gives nothing back"
    return "with --no-enable-prefix-caching a group of recurrent layers keeps one state a request instead of two"


@rule("enlarged-block", Severity.INFO, "One block holds hundreds of tokens")
def enlarged_block(deployment: Deployment) -> Iterator[Hit]:
    """For models with attention and recurrent layers vLLM makes the blocks of attention so large that a recurrent state
    fits into one: hundreds of tokens, or thousands.

    A request takes whole blocks, and the blocks of its states besides, however short it is; prefixes are found again
    only in whole blocks. (vllm-project/vllm issue 54458.)
    """
    for server in deployment.workers:
        block, fixed = _enlarged(server), server.figure("fixed_blocks_per_request")
        kv = server.pool("KV pool")
        if block is None or kv is None or not _groups(kv):
            continue
        least = sum(group.units(1) for group in _groups(kv))
        yield Hit(
            server.name,
            f"a block is {block.count:,} tokens, enlarged to hold a recurrent state: a request of 1 token takes"
            f" {least:,} of {kv.size.count:,} blocks, and prefixes are shared in steps of {block.count:,}",
            (block, kv.size, *((fixed,) if fixed.known else ())),
            "count short requests by blocks: ullage limits --at LENGTH",
        )


def _enlarged(server: Server) -> Figure | None:
    """The block of a model with recurrent states, where it is large."""
    names = ("effective_attention_block_size", "hybrid_block_size", "block_size")
    block = next(iter(_known(server, *names)), None)
    states = _known(server, "hybrid_block_size", "mamba_block_size", "mamba_page_size_padded")
    return block if block is not None and states and block.number >= _LARGE_BLOCK else None
