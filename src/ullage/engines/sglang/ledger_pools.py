"""What SGLang's pools consist of: each by name, as stated or by the engine's formula, and the request table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ...capacity.ledger import Part
from ...capacity.ledger_sums import in_bytes
from ...figure import Figure, derived
from ..server import Server
from .late import is_late
from .ledger_v4 import charge_of

_PAD = 4  # columns of the request table beyond the context
_STATED = (  # what a line or a page states of a pool -> its name here
    ("kv_k_gib", "KV pool, keys"),
    ("kv_v_gib", "KV pool, values"),
    ("kv_total_gib", "KV pool"),
    ("swa_kv_k_gib", "window pool, keys"),
    ("swa_kv_v_gib", "window pool, values"),
    ("swa_kv_total_gib", "window pool"),
)
_STATES = (
    ("mamba_conv_state_gib", "convolution states"),
    ("mamba_ssm_state_gib", "recurrent states"),
    ("mamba_intermediate_ssm_gib", "recurrent states of drafts"),
    ("mamba_intermediate_conv_gib", "convolution windows of drafts"),
)
_FIXED = (("c128_state_fixed_gib", "c128 state"), ("swa_fixed_gib", "window pool"))
_MANY = 10_000  # tokens that no model keeps in less than 10 MiB, the least that a page states
Figures = Mapping[str, Figure]


def place_of(figure: Figure) -> int:
    """The line it stands in. What a page states has none, and tells no order."""
    number = figure.source.place.rpartition(" ")[2] if figure.source else ""
    return int(number) if number.isdigit() else -1


def pool_parts(server: Server, figures: Figures, *, draft: bool, both: bool) -> Iterator[Part]:
    """The pools of the target or of the draft model; `both`: one step made those of both."""
    if draft:
        yield from _kv(figures, "draft_", "draft ")
        return
    charged = [*_charged(figures)]
    yield from charged or _kv(figures, "", "")
    yield from (Part(name, in_bytes(figures[key], name)) for key, name in _STATES if key in figures)
    if both:
        yield from _kv(figures, "draft_", "draft ")
    if (table := request_table(server)) is not None:
        yield Part("request table", table, why="grows with --context-length and --max-running-requests")


def _kv(figures: Figures, prefix: str, title: str) -> Iterator[Part]:
    """As the allocation states it: keys and values, or both together; of a window model by pool, where lines tell."""
    found = [(key, name) for key, name in _STATED if prefix + key in figures]
    if states_no_pool(figures):
        return
    apart = any(key.startswith("swa_") for key, _ in found) and any(key.startswith("kv_") for key, _ in found)
    if "full_and_swa_kv_gib" in figures and not prefix and not apart:
        yield Part("KV and window pool", in_bytes(figures["full_and_swa_kv_gib"], "KV and window pool"))
        return
    for key, name in found:
        parts = {other for other, _ in found if other != key and other.startswith(key.removesuffix("total_gib"))}
        if not (key.endswith("total_gib") and parts):
            yield Part(title + name, in_bytes(figures[prefix + key], title + name))


def states_no_pool(figures: Figures) -> bool:
    """A page that states a pool of tokens in no memory: the pools of some models are not counted into it."""
    size, tokens = figures.get("kv_total_gib"), figures.get("max_total_num_tokens")
    of_page = "kv_k_gib" not in figures and "kv_line_tokens" not in figures
    return size is not None and not size.number and of_page and tokens is not None and tokens.number >= _MANY


def _charged(figures: Figures) -> Iterator[Part]:
    """DeepSeek-V4: what a token is charged for each pool, times the tokens; and what is fixed."""
    tokens, stated = figures.get("max_total_num_tokens"), figures.get("bytes_per_full_token")
    if tokens is None or stated is None:
        return
    charge = charge_of(figures)
    costs = charge.figures() if charge else {"pools that tokens are charged for": stated}
    for name, cost in costs.items():
        size = math.ceil(cost.number * tokens.count)
        note = "bytes of a token x tokens of the pool; pages are padded on top"
        yield Part(name, derived(name, size, "bytes", (cost, tokens), note))
    for key, name in _FIXED:
        if key in figures and figures[key].number:
            yield Part(f"{name}, fixed", in_bytes(figures[key], name))


def late_parts(server: Server, figures: Figures) -> Iterator[Part]:
    """Pools that were sized after the capture, where the line of that states the KV pool; else none can be told."""
    if "post_capture_kv_gib" not in figures:
        return
    yield Part("KV pool", in_bytes(figures["post_capture_kv_gib"], "KV pool"))
    yield from (Part(name, in_bytes(figures[key], name)) for key, name in _STATES if key in figures)
    if (table := request_table(server)) is not None:
        yield Part("request table", table, why="grows with --context-length and --max-running-requests")


def request_table(server: Server) -> Figure | None:
    """(slots + 1) x (context + 4 + draft tokens) x 4 bytes, allocated at once and outside the budget.

    (mem_cache/memory_pool.py, ReqToTokenPool.) `slots` are the running requests of one rank, and a decode server's
    extra ones.
    """
    slots, context = server.pool("request slots"), server.figure("context_len")
    if slots is None or not context.known or slots.size.count < 1:
        return None
    draft = server.figure("speculative_num_draft_tokens")
    width = context.count + _PAD + (draft.count if type(draft.value) is int else 0)
    inputs = tuple(f for f in (slots.size, context, draft) if f.known)
    note = "(slots + 1) x (context + 4) x 4 bytes"
    return derived("request_table", (slots.size.count + 1) * width * 4, "bytes", inputs, note)


def bytes_per_token(figures: Figures) -> Figure | None:
    """What one more token of the pool takes of the budget: as stated, else the pools of it over their tokens.

    (The lines state two decimals of a GiB, which a small pool makes coarse.)
    """
    if (stated := figures.get("bytes_per_full_token")) is not None:
        return stated
    tokens, late = figures.get("max_total_num_tokens"), figures.get("post_capture_kv_gib")
    sizes = [p.size for prefix in ("", "draft_") for p in _kv(figures, prefix, "")]
    if late is not None:
        sizes = [in_bytes(late, "KV pool")]
    elif is_late(figures):  # the sizes are those of the addresses
        tokens = figures.get("kv_line_tokens")
    if tokens is None or not sizes or not all(size.number for size in sizes):
        return None
    cost, low, high = (sum(getattr(p, n) for p in sizes) / tokens.number for n in ("number", "least", "most"))
    note = "bytes of its pools / tokens"
    return derived("bytes_per_token", round(cost, 2), "bytes", (*sizes, tokens), note).between(low, high)
