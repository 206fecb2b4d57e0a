"""A disaggregated chain in the engine's real order: router, then decode (pre-allocates and holds to the end), then
prefill.

In flight is bound by the router and by decode. Prefill holds a request only from its first chunk until the transfer has
ended, so it bounds the longest prompt, the rate, and how many are in prefill and transfer at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..figure import Figure, derived, missing
from .limits import Ceiling, Limits


@dataclass(frozen=True, slots=True)
class ChainLimits:
    """Requests in flight through the chain, all servers of a role together."""

    admits: Figure
    safe: Figure
    binds: str
    beyond: str
    overflow: str
    why: str
    in_prefill: Figure
    perhaps_refused: Ceiling | None = None


def chain(router_cap: Figure | None, prefill: Sequence[Limits], decode: Sequence[Limits]) -> ChainLimits:
    """Sums each role's servers and takes the least of router and decode. `router_cap`: a real cap on parallel requests,
    or None.
    """
    admits, safe = _total("admits", [d.admits for d in decode]), _total("safe", [d.safe for d in decode])
    tightest = min(decode, key=lambda d: d.admits.number if d.admits.known else float("inf"), default=None)
    binds, beyond = (f"decode: {tightest.binds}", tightest.beyond) if tightest else ("not known", "")
    refusal = next((p.refused for p in prefill if p.refused), None)
    if refusal:
        zero = derived("admits", 0, "requests", (refusal.tokens,), f"prefill: {refusal.what}")
        return ChainLimits(
            zero,
            zero.renamed("safe"),
            f"prefill: {refusal.what}",
            refusal.beyond,
            "",
            f"prefill: {refusal.what}",
            zero.renamed("in_prefill"),
        )
    if router_cap and router_cap.known and admits.known and router_cap.number < admits.number:
        admits = derived("admits", router_cap.count, "requests", (router_cap,), "the router lets no more through")
        safe = derived("safe", min(safe.count, router_cap.count), "requests", (safe, router_cap))
        binds, beyond = "router: limit on parallel requests", "waits at the router, then 408 or 429"
    overflow = next((d.overflow for d in decode if d.overflow), "")
    perhaps = next((p.perhaps_refused for p in prefill if p.perhaps_refused), None)
    why = f"decode, {tightest.why}" if tightest and tightest.why else ""
    return ChainLimits(
        admits, safe, binds, beyond, overflow, why, _total("in_prefill", [p.admits for p in prefill]), perhaps
    )


def _total(name: str, parts: Sequence[Figure]) -> Figure:
    unknown = next((p for p in parts if not p.known), None)
    if unknown or not parts:
        return missing(name, "requests", unknown.note if unknown else "no server of this role was read")
    if len(parts) == 1:
        return parts[0].renamed(name)
    return derived(name, sum(p.count for p in parts), "requests", tuple(parts), "sum over the servers of the role")
