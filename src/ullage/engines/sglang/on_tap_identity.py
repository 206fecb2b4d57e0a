"""SGLang's identity of a start, by which another fraction is reckoned:

    budget = free after the weights - M * (1 - fraction)        M: free before the weights, both the least of the ranks
    tokens = floor(budget / bytes per token), in whole pages

(mem_cache/kv_cache_configurator.py, 003fca80; older: model_runner.py, profile_max_num_token.) Of a pipeline's stages,
which all have the same budget, the one whose tokens cost most decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...capacity.ledger import Ledger
from ...capacity.ledger_sums import added, in_bytes, less, times
from ...figure import Figure, Kind, inferred, missing
from ...units import GIB, floor_to
from .ledger_pools import bytes_per_token, place_of

_OFF = 0.015  # the identity is taken to hold to this share; beyond it, what a token costs is reckoned from it
_UNFILLED = 0.1  # share of the budget that no rounding leaves unused
_ROUNDED = 512  # tokens: a cap is rounded down to whole pages
_TAKEN = "tokens of the stated pool + (fraction - the fraction now) x M / bytes per token, in whole pages"
_NO_FRACTION = "the fraction is not known: the start-up log's server_args, server info or --flags would tell it"


class Identity(NamedTuple):
    """What the budget is made of: M, what is left after the weights, the fraction, and what a token costs."""

    before: Figure
    after: Figure | None
    fraction: Figure  # may be missing: what a step of it buys can be told nevertheless
    pool: Figure
    token: Figure
    share: float  # of more memory, what goes into tokens: the rest is a state pool's
    page: int

    def budget(self) -> Figure | None:
        """free after the weights - M * (1 - fraction), in bytes."""
        if self.after is None or not self.fraction.known:
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
        return predicted("pool", value, low, high, (budget, self.token, self.pool), note)

    def at(self, fraction: float) -> Figure:
        """The pool at another fraction, reckoned from the stated one. Its last page may be nearly full."""
        return self.with_more(fraction - float(self.fraction.number))

    def with_more(self, more: float) -> Figure:
        """The pool at a fraction that is higher by so much."""
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
        inputs = tuple(f for f in (self.pool, self.before, self.fraction, self.token) if f.known)
        return predicted("pool", likely, low, high, inputs, _TAKEN)

    @property
    def cost(self) -> Figure:
        """Bytes of memory that one more token takes, with the share that goes into states."""
        return times_of_share(self.token, self.share)


def times_of_share(token: Figure, share: float) -> Figure:
    return token if share == 1 else times("bytes_per_token", token, 1 / share, "with the state pool's share")


def predicted(name: str, value: int, low: int, high: int, inputs: tuple[Figure, ...], note: str) -> Figure:
    found = Figure(name, value, "tokens", Kind.PREDICTED, inputs=inputs, note=note)
    return found.between(min(low, value), max(high, value))


def identity_of(ranks: Sequence[Mapping[str, Figure]], whole: Figure) -> Identity | None:
    """Of the figures as each rank states them. None where a term beside the fraction is not part of the evidence."""
    tokens = [token for figures in ranks if (token := bytes_per_token(figures)) is not None]
    figures = ranks[0]
    pool = figures.get("max_total_num_tokens")
    if pool is None or not tokens or not whole.known:
        return None
    before = figures.get("profiled_total_gib")
    return Identity(
        in_bytes(before, "M") if before else whole.renamed("M"),
        _after(ranks),
        fraction_of(figures) or missing("mem_fraction_static", "", _NO_FRACTION),
        pool,
        max(tokens, key=lambda token: token.number),
        _share(figures),
        _page(figures),
    )


def is_capped(figures: Mapping[str, Figure]) -> bool:
    """Does --max-total-tokens hold the pool below what memory holds?"""
    if "sized_tokens" in figures:
        return True
    cap, pool = figures.get("requested_max_total_tokens"), figures.get("max_total_num_tokens")
    return (
        cap is not None and pool is not None and type(cap.value) is int and pool.number <= cap.count < pool.number + 512
    )


def fraction_of(figures: Mapping[str, Figure]) -> Figure | None:
    for name in ("mem_fraction_static", "profiled_mem_fraction"):
        figure = figures.get(name)
        if figure is not None and figure.known and not isinstance(figure.value, (str, bool)) and 0 < figure.number < 1:
            return figure
    return None


def _page(figures: Mapping[str, Figure]) -> int:
    page = figures.get("page_size")
    if page is not None and page.known and type(page.value) is int:
        return page.count
    return 256 if "bytes_per_full_token" in figures else 1


def _after(ranks: Sequence[Mapping[str, Figure]]) -> Figure | None:
    """What was free when the weights were loaded of which the pool was made: those of a draft model too where they were
    loaded before it, as newer versions do. The least of the ranks.
    """
    for name in ("profiled_available_gib", "draft_avail_after_weights_gib", "avail_after_weights_gib"):
        found = [figures[name] for figures in ranks if name in figures and not _is_after_pool(figures, name)]
        if found:
            return in_bytes(min(found, key=lambda figure: figure.number), "free_after_weights")
    return None


def _is_after_pool(figures: Mapping[str, Figure], name: str) -> bool:
    pool = figures.get("avail_after_pool_gib")
    return pool is not None and place_of(figures[name]) > place_of(pool)


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


def unfilled(found: Identity, ledgers: Sequence[Ledger]) -> Figure | None:
    """What the pools took, where it was measured and is clearly less than the budget: something else caps them."""
    taken = [size for led in ledgers if (size := _measured(led)) is not None]
    budget = found.budget()
    if not taken or len(taken) < len(ledgers) or budget is None:
        return None
    most = max(taken, key=lambda size: size.number)
    return most if most.most < budget.least * (1 - _UNFILLED) - GIB / 4 else None


def _measured(led: Ledger) -> Figure | None:
    """The steps that made pools, as what was free before and after them tells."""
    parts = [part.size for name in ("pools", "draft pools") if (part := led.part(name)) is not None]
    return added("pools_taken", parts, "free before - free after") if led.part("pools") is not None else None
