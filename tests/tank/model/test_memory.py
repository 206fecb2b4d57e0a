"""What a forward pass takes is what `activation_bytes` says, at most."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ullage.tank.model.forward import Model, activation_bytes
from ullage.tank.model.tiny import CONFIG, TinyWeights

from .sequences import Piece, new_pool, run

_WIDE = CONFIG._replace(hidden=256, heads=8, kv_heads=4, head_dim=32, ffn=1024, vocab=4096)
_MIB = 2**20


def growth_bytes(tokens: int, sequences: int) -> int:
    """Of this process, by a first large pass. To be called in a new one, where nothing lies around to be used again."""
    model = Model(TinyWeights(0, _WIDE), threads=2)
    pool = new_pool(_WIDE, tokens)
    pool[:] = 1
    each = tokens // sequences
    pieces = [Piece([n % 256 for n in range(each)], 0, [at]) for at in range(sequences)]
    before = _peak_bytes()
    run(model, pieces, each, pool)
    return _peak_bytes() - before


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM in /proc/self/status")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("tokens", "sequences"), [(4096, 1), (4096, 1024), (2048, 2048)])
def test_scratch_stays_within_the_estimate(tokens: int, sequences: int) -> None:
    code = f"from tests.tank.model.test_memory import growth_bytes; print(growth_bytes({tokens}, {sequences}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, check=True)
    grown, estimate = int(done.stdout), activation_bytes(_WIDE, tokens, sequences)
    assert estimate / 4 < grown < estimate + 2 * _MIB


def test_the_estimate_grows_with_tokens_and_with_sequences() -> None:
    estimates = [activation_bytes(CONFIG, tokens, sequences) for tokens, sequences in ((1, 1), (64, 1), (64, 64))]
    assert np.all(np.diff(estimates) > 0)
