"""Small GGUF files, written by the reference writer: the tiny model as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

from ullage.tank.model.byte_letters import BYTE_LETTERS
from ullage.tank.model.tiny import CONFIG, TinyWeights

SPECIAL = ["<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"]
_TEMPLATE = "{{ bos_token }}{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"


def tensors() -> dict[str, np.ndarray[Any, Any]]:
    """Of the tiny model: matrices as a GGUF file has them, [out, in]."""
    weights, c = TinyWeights(), CONFIG
    width, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    found: dict[str, np.ndarray[Any, Any]] = {
        "token_embd.weight": weights.embedding()(np.arange(c.vocab)),
        "output_norm.weight": weights.final_norm(),
        "output.weight": weights.head().T,
    }
    for index in range(c.layers):
        layer = weights.layer(index)
        query, key, value = np.split(layer.qkv.T, [width, width + kv])
        named = {
            "attn_norm": layer.attention_norm,
            "attn_q": query,
            "attn_k": key,
            "attn_v": value,
            "attn_output": layer.attention_out.T,
            "ffn_norm": layer.ffn_norm,
            "ffn_gate": layer.gate.T,
            "ffn_up": layer.up.T,
            "ffn_down": layer.down.T,
        }
        found |= {f"blk.{index}.{name}.weight": array for name, array in named.items()}
    return found


def settings() -> dict[str, Any]:
    c = CONFIG
    return {
        "general.name": "Tiny in a file",
        "llama.block_count": c.layers,
        "llama.context_length": c.context_len,
        "llama.embedding_length": c.hidden,
        "llama.feed_forward_length": c.ffn,
        "llama.attention.head_count": c.heads,
        "llama.attention.head_count_kv": c.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": c.norm_eps,
        "llama.rope.freq_base": c.rope_theta,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": [*BYTE_LETTERS, *SPECIAL],
        "tokenizer.ggml.token_type": [1] * 256 + [3] * len(SPECIAL),
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 257,
        "tokenizer.chat_template": _TEMPLATE,
    }


def write(
    path: Path,
    *,
    architecture: str = "llama",
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    change: dict[str, Any] | None = None,
    arrays: dict[str, np.ndarray[Any, Any] | None] | None = None,
) -> Path:
    """`change` and `arrays` overrule what the tiny model says; None takes it away. `kind`: of the matrices."""
    writer = GGUFWriter(path, architecture)
    for key, value in {**settings(), **(change or {})}.items():
        if value is not None:
            _add(writer, key, value)
    for name, array in {**tensors(), **(arrays or {})}.items():
        if array is None:
            continue
        used = kind if array.ndim > 1 else GGMLQuantizationType.F32
        writer.add_tensor(name, quantize(np.ascontiguousarray(array, np.float32), used), raw_dtype=used)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)
