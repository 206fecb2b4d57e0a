"""Whatever runs beside a sequence, in whatever pieces and pages: its logits are the same, to the bit."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ullage.tank.model.load import Loaded, load_model

from .sequences import Piece, new_pool, plain, run

_LENGTHS = st.lists(st.integers(1, 90), min_size=1, max_size=6)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[list[int]], int, list[list[int]], list[list[int]]]:
    """Sequences, a page size, how each is cut into pieces, and its pages: any, in any order."""
    lengths = draw(_LENGTHS)
    page_size = draw(st.sampled_from([1, 2, 3, 8, 16, 64, 100]))
    sequences = [draw(st.lists(st.integers(0, 259), min_size=n, max_size=n)) for n in lengths]
    cuts = [sorted({0, n, *draw(st.lists(st.integers(0, n), max_size=4))}) for n in lengths]
    needed = [-(-n // page_size) for n in lengths]
    order = draw(st.permutations(range(sum(needed) + 2)))
    pages = [list(order[sum(needed[:i]) :][:count]) for i, count in enumerate(needed)]
    return sequences, page_size, cuts, pages


@given(runs())
@settings(max_examples=60, deadline=None)
def test_batch_pieces_and_pages_change_no_bit(
    tiny: Loaded, drawn: tuple[list[list[int]], int, list[list[int]], list[list[int]]]
) -> None:
    sequences, page_size, cuts, pages = drawn
    pool = new_pool(tiny.config, page_size * (sum(map(len, pages)) + 2))
    pool[:] = np.nan  # what nobody wrote, nobody may read
    last: dict[int, NDArray[np.float32]] = {}
    for turn in range(max(map(len, cuts)) - 1):
        taking_part = [i for i, cut in enumerate(cuts) if turn + 1 < len(cut)]
        pieces = [Piece(sequences[i][cuts[i][turn] : cuts[i][turn + 1]], cuts[i][turn], pages[i]) for i in taking_part]
        last.update(zip(taking_part, run(tiny.model, pieces, page_size, pool), strict=True))
    for i, ids in enumerate(sequences):
        assert np.array_equal(last[i], plain(tiny.model, ids)[1][0])


def test_a_prompt_recomputed_after_its_answer_goes_on_with_the_same_bits(tiny: Loaded) -> None:
    """What a retracted request goes through."""
    prompt = tiny.tokenizer.encode("It was retracted")
    tokens, logits = plain(tiny.model, prompt, 40)
    for count in (1, 7, 39):
        assert np.array_equal(plain(tiny.model, prompt + tokens[:count])[1][0], logits[count])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(tiny: Loaded, threads: int) -> None:
    """With a prompt that is long enough for attention to be shared out."""
    ids = [(7 * n + n * n) % 256 for n in range(600)]
    assert np.array_equal(plain(load_model("tiny", threads=threads).model, ids)[1][0], plain(tiny.model, ids)[1][0])


def test_the_real_model_too(smollm2: Loaded) -> None:
    """In pieces, beside another, on scattered pages; and with one thread."""
    ids = smollm2.tokenizer.encode("A tank holds what it holds, and no number makes it hold more. " * 8)[:100]
    pool = new_pool(smollm2.config, 64 * 16)
    tables = [[9, 3, 20, 1, 50, 2, 40], [8, 5, 6, 7, 30, 31, 32], [60]]
    run(smollm2.model, [Piece(ids[:37], 0, tables[0]), Piece(ids[:99], 0, tables[1])], 16, pool)
    run(smollm2.model, [Piece(ids[:3], 0, tables[2]), Piece(ids[37:63], 37, tables[0])], 16, pool)
    got = run(smollm2.model, [Piece(ids[99:], 99, tables[1]), Piece(ids[63:], 63, tables[0])], 16, pool)
    wanted = plain(load_model("smollm2", threads=1).model, ids)[1][0]
    assert np.array_equal(got[0], wanted)
    assert np.array_equal(got[1], wanted)


def test_code_that_is_compiled_and_code_from_the_cache_give_the_same_bits(tmp_path: Path) -> None:
    """A worker that starts first compiles; the one it hands its KV to finds the machine code in the cache."""
    digests = {_digest_in_a_new_process(tmp_path) for _ in range(2)}
    assert list(tmp_path.rglob("*.nbc"))
    assert len(digests) == 1


_NEW_PROCESS = """
import sys
from tests.tank.model.test_bits import digest
sys.stdout.write(digest())
"""


def digest() -> str:
    loaded = load_model("tiny")
    _, logits = plain(loaded.model, loaded.tokenizer.encode("The same, to the last bit"), 30)
    return hashlib.sha256(np.stack(logits).tobytes()).hexdigest()


def _digest_in_a_new_process(cache: Path) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", _NEW_PROCESS]
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[3], capture_output=True, check=True)
    return done.stdout.decode()
