"""Worked examples: what vLLM printed in public logs comes out of the formulas, from the model's shape and the memory.

Memory is printed with two decimals, so blocks that come from it can be off by some: `off` says by how much.
"""

from __future__ import annotations

from math import isclose
from typing import NamedTuple

import pytest

from ullage.engines.vllm.families import family_of
from ullage.engines.vllm.groups import deepseek_v4, full_group, one_group, with_windows
from ullage.engines.vllm.layout import Stated, decide
from ullage.engines.vllm.size import (
    attention_block,
    attention_page,
    concurrency,
    grouped,
    latent_page,
    longest,
    pool_blocks,
    printed_tokens,
)

GIB = 2**30
LLAMA_8B = 32 * attention_page(16, 8, 128, 2)
GPT_OSS = 18 * attention_page(16, 8, 64, 2)  # a block: one page of each of a group's 18 layers
V4_KV, V4_HCA, V4_INDEXER, V4_STATE = 37_440, 1_728, 8_640, 32_832  # bytes of a page, padded (0.28)
V4_FLASH_OLD = 22 * (V4_KV + V4_INDEXER + V4_HCA)  # bytes of a block, 0.20 to 0.25
V4_FLASH = 21 * V4_KV + 21 * V4_INDEXER + 20 * V4_HCA  # since 0.26: of the widest group


def gpt_oss(in_flight: int) -> int:
    return with_windows(full_group(16), [(128, 16)], in_flight).blocks(131_072)


def v4_pool(printed: int, length: int, in_flight: int) -> int:
    decided = decide(
        Stated(
            length,
            printed=printed,
            concurrency=printed / length,
            batched=in_flight,
            release=(0, 25, 0),
            family=family_of("DeepSeek-V4-Flash"),
        )
    )
    assert decided.blocks is not None
    return decided.blocks


class Example(NamedTuple):
    """`observed`: as a public log or page states it. `off`: the relative error that is left."""

    what: str
    computed: float
    observed: float
    off: float = 0.0


EXAMPLES = (
    Example("1 Llama-3.1-8B, 3.81 GiB, blocks", pool_blocks(3.81 * GIB, LLAMA_8B), 1_952, 0.0011),
    Example("2 Llama-3.1-8B, 2.89 GiB, blocks", pool_blocks(2.89 * GIB, LLAMA_8B), 1_478, 0.0008),
    Example("3 concurrency at 29,000", round(concurrency(1_478, one_group(16).blocks(29_000)), 2), 0.82),
    Example(
        "4 Llama-3.1-8B on two GPUs, 3.76 GiB, blocks",
        pool_blocks(3.76 * GIB, 32 * attention_page(16, 8, 128, 2, tp=2)),
        3_852,
        0.0006,
    ),
    Example(
        "5 Qwen3-235B, fewer KV heads than GPUs, tokens",
        16 * pool_blocks(8.11 * GIB, 94 * attention_page(16, 4, 128, 2, tp=4)),
        178_880,
        0.0115,  # the line is of one rank, and the pool of the poorest
    ),
    Example(
        "7 gpt-oss-120b, 5.38 GiB, tokens as printed until 0.20",
        printed_tokens(pool_blocks(5.38 * GIB, GPT_OSS), 0, 0, groups=2, block=16, release=(0, 20, 0)),
        78_384,
        0.0007,
    ),
    Example("8 gpt-oss-120b, GiB for 131,072 tokens", round(gpt_oss(1_024) * GPT_OSS / GIB, 2), 4.54),
    Example(
        "9 gemma-3-4b, concurrency at 3,072",
        round(concurrency(138_747, with_windows(full_group(16), [(1024, 16)] * 6, 8192).blocks(3_072)), 2),
        102.78,
    ),
    Example("10 gemma-3-4b, padding in percent", round(100 * grouped([5, 29]).padding[1] / 29, 2), 3.45),
    Example("11 Qwen3.5-27B, block that holds its state", attention_block(3_207_168, 4_096), 784),
    Example("12 Qwen3.5-27B, concurrency", round(concurrency(1_487, one_group(784).blocks(32_768) + 3), 2), 33.04),
    Example(
        "13 Qwen3.6-35B-A3B, tokens at 131,072",
        printed_tokens(299, one_group(2_096).blocks(131_072) + 6, 131_072, groups=4, block=2_096, release=(0, 24, 0)),
        567_978,
    ),
    Example(
        "14 Qwen3.8-27B, tokens at 124,000",
        printed_tokens(62, one_group(2_784).blocks(124_000) + 6, 124_000, groups=4, block=2_784, release=(0, 29, 0)),
        150_745,
    ),
    Example(
        "15 DeepSeek-V4-Flash, GiB for 30,000", round(deepseek_v4(16_384).blocks(30_000) * V4_FLASH_OLD / GIB, 2), 6.66
    ),
    Example(
        "16 DeepSeek-V4-Flash, longest in 5.44 GiB",
        longest(deepseek_v4(16_384).blocks, pool_blocks(5.44 * GIB, V4_FLASH_OLD), 30_000),
        13_528,
        0.0003,
    ),
    Example("17 DeepSeek-V4-Flash, widest group", V4_FLASH, 1_002_240),
    Example("17 window groups", 22 * V4_KV, 823_680),
    Example("17 window groups", 21 * V4_KV, 786_240),
    Example("17 compressor states", 21 * V4_STATE + 21 * V4_INDEXER, 870_912),
    Example("17 compressor states", 20 * V4_STATE, 656_640),
    Example(
        "18 GiB that 2,048 instead of 8,224 batched tokens free",
        round((v4_pool(1_262_567, 262_144, 2_048) - v4_pool(290_632, 262_144, 8_224)) * V4_FLASH / GIB, 2),
        3.91,
        0.003,
    ),
    Example("19 GLM-5.2, bytes a token", 79 * latent_page(1, 656) + 22 * latent_page(1, 132), 54_728),
    Example(
        "20 Qwen3-Coder-30B, GiB for 262,144",
        round(one_group(16).blocks(262_144) * 48 * attention_page(16, 4, 128, 2) / GIB, 2),
        24.0,
    ),
    Example(
        "21 Qwen3-Coder-30B, longest in 3.18 GiB",
        longest(one_group(16).blocks, pool_blocks(3.18 * GIB, 48 * attention_page(16, 4, 128, 2)), 262_144),
        34_736,
        0.0006,
    ),
    Example(
        "24 62 layers of 8 x 128, 12.57 GiB, tokens",
        16 * pool_blocks(12.57 * GIB, 62 * attention_page(16, 8, 128, 2)),
        53_136,
    ),
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.what)
def test_worked_example(example: Example) -> None:
    assert isclose(example.computed, example.observed, rel_tol=example.off), example.computed
