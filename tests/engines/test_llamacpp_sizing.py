"""llama.cpp's sizing against figures that public logs state, and its rounding for every request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.engines.llamacpp.sizing import PAD, cache_bytes, cells_of, recurrent_state, swa_cells
from ullage.units import MIB


def mib(count: object) -> float:
    return round(float(str(count)) / MIB, 3)


@pytest.mark.parametrize(
    ("kv_size", "window", "sequences", "ubatch", "unified", "cells"),
    [
        (1_048_576, 128, 1, 4096, False, 4352),  # DeepSeek-V4, llama.cpp issue 27680
        (131_072, 128, 1, 512, False, 768),  # gpt-oss-20b
        (8192, 4096, 4, 512, True, 8192),  # Gemma 2 in one pool: no more than the context
        (65_536, 512, 1, 512, False, 1024),  # Gemma 4
        (8192, 128, 1, 128, False, 256),
    ],
)
def test_cells_of_a_window_cache(
    kv_size: int, window: int, sequences: int, ubatch: int, unified: bool, cells: int
) -> None:
    assert swa_cells(kv_size, window, sequences, ubatch, unified=unified) == cells
    assert swa_cells(kv_size, window, sequences, ubatch, unified=unified, full=True) == kv_size


@pytest.mark.parametrize(
    ("cells", "layers", "width", "kind", "stated"),
    [
        (4352, 43, 512, "f16", 182.75),  # DeepSeek-V4's raw window cache
        (2048, 28, 512, "f16", 56.0),
        (1_048_576, 12, 1024, "q4_0", 6912.0),
        (8192, 12, 512, "q8_0", 51.0),
        (1536, 18, 256, "f16", 13.5),  # half of gemma3-270m's 27.0 MiB at -c 1024 -np 3
        (1536, 30, 192, "f16", 16.875),  # as recorded from a run: 16.88
    ],
)
def test_bytes_of_the_keys_of_a_cache(cells: int, layers: int, width: int, kind: str, stated: float) -> None:
    assert mib(float(cache_bytes(cells, layers, width, kind))) == stated


def test_the_state_of_recurrent_layers() -> None:
    """Qwen3.6-27B, three sequences (llama.cpp PR 23792); a checkpoint of Qwen3.5-9B (lmstudio issue 1563)."""
    state = recurrent_state(d_conv=4, d_inner=6144, n_group=16, d_state=128)
    assert [mib(n) for n in state.bytes_of(48, sequences=3)] == [16.875, 432.0]
    state = recurrent_state(d_conv=4, d_inner=4096, n_group=16, d_state=128)
    assert mib(sum(state.bytes_of(24))) == 50.25


@given(st.integers(1, 2**20), st.integers(1, 64), st.booleans())
def test_cells_hold_what_was_asked_for_in_whole_blocks(n_ctx: int, sequences: int, unified: bool) -> None:
    cells = cells_of(n_ctx, sequences, unified=unified)
    assert cells.each % PAD == 0
    assert cells.streams == (1 if unified else sequences)
    assert n_ctx <= cells.total < n_ctx + PAD * (sequences + 1)


def test_a_share_is_rounded_up() -> None:
    assert cells_of(1024, 3, unified=False) == (512, 3)
    assert cells_of(1000, 4, unified=True) == (1024, 1)
