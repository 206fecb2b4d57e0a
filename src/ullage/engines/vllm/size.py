"""vLLM's sizing of the block pool: pages of layers, groups of them, blocks, and what is printed of it.

All bytes are of one GPU. Formulas of v1/core/kv_cache_utils.py and kv_cache_interface.py, 0.8 to 0.33.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...units import ceil_to
from ..version import Release

TOKENS_ARE_CONCURRENCY: Release = (0, 20, 2)  # since then "KV cache size" is concurrency x max_model_len
_PADS_MORE: Release = (0, 18, 0)  # since then a bucket is padded up to one and a half times the smallest


class Grouped(NamedTuple):
    """Layers in groups of equal size. `padding`: layers that were added to each bucket."""

    size: int
    groups: tuple[int, ...]
    padding: tuple[int, ...]


def attention_page(block: int, kv_heads: int, head: int, element_bytes: float, *, value: int = 0, tp: int = 1) -> int:
    """Bytes of one layer's page: keys and values of `block` tokens. `head`, `value`: sizes of a head (0: as the key's).
    Fewer KV heads than ranks are replicated.
    """
    return int(max(1, kv_heads // tp) * block * (head + (value or head)) * element_bytes)


def latent_page(block: int, token_bytes: int) -> int:
    """Bytes of one MLA layer's page: one vector a token, on every rank. 1,152 in bf16, 656 as fp8_ds_mla."""
    return block * token_bytes


def attention_block(state_page: int, token_bytes: int, align: int = 16) -> int:
    """Tokens of a block that holds a recurrent state: the attention page must be no smaller than the state's."""
    return align * -(-state_page // (align * token_bytes))


def grouped(layers: Sequence[int], release: Release | None = None) -> Grouped:
    """Layers of each kind into groups of the smallest kind's number, or of the largest's if that is little more."""
    least, most = min(layers), max(layers)
    factor = 1.25 if release is not None and release < _PADS_MORE else 1.5
    size = most if most < factor * least else least
    return Grouped(size, tuple(-(-n // size) for n in layers), tuple(ceil_to(n, size) - n for n in layers))


def pool_blocks(available_bytes: float, block_bytes: int) -> int:
    """Blocks of the pool, the null block included."""
    return int(available_bytes // block_bytes)


def concurrency(blocks: int, request_blocks: int) -> float:
    """ "Maximum concurrency": full-length requests. It counts the null block, which no request can be given."""
    return blocks / request_blocks


def printed_tokens(
    blocks: int, request_blocks: int, length: int, *, groups: int, block: int, release: Release | None
) -> int:
    """ "KV cache size" as this release prints it. `groups`: of layers; `block`: tokens of the least of their blocks."""
    if release is not None and release < TOKENS_ARE_CONCURRENCY:
        return blocks // groups * block
    return int(blocks / request_blocks * length)


def longest(takes: Callable[[int], int], blocks: int, most: int) -> int:
    """The most tokens, up to `most`, whose request takes no more than `blocks` blocks; 0 where none does."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if takes(middle) <= blocks else (low, middle)
    return low
