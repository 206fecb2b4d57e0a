"""The memory of a GPU by vLLM's lines: as stated, else by what share of it the graphs are.

Since 0.18 a start says to which share of the GPU the estimate for its graphs comes: it prints the utilization, and the
one without the estimate or with twice as much, to four decimals (v1/worker/gpu_worker.py: estimate / total_memory). So
the total is the estimate / the difference of the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...capacity.ledger_sums import in_bytes
from ...figure import Figure, derived

_HALF = 0.00005  # of the printed utilization
_TELLING = 0.05  # of the total: a wider range is none


def total_of(figures: Mapping[str, Figure]) -> Figure | None:
    """Bytes. Of the known figures of a server."""
    stated = figures.get("total_gib") or figures.get("total")
    return in_bytes(stated, "total") if stated is not None else _by_graphs(figures)


def _by_graphs(figures: Mapping[str, Figure]) -> Figure | None:
    estimate, share = figures.get("estimated_cudagraph_gib"), figures.get("gpu_memory_utilization")
    other = figures.get("equivalent_utilization") or figures.get("suggested_utilization")
    if estimate is None or share is None or other is None or other.number >= 1:  # what it suggests ends at 1
        return None
    size, part = in_bytes(estimate), abs(share.number - other.number)
    if size.number <= 0 or part <= _HALF:  # memory that is the host's too may grow while it is measured
        return None
    low, high = math.floor(size.least / (part + _HALF)), math.ceil(size.most / (part - _HALF))
    if high - low > _TELLING * low:
        return None
    note = "estimate for graphs / the share of the GPU that it is, as printed to four decimals"
    return derived("total", round(size.number / part), "bytes", (estimate, share, other), note).between(low, high)
