"""What SGLang's --mem-fraction-static would buy, by the engine's own identity:

    budget = free after the weights - M * (1 - fraction)        M: free before the weights, both the least of the ranks
    tokens = floor(budget / bytes per token), in whole pages

(mem_cache/kv_cache_configurator.py, 003fca80; older: model_runner.py, profile_max_num_token.) So +0.01 takes 0.01 * M
from what the fraction leaves, and turns it into tokens. Another fraction is reckoned from the pool that is stated: its
last page is the only doubt, and the rounding of M.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...capacity.ledger import Ledger
from ...capacity.ledger_sums import in_bytes, less, times
from ...capacity.ledger_tap import NO_SETTING, Check, OnTap, Setting, fractions_between, hundredths, named
from ...figure import Figure, Kind, derived, inferred
from ...units import floor_to
from ..server import Server
from .ledger import context_costs
from .ledger_pools import bytes_per_token
from .on_tap_ways import ways_of, words_of

LEVER = "--mem-fraction-static"
_OFF = 0.015  # the identity is taken to hold to this share; beyond it, what a token costs is reckoned from it
_SAME_GIB = 0.1  # servers on equal GPUs have as much free after the weights
_CAPPED = "--max-total-tokens caps the pool: more of the fraction buys nothing until it is raised"
_TAKEN = "tokens of the stated pool + (fraction - the fraction now) x M / bytes per token, in whole pages"


class Identity(NamedTuple):
    """What the budget is made of: M, what is left after the weights, the fraction, and what a token costs."""

    before: Figure
    after: Figure | None
    fraction: Figure
    pool: Figure
    token: Figure
    share: float  # of more memory, what goes into tokens: the rest is a state pool's
    page: int

    def budget(self) -> Figure | None:
        """free after the weights - M * (1 - fraction), in bytes."""
        if self.after is None:
            return None
        kept = times("slack", self.before, 1 - float(self.fraction.number), "M x (1 - fraction)", (self.fraction,))
        return less("budget", self.after, [kept], "free after the weights - M x (1 - fraction)")

    def tokens(self, budget: Figure) -> Figure:
        """What a budget holds."""
        low, value, high = (
            floor_to(max(0, int(size * self.share / cost)), self.page)
            for size, cost in (
                (budget.least, self.token.most),
                (budget.number, self.token.number),
                (budget.most, self.token.least),
            )
        )
        note = "budget / bytes per token, in whole pages"
        return _predicted("pool", value, low, high, (budget, self.token, self.pool), note)

    def at(self, fraction: float) -> Figure:
        """The pool at another fraction, reckoned from the stated one. Its last page may be nearly full."""
        more = fraction - float(self.fraction.number)
        if not more:
            return self.pool
        ends = [
            self.pool.count + spare + more * size * self.share / cost
            for spare in (0, self.page - 1)
            for size in (self.before.least, self.before.most)
            for cost in (self.token.least, self.token.most)
        ]
        value = self.pool.count + more * self.before.number * self.share / self.token.number
        likely, low, high = (floor_to(max(0, math.floor(n)), self.page) for n in (value, min(ends), max(ends)))
        return _predicted("pool", likely, low, high, (self.pool, self.before, self.fraction, self.token), _TAKEN)


def _predicted(name: str, value: int, low: int, high: int, inputs: tuple[Figure, ...], note: str) -> Figure:
    found = Figure(name, value, "tokens", Kind.PREDICTED, inputs=inputs, note=note)
    return found.between(min(low, value), max(high, value))


def identity_of(figures: Mapping[str, Figure], whole: Figure) -> Identity | None:
    """None where a term is not part of the evidence."""
    fraction, pool = _fraction(figures), figures.get("max_total_num_tokens")
    token = bytes_per_token(figures)
    if fraction is None or pool is None or token is None or not whole.known:
        return None
    before = figures.get("profiled_total_gib")
    page = figures.get("page_size")
    size = (
        page.count
        if page and page.known and type(page.value) is int
        else 256
        if "bytes_per_full_token" in figures
        else 1
    )
    return Identity(
        in_bytes(before, "M") if before else whole.renamed("M"),
        _after(figures),
        fraction,
        pool,
        token,
        _share(figures),
        size,
    )


def _fraction(figures: Mapping[str, Figure]) -> Figure | None:
    for name in ("mem_fraction_static", "profiled_mem_fraction"):
        figure = figures.get(name)
        if figure is not None and figure.known and not isinstance(figure.value, (str, bool)) and 0 < figure.number < 1:
            return figure
    return None


def _after(figures: Mapping[str, Figure]) -> Figure | None:
    """What was free when all weights were loaded, the draft model's too (newer versions load them first)."""
    for name in ("profiled_available_gib", "draft_avail_after_weights_gib", "avail_after_weights_gib"):
        if name in figures:
            return in_bytes(figures[name], "free_after_weights")
    return None


def _share(figures: Mapping[str, Figure]) -> float:
    """A state pool takes ratio / (1 + ratio) of the budget, unless its size was asked for (pool_configurator.py)."""
    if "mamba_ssm_state_gib" not in figures or "requested_max_mamba_cache_size" in figures:
        return 1.0
    ratio = figures.get("mamba_full_memory_ratio")
    return 1 / (1 + (float(ratio.number) if ratio is not None and ratio.known else 0.9))


def corrected(found: Identity) -> Identity:
    """Where the stated pools do not make up the budget (index keys that no line states, a graph's share), what a token
    costs is what the budget gives for it.
    """
    budget = found.budget()
    if budget is None or budget.number <= 0 or found.pool.number < found.page:
        return found
    implied = budget.number * found.share / found.pool.number
    if implied <= found.token.most * (1 + _OFF) or found.token.name == "bytes_per_full_token":
        return found
    note = "budget / tokens: the stated pools make up less"
    token = inferred("bytes_per_token", round(implied, 2), "bytes", (budget, found.pool, found.token), note)
    return found._replace(token=token.between(found.token.least, implied))


def on_tap(server: Server, ledgers: list[Ledger], margin: int) -> OnTap:
    figures = {n: f for n, f in server.figures.items() if f.known}
    whole = next((led.usable for led in ledgers if led.usable is not None and led.usable.known), None)
    stated = identity_of(figures, whole) if whole else None
    grows = named(context_costs(server))
    if stated is None:
        return OnTap(LEVER, grows=grows, unknown=_why_not(figures, whole), ways=tuple(ways_of(server, ledgers, None)))
    identity = corrected(stated)
    ways = tuple(ways_of(server, ledgers, identity.budget() or _of_pool(identity)))
    checks, says = tuple(_checks(server, stated)), tuple(words_of(figures))
    if _is_capped(figures):
        found = OnTap(LEVER, identity.fraction, identity.pool, unknown=_CAPPED)
    else:
        found = predicted_from(identity, ledgers, margin + _transient(grows))
    return found._replace(ways=ways, checks=checks, says=says, grows=grows)


def predicted_from(identity: Identity, ledgers: Sequence[Ledger], margin: int) -> OnTap:
    """What the fraction buys. Of the GPU that has least left, for all ranks hold the same pool."""
    lefts = [led.free[0].size for led in ledgers if led.free]
    left = min(lefts, key=lambda size: size.number, default=None)
    found = OnTap(LEVER, identity.fraction, identity.pool, left, _each(identity))
    return _with_settings(found, identity, left, margin) if left is not None else found


def _of_pool(identity: Identity) -> Figure:
    size = round(identity.pool.number * identity.token.number)
    return derived("pool_bytes", size, "bytes", (identity.pool, identity.token), "tokens x bytes per token")


def _transient(grows: tuple[Figure, ...]) -> int:
    """What a run takes beside the pools, where a formula tells it."""
    return sum(f.count for f in grows if f.name == "index_logits")


def _is_capped(figures: Mapping[str, Figure]) -> bool:
    cap, pool = figures.get("requested_max_total_tokens"), figures["max_total_num_tokens"]
    return cap is not None and type(cap.value) is int and pool.number <= cap.count < pool.number + 512


def _each(identity: Identity) -> Figure:
    """Tokens of the pool that +0.01 buys."""
    value = floor_to(int(0.01 * identity.before.number * identity.share / identity.token.number), identity.page)
    low = floor_to(int(0.01 * identity.before.least * identity.share / identity.token.most), identity.page)
    high = floor_to(int(0.01 * identity.before.most * identity.share / identity.token.least), identity.page)
    note = "0.01 x M / bytes per token, in whole pages"
    return _predicted("tokens_per_hundredth", value, low, high, (identity.before, identity.token), note)


def _with_settings(found: OnTap, identity: Identity, left: Figure, margin: int) -> OnTap:
    now = float(identity.fraction.number)
    best = min(max(hundredths(now + (left.number - margin) / identity.before.number), 0.01), 0.99)
    chosen = _setting(identity, left, best)
    if not chosen.pool.number or chosen.left.most < margin:
        return found._replace(unknown=NO_SETTING)
    return found._replace(
        best=chosen, settings=tuple(_setting(identity, left, value) for value in fractions_between(now, best))
    )


def _setting(identity: Identity, left: Figure, fraction: float) -> Setting:
    more = fraction - float(identity.fraction.number)
    pool = identity.at(fraction)
    if not more:
        return Setting(fraction, pool, left)
    taken = times("taken", identity.before, abs(more), "M x the difference of the fractions", (identity.fraction,))
    parts = [taken] if more > 0 else []
    rest = less("left", left, parts, "what is left now - M x the difference")
    if more < 0:
        rest = rest.between(left.least + taken.least, left.most + taken.most)
        rest = replace(rest, value=left.count + taken.count, inputs=(left, taken))
    return Setting(fraction, pool, replace(rest, kind=Kind.PREDICTED))


def _checks(server: Server, identity: Identity) -> Iterator[Check]:
    """The identity on this very start, and on the earlier starts of the same log."""
    budget = identity.budget()
    if budget is not None and budget.number > 0:
        yield Check("this start, from what was free", identity.tokens(budget), identity.pool)
    for start in server.earlier:
        fraction, pool = _fraction(start.figures), start.figures.get("max_total_num_tokens")
        token = start.figures.get("bytes_per_full_token")
        same = token is None or token.value == identity.token.value
        if fraction is None or pool is None or not same or fraction.value == identity.fraction.value:
            continue
        began = f" of {start.began}" if start.began else ""
        yield Check(f"the start{began} at {fraction.number:g}", identity.at(float(fraction.number)), pool)


def check_against(server: Server, ledgers: Sequence[Ledger], other: Server) -> Check | None:
    """The pool of another server of the same model and build by this one's figures: do the two lie on one line?"""
    mine, theirs = ({n: f for n, f in s.figures.items() if f.known} for s in (server, other))
    whole = next((led.usable for led in ledgers if led.usable is not None and led.usable.known), None)
    identity = identity_of(mine, whole) if whole is not None else None
    fraction, pool, token = _fraction(theirs), theirs.get("max_total_num_tokens"), theirs.get("bytes_per_full_token")
    if identity is None or fraction is None or pool is None or token is None or _is_capped(mine) or _is_capped(theirs):
        return None
    weights = [figures.get("avail_after_weights_gib") for figures in (mine, theirs)]
    if token.value != identity.token.value or fraction.value == identity.fraction.value or weights[0] is None:
        return None
    if weights[1] is None or abs(weights[0].number - weights[1].number) > _SAME_GIB:
        return None
    return Check(f"{other.name} at {fraction.number:g}", identity.at(float(fraction.number)), pool)


def _why_not(figures: Mapping[str, Figure], whole: Figure | None) -> str:
    """The first term that is not known, and what would tell it."""
    if "max_total_num_tokens" not in figures:
        return "the pool is not known: the start-up log or server info would tell it"
    if _fraction(figures) is None:
        return "the fraction is not known: the start-up log's server_args, server info or --flags would tell it"
    if bytes_per_token(figures) is None:
        return "what a token costs is not known: the log's 'KV Cache is allocated' line or server info would tell it"
    reason = whole.note if whole is not None else "the log's lines of loading the weights would tell it"
    return f"what was free before the weights is not known: {reason}"
