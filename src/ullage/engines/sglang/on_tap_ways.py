"""What else gives memory back on an SGLang server, with its price; and what its tokens are charged for, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...capacity.ledger import Ledger
from ...capacity.ledger_tap import Way
from ...figure import Figure, Kind
from ...units import GIB, MIB, ceil_to, floor_to
from ..server import Role, Server
from .ledger_pools import bytes_per_token, request_table
from .ledger_v4 import Charge, charge_of
from .on_tap_identity import is_capped

_PAGE, _WINDOW = 256, 128  # of DeepSeek-V4
_SIDES = ("window KV", "c4 state", "c128 state")  # sized by the pool, whatever runs
_WORTH = GIB // 50  # bytes below which nothing is told
_WIDE = ("auto", "bfloat16", "float16", "torch.bfloat16", "torch.float16", "bf16", "fp16")


def ways_of(server: Server, ledgers: list[Ledger], budget: Figure | None) -> Iterator[Way]:
    """Those that apply to this server and give something worth telling."""
    figures = {n: f for n, f in server.figures.items() if f.known}
    charge = charge_of(figures)
    if charge is not None and budget is not None and "max_total_num_tokens" in figures:
        yield _narrower_window(server, charge, budget, figures["max_total_num_tokens"])
    yield from _fewer_graphs(ledgers, figures)
    yield from _shorter_context(server, figures)
    yield from _smaller_chunk(server, figures)
    if not is_capped(figures):
        yield from _fp8(figures)


def _narrower_window(server: Server, charge: Charge, budget: Figure, pool: Figure) -> Way:
    """Half the ratio: the pool grows, for a token of it is charged less; the window pool holds fewer requests."""
    ratio = float(charge.ratio.number) / 2
    tokens = floor_to(int(budget.number / charge.at(ratio)), _PAGE)
    window = floor_to(int(tokens * ratio), _PAGE)
    each = ceil_to(_WINDOW + _PAGE - 1, _PAGE)
    gives = _gain("pool_tokens", tokens - pool.count, "tokens", (budget, charge.stated, charge.ratio, pool))
    price = f"the window pool is then {window:,} tokens, so at most {window // each:,} requests run at once"
    if server.role is Role.PREFILL:
        price += f"; builds before 0.5.13 then refuse prompts above {window:,} tokens"
    return Way(f"--swa-full-tokens-ratio {ratio:g} in place of {charge.ratio.number:g}", gives, price)


def _gain(name: str, value: int, unit: str, inputs: tuple[Figure, ...], note: str = "") -> Figure:
    return Figure(name, value, unit, Kind.PREDICTED, inputs=inputs, note=note)


def _fewer_graphs(ledgers: list[Ledger], figures: Mapping[str, Figure]) -> Iterator[Way]:
    """What the graphs took in all: the most that fewer sizes can give."""
    parts = [part for led in ledgers[:1] for part in led.parts if part.name.startswith("graphs")]
    total = sum(part.size.count for part in parts)
    if total < _WORTH:
        return
    inputs = tuple(part.size for part in parts)
    note = "all that the captures took: fewer sizes give a part of it"
    largest, decode = figures.get("graph_max_bs"), "cuda_graph_max_bs_decode" in figures  # the flag's name since 2026
    now = f" (the largest batch is {largest.count:,} now)" if largest else ""
    price = "batches above the largest size run without a graph, and slower"
    flag = "--cuda-graph-max-bs-decode" if decode else "--cuda-graph-max-bs"
    yield Way(f"fewer graph sizes: {flag} lower{now}", _gain("graphs", total, "bytes", inputs, note), price)


def _shorter_context(server: Server, figures: Mapping[str, Figure]) -> Iterator[Way]:
    """The request table by half the context, and what else grows with the flag."""
    table, context = request_table(server), figures.get("context_len")
    if table is None or context is None or table.number // 2 < _WORTH:
        return
    half = context.count // 2
    gives = _gain("request_table", table.count // 2, "bytes", (table, context), "half of the request table")
    price = f"requests above {half:,} tokens are refused"
    yield Way(f"--context-length {half} in place of {context.count}", gives, price)


def _smaller_chunk(server: Server, figures: Mapping[str, Figure]) -> Iterator[Way]:
    """DeepSeek-V4's index logits are chunk x context bytes; of other models no figure of this server tells."""
    chunk, context = figures.get("chunked_prefill_size"), figures.get("context_len")
    if "bytes_per_full_token" not in figures or chunk is None or context is None or server.role is Role.DECODE:
        return
    half = chunk.count // 2
    note = "half of chunk x context bytes, which a prompt of the whole context takes while it is computed"
    gives = _gain("index_logits", half * context.count, "bytes", (chunk, context), note)
    yield Way(f"--chunked-prefill-size {half} in place of {chunk.count}", gives, "long prompts take more passes")


def _fp8(figures: Mapping[str, Figure]) -> Iterator[Way]:
    """Half the bytes of a token, where it is kept in 16 bits."""
    kind, pool, cost = figures.get("kv_cache_dtype"), figures.get("max_total_num_tokens"), bytes_per_token(figures)
    if kind is None or str(kind.value) not in _WIDE or pool is None or cost is None:
        return
    if "bytes_per_full_token" in figures:
        return
    gives = _gain("pool_tokens", pool.count, "tokens", (pool, kind), "twice the tokens in the same memory")
    yield Way("--kv-cache-dtype fp8_e4m3", gives, "some accuracy; not every attention backend and model takes it")


def own_rule(server: Server, before: Figure, best: float) -> Iterator[str]:
    """What SGLang would leave beside weights and pools where no fraction is set, if that is more than `best` leaves.

    512 MiB + 1.5 MiB for each token of a step + 1 GiB for each 8 ranks + graphs; at least 10 GiB above 60 GiB of memory
    (memory_hook.py, 031ed82d). The start measures no activations, so that this is the only figure for them.
    """
    kept = _kept(server)
    if kept is None:
        return
    if before.number > 60 * GIB:
        kept = max(kept, 10 * 1024)
    share = kept * MIB / before.number
    if 1 - best >= share:
        return
    yield (
        f"{best:g} leaves less than SGLang's own rule leaves where none is set: about {kept / 1024:,.1f} GiB beside"
        f" weights and pools, a fraction of about {max(0.0, 1 - share):.2f}. A start measures no activations: above"
        " that, try it under load before you keep it, or give a larger --margin"
    )


def _kept(server: Server) -> float | None:
    """In MiB, before the floor."""
    names = ("chunked_prefill_size", "max_running_requests", "tp_size", "pp_size", "speculative_num_draft_tokens")
    chunk, running, tp, pp, draft = (f.count if type((f := server.figure(n)).value) is int else None for n in names)
    step = (running or 0) * (draft or 1) if server.role is Role.DECODE else chunk
    if not step or step < 0:
        return None
    return 512 + 1.5 * max(step, 2048) + (tp or 1) * (pp or 1) / 8 * 1024


def words_of(figures: Mapping[str, Figure]) -> Iterator[str]:
    """Why a token of the pool costs more than a token of context does, by the pools that make the difference."""
    charge = charge_of(figures)
    if charge is None:
        return
    stated = float(charge.stated.number)
    sides = [(name, cost) for name, cost in charge.pools.items() if name in _SIDES]
    told = ", ".join(f"{name} {cost:,.2f}" for name, cost in sides)
    buys = ", ".join(f"{name} {cost:,.2f}" for name, cost in charge.pools.items() if name not in _SIDES)
    yield (
        f"a token of the pool is charged {stated:,.2f} bytes, {stated / charge.context:.1f} times the"
        f" {charge.context:,.2f} that one more token of context takes ({buys}): the other {charge.window / stated:.0%}"
        f" are side pools that are sized by the pool and not by the requests ({told}). Engine version and"
        f" --swa-full-tokens-ratio ({charge.ratio.number:g}) decide that"
    )
