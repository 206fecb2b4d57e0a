"""GGUF files of the reference writer, read back: the same model, or one line of why not."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.errors import UllageError
from ullage.tank.model.gguf_file import GgufFile
from ullage.tank.model.gguf_weights import GgufWeights
from ullage.tank.model.load import load_model
from ullage.tank.model.tiny import CONFIG
from ullage.tank.model.weights import plain_frequencies

from . import gguf_files
from .sequences import plain


def test_the_tiny_model_out_of_a_file_is_the_tiny_model(tmp_path: Path) -> None:
    path = gguf_files.write(tmp_path / "tiny.gguf")
    loaded, tiny = load_model(str(path)), load_model("tiny")
    ids = tiny.tokenizer.encode("What is in the file?")
    assert loaded.config == tiny.config._replace(name="Tiny in a file", norm_eps=float(np.float32(1e-5)))
    assert loaded.path == str(path)
    assert np.array_equal(plain(loaded.model, ids)[1][0], plain(tiny.model, ids)[1][0])


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_weights_are_what_the_reference_makes_of_them(tmp_path: Path, kind: str) -> None:
    used = GGMLQuantizationType[kind]
    file = GgufFile(gguf_files.write(tmp_path / "tiny.gguf", kind=used))
    weights = GgufWeights(file)
    head = quantize(gguf_files.tensors()["output.weight"], used)
    assert np.array_equal(weights.head(), dequantize(head, used).T)
    ids = np.array([5, 0, 259, 5])
    assert np.array_equal(weights.embedding()(ids), file.floats("token_embd.weight")[ids])


def test_without_an_output_matrix_the_embedding_is_it(tmp_path: Path) -> None:
    weights = GgufWeights(GgufFile(gguf_files.write(tmp_path / "tied.gguf", arrays={"output.weight": None})))
    assert np.array_equal(weights.head(), gguf_files.tensors()["token_embd.weight"].T)


def test_weight_bytes_count_matrices_as_float32_and_the_embedding_as_in_the_file(tmp_path: Path) -> None:
    loaded = load_model(str(gguf_files.write(tmp_path / "tiny.gguf", kind=GGMLQuantizationType.Q8_0)))
    matrices = sum(4 * a.size for name, a in gguf_files.tensors().items() if name != "token_embd.weight")
    embedding = CONFIG.vocab * CONFIG.hidden // 32 * 34
    positions = CONFIG.context_len * CONFIG.head_dim * 4
    assert loaded.weight_bytes == matrices + embedding + positions


@pytest.mark.parametrize(
    ("change", "arrays", "factor"),
    [
        ({}, {}, 1),
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}, {}, 1 / 4),
        ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, {}, 1),
        ({}, {"rope_freqs.weight": np.arange(1, 9, dtype=np.float32)}, 1 / np.arange(1, 9)),
    ],
)
def test_positions_scale_as_the_file_says(tmp_path: Path, change: Any, arrays: Any, factor: Any) -> None:
    file = GgufFile(gguf_files.write(tmp_path / "tiny.gguf", change=change, arrays=arrays))
    assert np.allclose(GgufWeights(file).frequencies(), plain_frequencies(CONFIG) * factor)


_BIAS = {"blk.0.attn_q.bias": np.zeros(64, np.float32)}


@pytest.mark.parametrize(
    ("change", "arrays", "line"),
    [
        ({"llama.expert_count": 8}, {}, "has llama.expert_count 8, which is not computed here"),
        ({"llama.rope.scaling.type": "yarn"}, {}, "scales its positions by yarn"),
        ({"llama.rope.dimension_count": 8}, {}, "has llama.rope.dimension_count 8"),
        ({"llama.attention.key_length": 0}, {}, "says 0 of llama.attention.key_length"),
        ({"llama.block_count": 2**31}, {}, "says 2147483648 of llama.block_count"),
        ({"llama.attention.head_count_kv": 3}, {}, "has 4 heads of 16 dimensions on 3"),
        ({"llama.block_count": None}, {}, "says nothing of llama.block_count"),
        ({"llama.attention.head_count_kv": [2, 1]}, {}, "says several things of llama.attention.head_count_kv"),
        ({}, _BIAS, "has blk.0.attn_q.bias, which is not computed here"),
        ({}, {"blk.1.ffn_up.weight": None}, "lacks blk.1.ffn_up.weight"),
        (
            {},
            {"output_norm.weight": np.zeros(8, np.float32)},
            r"has output_norm.weight of the shape \(8,\), not \(64,\)",
        ),
        ({"tokenizer.ggml.model": "t5"}, {}, "has a tokenizer of the kind t5"),
        ({"tokenizer.ggml.pre": "nonesuch"}, {}, "cuts text by the rule nonesuch"),
        ({"tokenizer.ggml.tokens": None}, {}, "has no whole vocabulary"),
        (
            {"tokenizer.ggml.tokens": ["a"] * 300, "tokenizer.ggml.token_type": None},
            {},
            "has 300 tokens, and vectors for 260",
        ),
        ({"tokenizer.chat_template": "{% if"}, {}, "chat template cannot be read"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(tmp_path: Path, change: Any, arrays: Any, line: str) -> None:
    path = gguf_files.write(tmp_path / "odd.gguf", change=change, arrays=arrays)
    with pytest.raises(UllageError, match=line):
        load_model(str(path))


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UllageError, match=r"odd.gguf is of the architecture mamba, not llama"):
        load_model(str(gguf_files.write(tmp_path / "odd.gguf", architecture="mamba")))


def test_a_large_model_is_refused_before_its_weights_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ullage.tank.model.gguf_weights.LARGEST_BYTES", 2**18)
    with pytest.raises(UllageError, match=r"is 0\.0 GiB as float32; up to 0 GiB are taken"):
        load_model(str(gguf_files.write(tmp_path / "large.gguf")))


def test_a_vocabulary_and_vectors_of_different_sizes_go_together(tmp_path: Path) -> None:
    """Vectors are often padded to a round number."""
    rows = np.zeros((300, CONFIG.hidden), np.float32)
    path = gguf_files.write(tmp_path / "padded.gguf", arrays={"token_embd.weight": rows, "output.weight": rows})
    loaded = load_model(str(path))
    assert loaded.config.vocab == loaded.tokenizer.vocab_size == 300
    assert loaded.tokenizer.decode([65, 299, 66]) == "AB"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return gguf_files.write(tmp_path_factory.mktemp("gguf") / "whole.gguf").read_bytes()


@given(cut=st.floats(0, 1, exclude_max=True))
@settings(max_examples=30, deadline=None)
def test_a_file_that_is_cut_is_one_line(whole: bytes, tmp_path_factory: pytest.TempPathFactory, cut: float) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.gguf"
    path.write_bytes(whole[: int(cut * (len(whole) - 64))])
    with pytest.raises(UllageError, match=r"no whole GGUF file|cannot be read"):
        GgufFile(path)


@given(spoiled=st.lists(st.tuples(st.integers(0, 8000), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_spoiled_file_is_read_or_is_one_line(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, spoiled: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "spoiled.gguf"
    content = bytearray(whole)
    for at, byte in spoiled:
        content[at] = byte
    path.write_bytes(content)
    with contextlib.suppress(UllageError):
        GgufWeights(GgufFile(path))
