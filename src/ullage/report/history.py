"""The starts of a server that stand in its log or journal, the current one last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..engines.server import Server
from ..figure import Figure
from .page import Column
from .words import value_of

_TOLD = (  # the heading of a column, and the quantity by the names of the engines
    ("KV pool", ("max_total_num_tokens", "kv_cache_size_tokens")),
    ("blocks", ("num_gpu_blocks",)),
    ("memory fraction", ("mem_fraction_static", "gpu_memory_utilization")),
    ("context", ("context_len", "max_model_len", "n_ctx")),
    ("running requests", ("max_running_requests", "max_num_seqs", "n_slots")),
)


def starts_of(server: Server) -> tuple[list[Column], list[list[str]]]:
    """Columns and rows of a table; no row where no earlier start is known."""
    if not server.earlier:
        return [], []
    starts: list[tuple[str, Mapping[str, Figure]]] = [(e.began or "time not known", e.figures) for e in server.earlier]
    starts.append(("current", server.figures))
    shown = [(head, names) for head, names in _TOLD if any(_of(figures, names) for _, figures in starts)]
    columns = [Column("start"), *(Column(head, right=True) for head, _ in shown), Column("")]
    ends = [*(e.why_earlier for e in server.earlier), ""]
    rows = [
        [began, *(_of(figures, names) for _, names in shown), end]
        for (began, figures), end in zip(starts, ends, strict=True)
    ]
    return columns, rows


def _of(figures: Mapping[str, Figure], names: Sequence[str]) -> str:
    return next((value_of(figures[name]) for name in names if name in figures and figures[name].known), "")
