"""What SGLang's --mem-fraction-static would buy, by the engine's own identity (on_tap_identity.py).

+0.01 takes 0.01 * M from what the fraction leaves, and turns it into tokens. Another fraction is reckoned from the pool
that is stated: its last page is the only doubt, and the rounding of M.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...capacity.ledger import Ledger
from ...capacity.ledger_sums import less, times
from ...capacity.ledger_tap import NO_SETTING, Check, OnTap, Setting, fractions_between, hundredths, named
from ...figure import Figure, Kind, derived
from ...units import floor_to
from ..server import Server
from .deepseek_v4 import is_v4
from .late import is_late
from .ledger import by_rank, context_costs
from .ledger_pools import bytes_per_token
from .on_tap_identity import Identity, corrected, fraction_of, identity_of, is_capped, predicted, unfilled
from .on_tap_ways import own_rule, ways_of, words_of

LEVER = "--mem-fraction-static"
_SAME_GIB = 0.1  # servers on equal GPUs have as much free after the weights
_CAPPED = "--max-total-tokens caps the pool: more of the fraction buys nothing until it is raised"
_LATE = (
    "this build sizes its pools after the graphs were captured, so that graphs come out of the pool: what the fraction"
    " leaves is for activations alone, and fewer graph sizes give tokens at the same fraction"
)


def on_tap(server: Server, ledgers: list[Ledger], margin: int) -> OnTap:
    figures = {n: f for n, f in server.figures.items() if f.known}
    whole = _least_free(ledgers)
    stated = identity_of([*by_rank(server).values()], whole) if whole else None
    grows, cap = named(context_costs(server)), is_capped(figures)
    if stated is None:
        why = _CAPPED if cap else _why_not(figures, whole)
        return OnTap(LEVER, grows=grows, unknown=why, ways=tuple(ways_of(server, ledgers, None)))
    late = is_late(figures)
    identity = stated if cap or late else corrected(stated)
    found = (
        _capped(identity, figures.get("sized_tokens"))
        if cap
        else predicted_from(identity, ledgers, margin + _transient(grows))
    )
    ways = ways_of(server, ledgers, None if cap else identity.budget() or _of_pool(identity))
    worth = "" if cap else "at the same fraction" if late else "by a higher fraction"
    return found._replace(
        ways=tuple(way.worth_at(identity.cost, "tokens", worth) if worth else way for way in ways),
        checks=() if cap or late else tuple(_checks(server, stated)),
        warns=tuple(own_rule(server, identity.before, found.best.value)) if found.best else (),
        says=(*words_of(figures), *([_LATE] if late else []), *_says(stated, identity, ledgers)),
        grows=grows,
    )


def _least_free(ledgers: Sequence[Ledger]) -> Figure | None:
    """What was free before the weights on the rank that had least: it decides for all."""
    known = [led.usable for led in ledgers if led.usable is not None and led.usable.known]
    return min(known, key=lambda usable: usable.number, default=None)


def _says(stated: Identity, used: Identity, ledgers: Sequence[Ledger]) -> Iterator[str]:
    """Where the stated pools make up less than the budget."""
    if used.token is not stated.token:
        yield _why_dearer(stated, used, unfilled(stated, ledgers))


def _why_dearer(stated: Identity, used: Identity, taken: Figure | None) -> str:
    """What a token is reckoned at instead of what its pools take, and why."""
    said = f"the stated pools make up {stated.token.number / used.token.number:.0%} of what the fraction leaves them"
    if taken is not None:
        why = "the rest was left unused: a token is charged more than it takes, or something is kept back"
    else:
        why = "what takes the rest is not in the evidence"
    costs = f"{used.token.number:,.0f} bytes in place of the stated {stated.token.number:,.0f}"
    return f"{said}; {why}. So a token is reckoned at {costs}, and the range holds both"


def _capped(identity: Identity, sized: Figure | None) -> OnTap:
    """What the budget would hold is told, where it is known."""
    budget, held = identity.budget(), ""
    if sized is not None:
        held = f"; memory holds {sized.number:,}, as the start sized it first"
    elif budget is not None:
        held = f"; this fraction has room for about {identity.tokens(budget).number:,} tokens (predicted)"
    return OnTap(LEVER, identity.fraction if identity.fraction.known else None, identity.pool, unknown=_CAPPED + held)


def predicted_from(identity: Identity, ledgers: Sequence[Ledger], margin: int) -> OnTap:
    """What the fraction buys. Of the GPU that has least left, for all ranks hold the same pool."""
    lefts = [led.left for led in ledgers if led.left is not None]
    left = min(lefts, key=lambda size: size.number, default=None)
    if not identity.fraction.known:
        return _steps_alone(identity, left, margin)
    found = OnTap(LEVER, identity.fraction, identity.pool, left, _each(identity))
    return _with_settings(found, identity, left, margin) if left is not None else found


def _steps_alone(identity: Identity, left: Figure | None, margin: int) -> OnTap:
    """Without the fraction: what a step of it buys, and by how much it may be raised."""
    told = f"{identity.fraction.note}. Whatever it is, a step of it takes the same"
    found = OnTap(LEVER, None, identity.pool, left, _each(identity), unknown=told)
    more = hundredths((left.number - margin) / identity.before.number) if left is not None else 0
    if more <= 0:
        return found
    pool = identity.with_more(more)
    said = f"; {more:.2f} more is the most that leaves the margin: {pool.number:,} tokens, if nothing else caps them"
    return found._replace(unknown=f"{told}{said} (predicted)")


def _of_pool(identity: Identity) -> Figure:
    size = round(identity.pool.number * identity.token.number)
    return derived("pool_bytes", size, "bytes", (identity.pool, identity.token), "tokens x bytes per token")


def _transient(grows: tuple[Figure, ...]) -> int:
    """What a run takes beside the pools, where a formula tells it."""
    return sum(f.count for f in grows if f.name == "index_logits")


def _each(identity: Identity) -> Figure:
    """Tokens of the pool that +0.01 buys."""
    value = floor_to(int(0.01 * identity.before.number * identity.share / identity.token.number), identity.page)
    low = floor_to(int(0.01 * identity.before.least * identity.share / identity.token.most), identity.page)
    high = floor_to(int(0.01 * identity.before.most * identity.share / identity.token.least), identity.page)
    note = "0.01 x M / bytes per token, in whole pages"
    return predicted("tokens_per_hundredth", value, low, high, (identity.before, identity.token), note)


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
        fraction, pool = fraction_of(start.figures), start.figures.get("max_total_num_tokens")
        token = start.figures.get("bytes_per_full_token")
        same = token is None or token.value == identity.token.value
        if not identity.fraction.known or fraction is None or pool is None or not same:
            continue
        if fraction.value == identity.fraction.value:
            continue
        began = f" of {start.began}" if start.began else ""
        yield Check(f"the start{began} at {fraction.number:g}", identity.at(float(fraction.number)), pool)


def check_against(server: Server, ledgers: Sequence[Ledger], other: Server) -> Check | None:
    """The pool of another server of the same model and build by this one's figures: do the two lie on one line?"""
    mine, theirs = ({n: f for n, f in s.figures.items() if f.known} for s in (server, other))
    whole = _least_free(ledgers)
    identity = identity_of([mine], whole) if whole is not None else None
    fraction, pool, token = fraction_of(theirs), theirs.get("max_total_num_tokens"), theirs.get("bytes_per_full_token")
    if identity is None or not identity.fraction.known or fraction is None or pool is None or token is None:
        return None
    if is_capped(mine) or is_capped(theirs):
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
    if bytes_per_token(figures) is None:
        line = "'memory calculation'" if is_v4(figures) else "'KV Cache is allocated'"
        return f"what a token costs is not known: the log's {line} line or server info would tell it"
    reason = whole.note if whole is not None else "the log's lines of loading the weights would tell it"
    return f"what was free before the weights is not known: {reason}"
