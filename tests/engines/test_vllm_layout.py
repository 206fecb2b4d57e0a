"""The groups of blocks, decided by what a server prints: never more than the pool holds, whatever it was made of."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ullage.capacity.demand import Together
from ullage.engines.version import Release
from ullage.engines.vllm.families import Family, Layers, family_of
from ullage.engines.vllm.groups import (
    Layout,
    deepseek_v4,
    full_group,
    one_group,
    window_group,
    with_states,
    with_windows,
)
from ullage.engines.vllm.layout import Decision, Stated, decide
from ullage.engines.vllm.size import printed_tokens

OLD, NEW = (0, 19, 0), (0, 27, 0)
LENGTHS = st.integers(1_000, 300_000)


class Pool(NamedTuple):
    """A pool as the engine made it, and what it knows of itself."""

    layout: Layout
    groups: int
    blocks: int
    block: int
    length: int
    batched: int
    release: Release
    family: Family | None

    @property
    def request(self) -> int:
        return self.layout.blocks(self.length)

    def printed(self) -> Stated:
        """As a log tells it: tokens, and the concurrency with two decimals."""
        tokens = printed_tokens(
            self.blocks, self.request, self.length, groups=self.groups, block=self.block, release=self.release
        )
        rounded = round(self.blocks / self.request, 2)
        return self._stated(printed=tokens, concurrency=rounded)

    def paged(self) -> Stated:
        """As the metrics page tells it since 0.26."""
        return self._stated(blocks=self.blocks, concurrency=self.blocks / self.request, rounded=False)

    def _stated(
        self, *, concurrency: float, rounded: bool = True, blocks: int | None = None, printed: int | None = None
    ) -> Stated:
        states = self.family is not None and self.family.layers is Layers.STATES
        return Stated(
            self.length,
            self.block,
            blocks,
            concurrency,
            rounded,
            printed,
            self.batched,
            self.release,
            self.family,
            states,
        )


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    kind, release = draw(st.sampled_from(Layers)), draw(st.sampled_from([OLD, NEW]))
    length, batched = draw(LENGTHS), draw(st.sampled_from([1024, 2048, 8192, 16384]))
    flight = batched if release == OLD else 2 * batched
    block, groups, family = 16, 1, draw(st.sampled_from([None, Family(Layers.PLAIN)]))
    layout = one_group(block)
    if kind is Layers.WINDOWS:
        count, window = draw(st.integers(1, 8)), draw(st.sampled_from([128, 512, 1024, 4096]))
        layout, groups = with_windows(full_group(block), [(window, block)] * count, flight), count + 1
        family = draw(st.sampled_from([None, Family(Layers.WINDOWS), Family(Layers.WINDOWS, window)]))
    elif kind is Layers.STATES:
        block, count = draw(st.sampled_from([544, 784, 1056, 2096])), draw(st.integers(1, 4))
        layout, groups = with_states(full_group(block), count), count + 1
        family = Family(Layers.STATES)
    elif kind is Layers.DEEPSEEK_V4:
        block, layout, groups, family = 256, deepseek_v4(flight), 5, Family(Layers.DEEPSEEK_V4)
    blocks = draw(st.integers(2, 40)) * layout.blocks(length) // draw(st.integers(1, 8))
    assume(blocks >= layout.blocks(length) // 2)
    return Pool(layout, groups, blocks, block, length, batched, release, family)


def at_most(decided: Decision, pool: Pool) -> bool:
    """Does a request take no fewer blocks, by the decision, than it really does?"""
    assert decided.layout is not None
    probes = [max(1, pool.length * part // 10) for part in range(1, 11)]
    return all(decided.layout.blocks(tokens) >= pool.layout.blocks(tokens) for tokens in probes)


@given(pools())
def test_the_page_tells_the_groups_or_bounds_them(pool: Pool) -> None:
    decided = decide(pool.paged())
    assert decided.blocks == pool.blocks
    assert decided.request_blocks == pool.request
    if decided.proven:
        assert decided.layout is not None
        assert decided.layout.blocks(pool.length) == pool.request
        assert at_most(decided, pool)


@given(pools())
def test_a_known_family_is_told_exactly_by_the_page(pool: Pool) -> None:
    """But for windows whose number is not known."""
    if pool.family is None or (pool.family.layers is Layers.WINDOWS and pool.family.window is None):
        return
    decided = decide(pool.paged())
    assert decided.layout is not None
    probes = [max(1, pool.length * part // 10) for part in range(1, 11)]
    assert [decided.layout.blocks(n) for n in probes] == [pool.layout.blocks(n) for n in probes]


@given(pools())
def test_a_log_never_gives_a_larger_pool_than_there_is(pool: Pool) -> None:
    """Of one group, or of a family whose groups are known; where it cannot tell, it says so."""
    decided = decide(pool.printed())
    if decided.layout is None or not decided.proven:
        return
    assert decided.blocks is not None
    slack = 0.006 * pool.request + pool.groups  # the printed concurrency is rounded, and the tokens to whole blocks
    assert abs(decided.blocks - pool.blocks) <= slack


@given(pools())
def test_a_log_tells_windows_of_a_known_length_where_the_pool_is_printed_over_the_groups(pool: Pool) -> None:
    if pool.family is None or pool.family.window is None or pool.release != OLD:
        return
    decided = decide(pool.printed())
    if decided.layout is not None and len(decided.layout.asked.groups) == pool.groups:
        assert [decided.layout.blocks(n) for n in (1, pool.length)] == [pool.layout.blocks(n) for n in (1, pool.length)]
        assert decided.blocks is not None
        assert abs(decided.blocks - pool.blocks) <= pool.groups
    assert not decided.proven or decided.layout is None


@st.composite
def windowed(draw: st.DrawFn) -> Pool:
    """All layers with one window, as Mistral 7B v0.1 and Phi-3 mini have them."""
    length, batched = draw(LENGTHS), draw(st.sampled_from([1024, 2048, 8192]))
    release, window = draw(st.sampled_from([OLD, NEW])), draw(st.sampled_from([2047, 4096, 262_144]))
    flight = batched if release == OLD else 2 * batched
    groups = [Together((window_group(window, 16, tokens),)) for tokens in (flight, 1)]
    layout = Layout("one window", *groups)
    request, full = layout.blocks(length), -(-length // 16)
    assume(request - full not in (-1, 0))  # as a group without a window takes, or nearly
    pool = draw(st.integers(request // 2, 400 * request))
    return Pool(layout, 1, pool, 16, length, batched, release, Family(Layers.PLAIN, window))


def curve(layout: Layout, length: int) -> list[int]:
    return [layout.blocks(max(1, length * part // 10)) for part in range(1, 11)]


@given(windowed())
def test_the_page_tells_a_window_in_all_layers(pool: Pool) -> None:
    """Exactly where the model's window is known; never with fewer blocks where it is not."""
    known = decide(pool.paged())
    assert known.layout is not None
    assert known.proven
    assert curve(known.layout, pool.length) == curve(pool.layout, pool.length)
    for family in (None, Family(Layers.PLAIN)):
        blind = decide(pool._replace(family=family).paged())
        assert blind.request_blocks == pool.request
        assert blind.layout is None or at_most(blind, pool)


@given(windowed())
def test_a_log_tells_a_window_in_all_layers_where_all_blocks_are_printed(pool: Pool) -> None:
    """Until 0.20.2; but where the concurrency is so small that rounding hides one block."""
    for family in (pool.family, Family(Layers.PLAIN)):
        decided = decide(pool._replace(family=family).printed())
        if pool.release == OLD and decided.layout is not None:
            assert decided.blocks == pool.blocks
            assert at_most(decided, pool) or pool.blocks / (pool.request - 1) <= pool.blocks / pool.request + 0.026


@given(windowed())
def test_a_later_log_tells_it_by_the_window_of_the_model(pool: Pool) -> None:
    decided = decide(pool.printed())
    if pool.release != NEW or not pool.printed().printed:
        return
    assert decided.layout is not None
    assert decided.blocks is not None
    assert curve(decided.layout, pool.length) == curve(pool.layout, pool.length)
    assert abs(decided.blocks - pool.blocks) <= 1
    assert not decided.proven


@pytest.mark.parametrize(
    ("name", "layers"),
    {
        "LlamaForCausalLM": Layers.PLAIN,
        "Qwen/Qwen3-30B-A3B-Instruct-2507": Layers.PLAIN,
        "/models/qwen2_5_14b_instruct_awq": Layers.PLAIN,
        "Qwen3MoeForCausalLM": Layers.PLAIN,
        "Qwen/Qwen3-Next-80B-A3B": Layers.STATES,
        "Qwen3_5MoeForConditionalGeneration": Layers.STATES,
        "Qwen3.6-27B": Layers.STATES,
        "NVIDIA-Nemotron-3-Nano-30B": Layers.STATES,
        "ibm-granite/granite-4.0-h-small": Layers.STATES,
        "moonshotai/Kimi-Linear-48B": Layers.STATES,
        "moonshotai/Kimi-K2.6": Layers.PLAIN,
        "openai/gpt-oss-120b": Layers.WINDOWS,
        "GptOssForCausalLM": Layers.WINDOWS,
        "google/gemma-3-27b-it": Layers.WINDOWS,
        "Gemma3ForConditionalGeneration": Layers.WINDOWS,
        "google/gemma-4-31B-it": Layers.WINDOWS,
        "deepseek-ai/DeepSeek-V4-Flash": Layers.DEEPSEEK_V4,
        "DeepseekV4ForCausalLM": Layers.DEEPSEEK_V4,
        "deepseek-ai/DeepSeek-V3.1": Layers.PLAIN,
        "moonshotai/Kimi-K3": Layers.STATES,
        "KimiK3ForConditionalGeneration": Layers.STATES,
        "zai-org/GLM-5.3-Flash": Layers.STATES,
        "Glm5NextForConditionalGeneration": Layers.STATES,
        "zai-org/GLM-5.2-FP8": Layers.PLAIN,
        "GlmMoeDsaForCausalLM": Layers.PLAIN,
        "zai-org/GLM-4.5-Air": Layers.PLAIN,
        "Qwen/Qwen3-Coder-Next": Layers.STATES,
        "Qwen/Qwen3-Coder-30B-A3B-Instruct": Layers.PLAIN,
        "qwen36-27b": Layers.STATES,
        "qwen3_8b": Layers.PLAIN,
        "qwen3-8b-awq": Layers.PLAIN,
        "qwen3_6_27b": Layers.STATES,
        "Qwen/QwQ-32B": Layers.PLAIN,
        "google/gemma-2b-it": Layers.PLAIN,
        "google/gemma-2-2b-it": Layers.WINDOWS,
        "google/gemma-7b": Layers.PLAIN,
        "google/medgemma-27b-text-it": Layers.WINDOWS,
        "nvidia/Llama-3.1-Nemotron-Nano-8B-v1": Layers.PLAIN,
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1": Layers.PLAIN,
        "nvidia/NVIDIA-Nemotron-Nano-9B-v2": Layers.STATES,
        "NemotronHForCausalLM": Layers.STATES,
        "meta-llama/Llama-4-Scout-17B-16E-Instruct": Layers.WINDOWS,
        "Llama4ForConditionalGeneration": Layers.WINDOWS,
        "meta-llama/Llama-3.3-70B-Instruct": Layers.PLAIN,
        "DeepseekV32ForCausalLM": Layers.PLAIN,
        "deepseek-ai/DeepSeek-V3.2": Layers.PLAIN,
        "MiniMaxAI/MiniMax-M1-80k": Layers.STATES,
        "MiniMaxText01ForCausalLM": Layers.STATES,
        "MiniMaxM2ForCausalLM": Layers.PLAIN,
        "microsoft/Phi-4-mini-flash-reasoning": Layers.STATES,
        "microsoft/Phi-4-mini-instruct": Layers.PLAIN,
        "inclusionAI/Ring-flash-linear-2.0": Layers.STATES,
        "LGAI-EXAONE/K-EXAONE-236B-A23B": Layers.WINDOWS,
        "ByteDance-Seed/Seed-OSS-36B-Instruct": Layers.PLAIN,
        "tencent/Hunyuan-A13B-Instruct": Layers.PLAIN,
        "baidu/ERNIE-4.5-300B-A47B-PT": Layers.PLAIN,
        "mistralai/Devstral-Small-2507": Layers.PLAIN,
        "openai/whisper-large-v3": None,
        "my-finetune": None,
        "/models/tiny": None,
    }.items(),
)
def test_families_by_name(name: str, layers: Layers | None) -> None:
    found = family_of(name)
    assert (found and found.layers) == layers


@pytest.mark.parametrize(
    ("names", "window"),
    [
        (("Phi3ForCausalLM", "microsoft/Phi-3-mini-4k-instruct"), 2047),
        (("MistralForCausalLM", "mistralai/Mistral-7B-Instruct-v0.1"), 4096),
        (("HuggingFaceH4/zephyr-7b-beta",), 4096),
        (("MistralForCausalLM", "mistralai/Mistral-7B-Instruct-v0.3"), None),
        (("Phi3ForCausalLM", "microsoft/phi-4"), None),
    ],
)
def test_a_window_in_all_layers_by_the_name_of_the_model(names: tuple[str, ...], window: int | None) -> None:
    assert family_of(*names) == Family(Layers.PLAIN, window)
