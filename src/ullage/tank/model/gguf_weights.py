"""A Llama model out of a GGUF file. What would change its numbers and is not computed here is refused, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UllageError
from .config import ModelConfig
from .gguf_file import GgufFile, QuantizedRows
from .weights import Floats, Layer, plain_frequencies

LARGEST_BYTES = 2 * 2**30  # as float32
_LONGEST_CONTEXT = 2**20
_ADVICE = "give a small model of the Llama family, such as smollm2"
_NEUTRAL = {  # settings that must be absent or say this
    "expert_count": 0,
    "expert_used_count": 0,
    "logit_scale": 1.0,
    "embedding_scale": 1.0,
    "residual_scale": 1.0,
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
}
_OF_A_LAYER = "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down".split()


class GgufWeights:
    """Queries and keys lie in the file as rotary pairs already."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self.config = config_of(file)
        _check_tensors(file, self.config)

    def frequencies(self) -> NDArray[np.float64]:
        """Divided by what the file says of long contexts: one factor for all, or one for each."""
        plain = plain_frequencies(self.config)
        if "rope_freqs.weight" in self._file.names():
            plain /= self._file.floats("rope_freqs.weight")
        plain /= _linear_scaling(self._file)
        return plain

    def embedding(self) -> QuantizedRows:
        return self._file.rows("token_embd.weight").in_memory()

    def layer(self, index: int) -> Layer:
        norm, query, key, value, out, ffn_norm, gate, up, down = (
            self._file.floats(f"blk.{index}.{name}.weight") for name in _OF_A_LAYER
        )
        qkv = np.concatenate([query, key, value])
        return Layer(norm, qkv.T, out.T, ffn_norm, gate.T, up.T, down.T)

    def final_norm(self) -> Floats:
        return self._file.floats("output_norm.weight")

    def head(self) -> Floats:
        """The embedding itself, where the file has no other."""
        tied = "output.weight" not in self._file.names()
        return self._file.rows("token_embd.weight" if tied else "output.weight").transposed()


def config_of(file: GgufFile) -> ModelConfig:
    settings = _Settings(file)
    settings.check()
    heads, hidden = settings.count("attention.head_count"), settings.count("embedding_length")
    head_dim = settings.count("attention.key_length", hidden // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        settings.expect(key, head_dim)
    config = ModelConfig(
        name=str(file.settings.get("general.name", file.path.stem)),
        layers=settings.count("block_count", largest=len(file.names())),
        hidden=hidden,
        heads=heads,
        kv_heads=settings.count("attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn=settings.count("feed_forward_length"),
        vocab=_vocab(file),
        context_len=settings.count("context_length", largest=_LONGEST_CONTEXT),
        rope_theta=settings.number("rope.freq_base", 10_000.0),
        norm_eps=settings.number("attention.layer_norm_rms_epsilon"),
    )
    if config.heads % config.kv_heads or config.head_dim % 2:
        raise _refused(file, f"has {heads} heads of {head_dim} dimensions on {config.kv_heads}")
    return config


class _Settings:
    """The settings of the `llama` architecture, refused where they are not as needed."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file

    def check(self) -> None:
        architecture = self._file.settings.get("general.architecture")
        if architecture != "llama":
            raise _refused(self._file, f"is of the architecture {architecture}, not llama")
        for key, neutral in _NEUTRAL.items():
            self.expect(key, neutral)
        kind = self._get("rope.scaling.type", "none")
        if kind not in ("none", "linear"):
            raise _refused(self._file, f"scales its positions by {kind}, which is not computed here")

    def expect(self, key: str, value: float) -> None:
        found = self._get(key, value)
        if found != value:
            raise _refused(self._file, f"has llama.{key} {found}, which is not computed here")

    def count(self, key: str, default: int | None = None, *, largest: int = 2**24) -> int:
        value = self.number(key, default)
        if not 1 <= value <= largest:
            raise _refused(self._file, f"says {value} of llama.{key}")
        return int(value)

    def number(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        if isinstance(value, list) and len(set(value)) == 1:
            value = value[0]
        if not isinstance(value, int | float):
            raise _refused(self._file, f"says {'nothing' if value is None else 'several things'} of llama.{key}")
        return value

    def _get(self, key: str, default: Any) -> Any:
        return self._file.settings.get(f"llama.{key}", default)


def _linear_scaling(file: GgufFile) -> float:
    settings = file.settings
    if settings.get("llama.rope.scaling.type", "linear") == "none":
        return 1.0
    return float(settings.get("llama.rope.scaling.factor", settings.get("llama.rope.scale_linear", 1.0))) or 1.0


def _vocab(file: GgufFile) -> int:
    if "token_embd.weight" not in file.names():
        raise _refused(file, "has no weights")
    return file.shape("token_embd.weight")[0]


def _check_tensors(file: GgufFile, config: ModelConfig) -> None:
    """All that is needed is there, in its shape; nothing else is; and it is not too much."""
    needed = _shapes(config)
    optional = {"output.weight": (config.vocab, config.hidden), "rope_freqs.weight": (config.head_dim // 2,)}
    present = {name: file.shape(name) for name in file.names()}
    for name, shape in present.items():
        if (wanted := {**needed, **optional}.get(name)) is None:
            raise _refused(file, f"has {name}, which is not computed here")
        if wanted != shape:
            raise _refused(file, f"has {name} of the shape {shape}, not {wanted}")
    if lacking := sorted(set(needed) - set(present)):
        raise _refused(file, f"lacks {lacking[0]}")
    if (size := 4 * sum(int(np.prod(shape)) for shape in present.values())) > LARGEST_BYTES:
        raise _refused(file, f"is {size / 2**30:.1f} GiB as float32; up to {LARGEST_BYTES / 2**30:.0f} GiB are taken")


def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, ffn = config.hidden, config.ffn
    width, kv_width = config.heads * config.head_dim, config.kv_heads * config.head_dim
    of_a_layer: list[tuple[int, ...]] = [
        (hidden,),
        (width, hidden),
        (kv_width, hidden),
        (kv_width, hidden),
        (hidden, width),
        (hidden,),
        (ffn, hidden),
        (ffn, hidden),
        (hidden, ffn),
    ]
    layers = {
        f"blk.{index}.{name}.weight": shape
        for index in range(config.layers)
        for name, shape in zip(_OF_A_LAYER, of_a_layer, strict=True)
    }
    return {"token_embd.weight": (config.vocab, hidden), "output_norm.weight": (hidden,), **layers}


def _refused(file: GgufFile, why: str) -> UllageError:
    return UllageError(f"{file.path.name} {why}", _ADVICE)
