"""A disaggregated chain in the engine's real order: router, then decode (pre-allocates and holds to the end), then
prefill.

In flight is bound by the router and by decode. Prefill holds a request only from its first chunk until the transfer has
ended, so it bounds the longest prompt, the rate, and how many are in prefill and transfer at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..figure import Figure, derived, missing
from .limits import Ceiling, Limits

_ROUTER = "router: limit on parallel requests"


class ChainLimits(NamedTuple):
    """Requests in flight through the chain, all servers of a role together."""

    admits: Figure
    safe: Figure
    binds: str
    beyond: str
    overflow: str
    why: str
    in_prefill: Figure
    perhaps_refused: Ceiling | None = None
    refused: Ceiling | None = None
    at_most: bool = False  # upper bounds, for a decode server has pools that are not known
    safe_binds: str = ""  # who bounds safe


def chain(router_cap: Figure | None, prefill: Sequence[Limits], decode: Sequence[Limits]) -> ChainLimits:
    """Sums each role's servers and takes the least of router and decode. What only some prefill servers refuse may
    still reach one that does not.

    `router_cap`: a real cap on parallel requests, or None.
    """
    refusals = [p.refused for p in prefill if p.refused]
    if refusals and len(refusals) == len(prefill):
        return _refused(refusals[0])
    doubts = [p.perhaps_refused for p in prefill if p.perhaps_refused]
    tightest = min(decode, key=lambda d: d.admits.number if d.admits.known else -1, default=None)
    least_safe = min(decode, key=lambda d: d.safe.number if d.safe.known else -1, default=None)
    found = ChainLimits(
        admits=_total("admits", [d.admits for d in decode]),
        safe=_total("safe", [d.safe for d in decode]),
        binds=f"decode: {tightest.binds}" if tightest else "not known",
        beyond=tightest.beyond if tightest else "",
        overflow=next((d.overflow for d in decode if d.overflow), ""),
        why=f"decode, {tightest.why}" if tightest and tightest.why else "",
        in_prefill=_total("in_prefill", [p.admits for p in prefill]),
        perhaps_refused=next(iter([*refusals, *doubts]), None),
        at_most=any(d.at_most for d in decode),
        safe_binds=f"decode: {least_safe.safe_binds}" if least_safe else "not known",
    )
    return _capped(found, router_cap) if router_cap and router_cap.known and found.admits.known else found


def _refused(by: Ceiling) -> ChainLimits:
    what = f"prefill: {by.what}"
    zero = derived("admits", 0, "requests", (by.tokens,), what)
    in_prefill = zero.renamed("in_prefill")
    return ChainLimits(zero, zero.renamed("safe"), what, by.beyond, "", what, in_prefill, refused=by, safe_binds=what)


def _capped(found: ChainLimits, cap: Figure) -> ChainLimits:
    """The same behind a router that lets no more than `cap` through; a range is cut at it."""
    admits, limit = found.admits, cap.count
    if admits.most <= limit:
        return found
    fewer = derived("admits", min(admits.count, limit), "requests", (cap, admits), "the router lets no more through")
    if admits.least < limit:
        fewer = replace(fewer, note=f"{fewer.note}; {admits.note}", low=admits.least, high=limit)
    return found._replace(
        admits=fewer,
        safe=derived("safe", min(found.safe.count, limit), "requests", (found.safe, cap)),
        safe_binds=found.safe_binds if found.safe.count <= limit else _ROUTER,
        binds=f"{found.binds}; {_ROUTER}" if admits.least < limit else _ROUTER,
        beyond="waits at the router, then 408 or 429",
        overflow=found.overflow if found.safe.count < limit else "",
        why=f"{_ROUTER}: {limit:,}",
    )


def _total(name: str, parts: Sequence[Figure]) -> Figure:
    unknown = next((p for p in parts if not p.known), None)
    if unknown or not parts:
        return missing(name, "requests", unknown.note if unknown else "no server of this role was read")
    if len(parts) == 1:
        return parts[0].renamed(name)
    total = derived(name, sum(p.count for p in parts), "requests", tuple(parts), "sum over the servers of the role")
    ranges = [p for p in parts if p.low is not None]
    if not ranges:
        return total
    low, high = sum(p.least for p in parts), sum(p.most for p in parts)
    return replace(total, note=f"{total.note}; {ranges[0].note}", low=low, high=high)
