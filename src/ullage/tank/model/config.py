"""The shape of a Llama model."""

from __future__ import annotations

from typing import NamedTuple


class ModelConfig(NamedTuple):
    """Sizes of a Llama-family decoder: RMS norms, rotary positions, grouped-query attention, SwiGLU."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context_len: int
    rope_theta: float
    norm_eps: float

    @property
    def kv_bytes_per_token(self) -> int:
        """K and V of one token in all layers, float32."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 4
