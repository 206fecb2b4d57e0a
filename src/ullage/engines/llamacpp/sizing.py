"""How llama.cpp sizes its caches, in its own order (tree of commit 0c1e5709, 2026-10): pure arithmetic.

Nothing is profiled: the context is a fixed allocation computed from the flags.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from ...units import ceil_to

PAD = 256  # cells; GGML_PAD(n_ctx, 256) in llama-context.cpp
AUTO_SLOTS = 4  # server.cpp: n_parallel -1 becomes 4 slots on one unified pool
# Bytes of one element of a cache, by the name of its type (block bytes / elements of a block).
ELEMENT_BYTES = {
    "f32": Fraction(4),
    "f16": Fraction(2),
    "bf16": Fraction(2),
    "q8_0": Fraction(34, 32),
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
    "iq4_nl": Fraction(18, 32),
}


class Cells(NamedTuple):
    """The cells of the KV cache: `streams` parts of `each` cells. Unified, all sequences share one."""

    each: int
    streams: int

    @property
    def total(self) -> int:
        return self.each * self.streams


def cells_of(n_ctx: int, sequences: int, *, unified: bool) -> Cells:
    """llama-context.cpp: n_ctx is padded; divided among the sequences, each part is padded *up* again.

    (`-c 1024 -np 3` makes 3 x 512 cells, although the warning speaks of rounding down.)
    """
    padded = ceil_to(n_ctx, PAD)
    return Cells(padded, 1) if unified else Cells(ceil_to(padded // sequences, PAD), sequences)


def swa_cells(kv_size: int, window: int, sequences: int, ubatch: int, *, unified: bool, full: bool = False) -> int:
    """Cells of the cache of sliding-window layers (llama-kv-cache-iswa.cpp): they hold the window of every sequence
    that shares them and one physical batch, so they bind nothing.
    """
    return kv_size if full else ceil_to(min(kv_size, window * (sequences if unified else 1) + ubatch), PAD)


def cache_bytes(cells: int, layers: int, width: int, kind: str) -> Fraction:
    """Bytes of the keys (or of the values) of a cache. `width`: elements of one layer and cell (n_embd_k_gqa)."""
    return cells * layers * width * ELEMENT_BYTES[kind]


class RecurrentState(NamedTuple):
    """Elements of one recurrent layer's state for one sequence: R (convolution) and S (state), f32 by default."""

    r: int
    s: int

    def bytes_of(self, layers: int, sequences: int = 1, rollbacks: int = 0) -> tuple[int, int]:
        """(R, S) bytes over all layers; whatever the context is. `rollbacks`: n_rs_seq of speculative decoding."""
        rows = max(1, sequences) * (1 + rollbacks)
        return 4 * layers * rows * self.r, 4 * layers * rows * self.s


def recurrent_state(d_conv: int, d_inner: int, n_group: int, d_state: int) -> RecurrentState:
    """Mamba-2 and gated delta net (llama-hparams.cpp: n_embd_r, n_embd_s)."""
    return RecurrentState((d_conv - 1) * (d_inner + 2 * n_group * d_state), d_state * d_inner)
