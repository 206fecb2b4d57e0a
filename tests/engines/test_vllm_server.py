"""A vLLM server from its evidence, through the public path: what it holds, and what is said where that is not known."""

from __future__ import annotations

from typing import Any

import pytest

from tests.evidence import argv, document, log, metrics, vllm_start, vllm_stats
from ullage.capacity.request import Shape
from ullage.deployment import reach_of, server_limits, total_context
from ullage.engines.read import read
from ullage.engines.server import Role, Server
from ullage.evidence import Evidence
from ullage.figure import Kind
from ullage.report.model import report_on

URL = "http://127.0.0.1:8000"
MODELS = {"object": "list", "data": [{"id": "m", "owned_by": "vllm", "max_model_len": 8192}]}
INFO = 'vllm:cache_config_info{{block_size="{}",num_gpu_blocks="{}",enable_prefix_caching="True",engine="0"{}}} 1.0'


def server(*items: Evidence) -> Server:
    [found], unclaimed = read(items)
    assert not unclaimed
    return found


def admits(found: Server, prompt: int, output: int = 0) -> tuple[float, float, float]:
    limits = server_limits(found, Shape(prompt, output))
    return limits.safe.number, limits.admits.least, limits.admits.most


def test_one_group_counts_blocks_less_the_null_block() -> None:
    """64,000 tokens are 4,000 blocks of 16; a request of 1,600 takes 100 of the 3,999 that can be given."""
    found = server(log("vllm.log", *vllm_start(64_000, 7.81, max_num_seqs=256)))
    assert found.engine == "vLLM"
    assert found.figures["kv_blocks"].value == 3_999
    assert admits(found, 1_600) == (39, 39, 39)
    assert total_context(found).value == 63_984
    assert server_limits(found, Shape(1_600)).binds == "KV pool"
    assert server_limits(found, Shape(16)).binds == "request slots"


def test_before_0_19_the_first_chunk_opens_the_door() -> None:
    lines = vllm_start(64_000, 7.81, "Chunked prefill is enabled with max_num_batched_tokens=512.", version="0.11.0")
    assert admits(server(log("vllm.log", *lines)), 1_600) == (39, 40, 40)


def test_v0_has_no_null_block_and_keeps_one_percent_free() -> None:
    found = server(
        log(
            "vllm.log",
            "INFO 12-31 08:01:24 [x.py:240] Initializing a V0 LLM engine (v0.8.5) with config: max_seq_len=8192",
            "INFO 12-31 08:01:48 [executor_base.py:112] # cuda blocks: 4000, # CPU blocks: 2340",
            "INFO 12-31 08:01:48 [executor_base.py:117] Maximum concurrency for 8192 tokens per request: 7.81x",
        )
    )
    assert found.figures["kv_blocks"].value == 4_000
    assert admits(found, 1_600) == (39, 39, 39)  # 4,000 - 40 kept free - 100 each


def test_log_and_live_endpoints_are_one_server() -> None:
    found = server(
        log("vllm.log", *vllm_start(64_000, 7.81, served_model_name="m", version="0.27.0")),
        document(URL, "version", {"version": "0.27.0"}),
        document(URL, "models", MODELS),
        metrics(URL, INFO.format(16, 4000, ',kv_cache_size_tokens="64000",kv_cache_max_concurrency="7.8125"')),
    )
    assert (found.name, found.figures["version"].value) == (URL, "0.27.0")
    assert found.disagreements == ()
    assert admits(found, 1_600) == (39, 39, 39)


def test_windows_are_told_by_the_pages_ratio_and_admit_a_range() -> None:
    """gpt-oss: a full group and one of windows of 128. 1,024 tokens take 64 blocks, and 65 of the windows while a batch
    of 1,024 is in flight, 9 after it.
    """
    request = -(-131_072 // 16) + -(-(127 + 1_024) // 16) + 1
    ratio = f',kv_cache_size_tokens="{int(9_000 / request * 131_072)}",kv_cache_max_concurrency="{9_000 / request!r}"'
    found = server(
        argv("vllm serve openai/gpt-oss-20b --max-num-batched-tokens 1024 --max-num-seqs 256 --no-async-scheduling"),
        metrics(URL, INFO.format(16, 9_000, ratio), 'vllm:num_requests_running{model_name="openai/gpt-oss-20b"} 0'),
        document(URL, "version", {"version": "0.25.1"}),
    )
    assert found.figures["blocks_per_full_request"].value == request
    assert admits(found, 1_024) == (8_999 // 129, 8_999 // 129, (8_999 - 129) // 73 + 1)


def test_groups_that_nothing_tells_give_a_range_and_a_bound() -> None:
    """Printed is concurrency times context, whatever the groups are: a request takes between its own and a full one."""
    found = server(log("vllm.log", *vllm_start(214_135, 3.27, length=65_536, version="0.29.0", model="/models/x")))
    safe, low, high = admits(found, 4_096)
    assert (safe, low) == (3, 3)
    assert high == (214_135 - 65_536) // 4_096 + 1
    assert found.figures["kv_cache_size_meaning"].value == "concurrency x max_model_len"


@pytest.mark.parametrize(("printed", "version"), [(290_864, "0.19.0"), (int(1_487 / 45 * 32_768), "0.27.0")])
def test_a_hybrid_is_told_by_its_enlarged_block_whatever_is_printed(printed: int, version: str) -> None:
    """Qwen3.5-27B: 1,487 blocks of 784 tokens, 42 + 3 a full-length request. One token takes 1 + 3."""
    block = "Setting attention block size to 784 tokens to ensure that attention page size is >= mamba page size."
    off = {"enable_prefix_caching": False}
    lines = vllm_start(printed, 33.04, block, length=32_768, version=version, model="Qwen/Qwen3.5-27B", **off)
    found = server(log("vllm.log", *lines))
    assert found.figures["num_gpu_blocks"].value == 1_487
    assert found.figures["fixed_blocks_per_request"].value == 3
    assert admits(found, 32_768)[0] == 33
    assert admits(found, 1)[0] == 1_486 // 4


def test_data_parallel_engines_each_have_a_pool() -> None:
    info = [INFO.format(16, 8000, "").replace('engine="0"', f'engine="{n}"') for n in range(2)]
    gauges = [f'vllm:num_requests_running{{engine="{n}",model_name="m"}} {n}' for n in range(2)]
    found = server(metrics(URL, *info, *gauges), argv("vllm serve m --max-num-seqs 64 -dp 2"))
    assert found.running.value == 1
    assert admits(found, 1_600) == (78, 78, 78)
    assert total_context(found).value == 2 * 63_984


def test_engines_of_unequal_pools_are_summed() -> None:
    """3,999 blocks on one, 2,999 on the other: 39 and 29 requests of 100 blocks."""
    core = "(EngineCore_DP{0} pid={0}) INFO 09-12 10:00:30 [kv_cache_utils.py:1] {1}"
    lines = [
        core.format(n, text)
        for n, tokens in enumerate((64_000, 48_000))
        for text in (
            f"GPU KV cache size: {tokens:,} tokens",
            f"Maximum concurrency for 8,192 tokens per request: {tokens / 8192:.2f}x",
        )
    ]
    found = server(log("vllm.log", *vllm_start(1, 1, max_num_seqs=64)[:3], *lines))
    assert admits(found, 1_600) == (68, 68, 68)
    assert total_context(found).value == (3_999 + 2_999) * 16
    assert [rank.figures["kv_blocks"].value for rank in found.ranks] == [3_999, 2_999]


def test_context_parallel_ranks_share_out_the_tokens() -> None:
    lines = vllm_start(256_000, 7.81, length=32_768, version="0.27.0", decode_context_parallel_size=4)
    assert admits(server(log("vllm.log", *lines)), 6_400)[0] == 39  # 4,000 blocks that hold 64 tokens each


def test_a_longer_context_than_the_pool_is_told() -> None:
    """0.8 starts with less than one full context; a longer prompt waits for ever."""
    found = server(log("vllm.log", *vllm_start(69_920, 0.53, length=131_072, version="0.8.4")))
    assert reach_of(found).tokens.value == 69_904
    assert server_limits(found, Shape(100_000)).admits.value == 0


def test_use_is_a_level_of_the_pool() -> None:
    found = server(log("vllm.log", *vllm_start(64_000, 7.81, max_num_seqs=8), vllm_stats("10:05:00", 3, 2, 25.0)))
    levels = {level.pool: level for level in found.levels}
    assert levels["KV pool"].used.value == 1_000
    assert not levels["KV pool"].evictable.known
    assert (levels["request slots"].used.value, levels["request slots"].size.value) == (3, 8)
    assert [(queue.label, queue.waiting.value) for queue in found.queues] == [("waiting", 2)]


def test_what_was_not_asked_for_is_not_stated() -> None:
    found = server(document(URL, "models", MODELS))
    assert not total_context(found).known
    assert not server_limits(found, Shape(100)).admits.known
    assert found.settings[1].effective.kind is Kind.MISSING


def test_the_default_of_slots_goes_with_the_token_budget() -> None:
    """8,192 tokens a step that nobody asked for are the default of GPUs on which 1,024 requests run."""
    budget = "Chunked prefill is enabled with max_num_batched_tokens=8192."
    found = server(log("vllm.log", *vllm_start(64_000, 7.81, budget)))
    slots = found.pools[1].size
    assert (slots.value, slots.kind) == (1_024, Kind.INFERRED)
    asked = server(log("vllm.log", *vllm_start(64_000, 7.81, budget, max_num_batched_tokens=8192)))
    assert not asked.pools[1].size.known


def test_prefill_and_decode_are_not_reckoned_as_one() -> None:
    items = [
        log(
            f"{role}.log",
            *vllm_start(64_000, 7.81, port=port, kv_transfer_config={"kv_connector": "x", "kv_role": role}),
        )
        for port, role in enumerate(("kv_producer", "kv_consumer"), 8000)
    ]
    report = report_on(items)
    assert [s.role for s in report.deployment.servers] == [Role.PREFILL, Role.DECODE]
    assert "chain not computed" in report.deployment.no_chain
    assert all(answer.chain is None for answer in report.answers)


@pytest.mark.parametrize("connector", ["LMCacheConnectorV1", "OffloadingConnector", "SharedStorageConnector"])
def test_a_connector_that_keeps_kv_elsewhere_makes_no_pair(connector: str) -> None:
    transfer = {"kv_connector": connector, "kv_role": "kv_both"}
    assert server(log("vllm.log", *vllm_start(64_000, 7.81, kv_transfer_config=transfer))).role is Role.UNIFIED


def test_without_chunked_prefill_a_prompt_must_fit_a_step() -> None:
    budget = "Chunked prefill is enabled with max_num_batched_tokens=4096."
    found = server(log("vllm.log", *vllm_start(64_000, 7.81, budget, enable_chunked_prefill=False)))
    assert reach_of(found).tokens.value == 4_096


def test_a_hybrid_says_what_a_request_costs() -> None:
    block = "Setting attention block size to 784 tokens to ensure that attention page size is >= mamba page size."
    memory = "Available KV cache memory: 8.0 GiB"
    lines = vllm_start(290_864, 33.04, block, memory, length=32_768, model="Qwen/Qwen3.5-27B", version="0.19.0")
    told = [note for note in server(log("vllm.log", *lines)).notes if "a request takes" in note]
    assert told == [
        "a request takes up to 3 blocks whatever its length, and one more for every 784 tokens: 0.02 GiB, and 7.20 KiB"
        " a token"
    ]


def test_one_side_of_a_pair_whose_role_is_not_told_says_so() -> None:
    transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    found = server(log("vllm.log", *vllm_start(64_000, 7.81, kv_transfer_config=transfer)))
    assert found.role is Role.UNKNOWN
    assert any("NixlConnector" in note for note in found.notes)


def test_deepseek_v4_is_told_by_name_and_ratio_whatever_block_the_page_states() -> None:
    """262,144 tokens, 8,192 batched, two batches in flight: 1,024 + 2 x 259 + 4,099 + 2,065 blocks."""
    request, blocks = 7_706, 8_939
    ratio = f',kv_cache_size_tokens="{int(blocks / request * 262_144)}",kv_cache_max_concurrency="{blocks / request!r}"'
    found = server(
        argv("vllm serve deepseek-ai/DeepSeek-V4-Flash --max-num-batched-tokens 8192 --max-num-seqs 512"),
        metrics(URL, INFO.format(4, blocks, ratio)),
        document(URL, "version", {"version": "0.28.0"}),
    )
    assert found.figures["blocks_per_full_request"].value == request
    assert found.figures["block_size"].value == 4  # as the page has it
    assert admits(found, 262_144)[0] == 1
    safe, low, high = admits(found, 4_096)
    asked, held = 16 + 2 * 65 + 1_025 + 513, 16 + 2 * 3 + 3 + 17
    assert (safe, low, high) == (8_938 // asked, 8_938 // asked, (8_938 - asked) // held + 1)


@pytest.mark.parametrize(
    ("model", "tokens", "concurrency", "length", "version"),
    [
        ("openai/whisper-large-v3", 33_216, 26.62, 448, "0.15.1"),  # the encoder's tokens take blocks too
        ("my-finetune", 33_216, 26.62, 448, "0.22.0"),
    ],
)
def test_no_more_full_length_requests_are_told_than_the_engine_states(
    model: str, tokens: int, concurrency: float, length: int, version: str
) -> None:
    found = server(log("vllm.log", *vllm_start(tokens, concurrency, length=length, model=model, version=version)))
    assert found.figures["kv_cache_size_tokens"].value == tokens
    assert admits(found, length) == (int(concurrency),) * 3
    assert total_context(found).number <= concurrency * length


def test_a_window_in_all_layers_takes_one_block_more_than_the_tokens() -> None:
    """Pool 35,648 / 16 = 2,228 blocks; a request ceil(min(2,046 + 2,048, 4,096) / 16) + 1 = 257, which is 8.67 times;
    once its prompt is done it keeps 2,047 tokens.
    """
    start = vllm_start(35_648, 8.67, length=4_096, model="microsoft/Phi-3-mini-4k-instruct", version="0.19.1")
    found = server(log("vllm.log", *start))
    assert {n: found.figures[n].value for n in ("num_gpu_blocks", "blocks_per_full_request", "pool_tokens")} == {
        "num_gpu_blocks": 2_228,
        "blocks_per_full_request": 257,
        "pool_tokens": 35_648,
    }
    assert admits(found, 4_096) == (8, 8, (2_227 - 257) // 129 + 1)
    assert admits(found, 1_000)[0] == 2_227 // 64
    assert total_context(found).number <= 8.67 * 4_096
    assert "kv_cache_size_meaning" not in found.figures
    assert any(note.startswith("a request takes 1 block whatever") for note in found.notes)


def test_a_short_window_in_all_layers_bounds_what_a_request_takes() -> None:
    """4,095 + 2,048 tokens of 32,768 are held at most: 385 blocks."""
    start = vllm_start(61_600, 10.0, length=32_768, model="mistralai/Mistral-7B-Instruct-v0.1", version="0.19.1")
    found = server(log("vllm.log", *start))
    assert found.figures["blocks_per_full_request"].value == 385
    assert found.figures["fixed_blocks_per_request"].value == 385
    assert admits(found, 32_768)[0] == 3_849 // 385
    assert admits(found, 1_000)[0] == 3_849 // 64


@pytest.mark.parametrize(("draft", "cached", "states"), [(0, False, 3), (0, True, 6), (3, False, 12), (2, True, 12)])
def test_a_draft_takes_states_of_a_hybrid_too(draft: int, cached: bool, states: int) -> None:
    """Three groups of recurrent layers: each holds a state (two where prefixes are cached) and one a draft token."""
    length, block, blocks = 262_144, 1_600, 1_472
    request = -(-length // block) + states
    asked = {"speculative_config": {"method": "mtp", "num_speculative_tokens": draft}} if draft else {}
    line = f"Setting attention block size to {block} tokens to ensure that attention page size is >= mamba page size."
    printed, given = int(blocks / request * length), {"model": "Qwen/Qwen3.8-27B", "enable_prefix_caching": cached}
    start = vllm_start(printed, blocks / request, line, length=length, version="0.25.1", **given, **asked)
    found = server(log("vllm.log", *start))
    assert found.figures["fixed_blocks_per_request"].value == states
    assert found.figures["num_gpu_blocks"].value == blocks


@pytest.mark.parametrize(
    ("model", "window", "groups", "blocks"),
    [
        ("openai/gpt-oss-20b", 128, 1, 35_329),
        ("google/gemma-2-9b-it", 4_096, 1, 9_000),
        ("google/gemma-3-27b-it", 1_024, 6, 20_003),
    ],
)
def test_windows_of_a_known_length_are_told_by_a_log_too(model: str, window: int, groups: int, blocks: int) -> None:
    """Before 0.20.2 the tokens are the pool over the groups, and the concurrency is of whole requests."""
    length, batched = 16_384, 2_048
    request = length // 16 + groups * (-(-(window - 1 + batched) // 16) + 1)
    line = f"Chunked prefill is enabled with max_num_batched_tokens={batched}."
    printed = blocks // (groups + 1) * 16
    found = server(
        log("vllm.log", *vllm_start(printed, blocks / request, line, length=length, model=model, version="0.13.0"))
    )
    assert found.figures["blocks_per_full_request"].value == request
    assert found.figures["blocks_per_full_request"].kind is Kind.INFERRED
    assert 0 <= blocks - found.figures["num_gpu_blocks"].number <= groups
    assert admits(found, length)[0] <= blocks / request


def test_a_server_that_pools_has_no_output_to_bound() -> None:
    """An error that lists the pooling tasks of a server says nothing of what else it does."""
    said = "(APIServer pid=7) INFO 09-12 10:00:30 [api_server.py:1] Supported tasks: ['{}']"
    error = "(EngineCore pid=9) ERROR 09-12 10:00:40 [core.py:1] ValueError: Unsupported task: 'x' Supported tasks: []"
    for tasks, output in (
        ("embed', 'token_embed", None),
        ("generate", "unbounded"),
        ("generate', 'embed", "unbounded"),
    ):
        [server] = read([log("vllm.log", *vllm_start(64_000, 7.81), said.format(tasks), error)])[0]
        assert server.default_output.value == output, tasks


@pytest.mark.parametrize(("asked", "kind"), [(None, Kind.MISSING), (4096, Kind.DERIVED)])
def test_a_token_budget_that_was_asked_for_is_in_effect(asked: int | None, kind: Kind) -> None:
    """Where no line states it: vLLM changes only one that it chose itself."""
    given: dict[str, Any] = {"max_num_batched_tokens": asked} if asked else {}
    found = server(log("vllm.log", *vllm_start(64_000, 7.81, **given)))
    [budget] = [setting for setting in found.settings if setting.label == "token budget a step"]
    assert (budget.effective.kind, budget.effective.value) == (kind, asked)


def test_a_token_budget_that_the_log_states_is_read() -> None:
    line = "Chunked prefill is enabled with max_num_batched_tokens=8192."
    found = server(log("vllm.log", *vllm_start(64_000, 7.81, line, max_num_batched_tokens=8192)))
    [budget] = [setting for setting in found.settings if setting.label == "token budget a step"]
    assert (budget.effective.kind, budget.effective.value) == (Kind.READ, 8192)
