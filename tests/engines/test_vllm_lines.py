"""Lines of vLLM's log, in every era's form, behind what stands before them: what they state, and what they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.engines.vllm.lines import Step, events_of, records
from ullage.evidence import LogLine

TAGS = ("", "(EngineCore pid=27) ", "(EngineCore_DP0 pid=27) ", "(VllmWorker rank=0 pid=9) ", "(Worker_TP0 pid=9) ")
HEADS = (
    "",
    "INFO 09-12 10:00:00 [kv_cache_utils.py:864] ",
    "INFO 09-12 10:00:00 kv_cache_utils.py:864] ",
    "INFO 2026-09-12 10:00:00 [v1/core/kv_cache_utils.py:864] ",
)
LEDGER = (
    "Free memory on device (78.57/79.18 GiB) on startup. Desired GPU memory utilization is (0.9,"
    " 71.26 GiB). Actual usage"
    " is {} Replace gpu_memory_utilization config with `--kv-cache-memory={}` to fit into requested memory."
)
# (the message, what it states)
LINES: tuple[tuple[str, dict[str, object]], ...] = (
    ("# GPU blocks: 1478, # CPU blocks: 2048", {"num_gpu_blocks": 1478, "num_cpu_blocks": 2048}),
    ("# cuda blocks: 6495, # CPU blocks: 2340", {"num_gpu_blocks": 6495, "num_cpu_blocks": 2340}),
    ("# rocm blocks: 6495, # CPU blocks: 2340", {"num_gpu_blocks": 6495}),
    ("# GPU blocks: 1381", {"num_gpu_blocks": 1381}),
    ("GPU KV cache size: 94,784 tokens", {"kv_cache_size_tokens": 94784, "device": "GPU"}),
    ("CPU KV cache size: 9,999 tokens", {"kv_cache_size_tokens": 9999, "device": "CPU"}),
    (
        "XPU KV cache size: 1,048,576 tokens, Maximum concurrency for 2,048 tokens per request: 512.00x",
        {"kv_cache_size_tokens": 1048576, "max_model_len": 2048, "kv_cache_max_concurrency": 512.0, "device": "XPU"},
    ),
    (
        "GPU + host KV cache size: 500 tokens, Maximum concurrency for 2,048 tokens per request: 0.24x",
        {"kv_cache_size_tokens": 500, "kv_cache_max_concurrency": 0.24},
    ),
    (
        "Maximum concurrency for 29000 tokens per request: 0.82x",
        {"max_model_len": 29000, "kv_cache_max_concurrency": 0.82},
    ),
    ("Available KV cache memory: 8.68 GiB", {"available_kv_gib": 8.68}),
    ("Available KV cache memory: 9.4 GiB", {"available_kv_gib": 9.4}),
    ("Loading model weights took 14.9888 GB", {"weights_gib": 14.9888}),
    ("Model loading took 56.9342 GiB and 13.398206 seconds", {"weights_gib": 56.9342, "load_s": 13.398206}),
    ("Model loading took 9.38 GiB memory and 3.424887 seconds", {"weights_gib": 9.38, "load_s": 3.424887}),
    (
        "the current vLLM instance can use total_gpu_memory (15.98GiB) x gpu_memory_utilization (0.90) = 14.39GiB",
        {"total_gib": 15.98, "gpu_memory_utilization": 0.9, "budget_gib": 14.39},
    ),
    (
        "model weights take 1.34GiB; non_torch_memory takes 0.46GiB; PyTorch activation peak memory takes 1.49GiB; the"
        " rest of the memory reserved for KV Cache is 11.10GiB.",
        {"weights_gib": 1.34, "non_torch_gib": 0.46, "peak_activation_gib": 1.49, "available_kv_gib": 11.1},
    ),
    ("Graph capturing finished in 7 secs, took 0.69 GiB", {"graph_s": 7, "graph_gib": 0.69}),
    (
        "CUDA graph pool memory: 1.02 GiB (actual), 0.8 GiB (estimated), difference: 0.22 GiB (21.6%).",
        {"graph_gib": 1.02, "estimated_cudagraph_gib": 0.8},
    ),
    ("Estimated CUDA graph memory: 6.24 GiB total", {"estimated_cudagraph_gib": 6.24}),
    (
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.6200 is"
        " equivalent to --gpu-memory-utilization=0.5413 without CUDA graph memory profiling. To maintain the same"
        " effective KV cache size as before, increase --gpu-memory-utilization to 0.6987.",
        {"gpu_memory_utilization": 0.62, "equivalent_utilization": 0.5413, "suggested_utilization": 0.6987},
    ),
    (
        LEDGER.format(
            "56.93 GiB for weight, 5.58 GiB for peak activation, 0.07 GiB for non-torch memory, and"
            " 0.69 GiB for CUDAGraph"
            " memory.",
            8417154969,
        ),
        {
            "free_gib": 78.57,
            "total_gib": 79.18,
            "budget_gib": 71.26,
            "weights_gib": 56.93,
            "peak_activation_gib": 5.58,
            "non_torch_gib": 0.07,
            "graph_gib": 0.69,
            "suggested_kv_cache_memory_bytes": 8417154969,
        },
    ),
    (
        LEDGER.format("30.2 GiB for weight, 2.0 GiB for peak activation, and 1.0 GiB for CUDAGraph memory.", -20830000),
        {"weights_gib": 30.2, "graph_gib": 1.0, "suggested_kv_cache_memory_bytes": -20830000},
    ),
    (
        "Free memory on device cuda:0 (84.11/287.98 GiB) on startup is less than desired GPU memory utilization (0.95,"
        " 273.59 GiB).",
        {"free_gib": 84.11, "total_gib": 287.98, "gpu_memory_utilization": 0.95, "budget_gib": 273.59},
    ),
    (
        "ValueError: To serve at least one request with the models's max seq len (16384), (3.0 GiB KV cache is needed,"
        " which is larger than the available KV cache memory (1.87 GiB). Based on the available memory, the estimated"
        " maximum model length is 10224.",
        {"max_model_len": 16384, "needed_kv_gib": 3.0, "available_kv_gib": 1.87, "estimated_max_model_len": 10224},
    ),
    (
        "ValueError: The model's max seq len (8192) is larger than the maximum number of tokens that"
        " can be stored in KV"
        " cache (6048). Try increasing `gpu_memory_utilization`.",
        {"max_model_len": 8192, "kv_cache_size_tokens": 6048},
    ),
    (
        "Setting attention block size to 784 tokens to ensure that attention page size is >= mamba page size.",
        {"hybrid_block_size": 784},
    ),
    ("Add 6 padding layers, may waste at most 60.00% KV cache memory", {"padding_waste_percent": 60.0}),
    (
        "Auto-fit max_model_len: reduced from 262144 to 131072 to fit in available KV cache memory (9.28 GiB GPU)",
        {"requested_max_model_len": 262144, "max_model_len": 131072},
    ),
    ("Overriding num_gpu_blocks=900 with num_gpu_blocks_override=512", {"num_gpu_blocks": 512}),
    ("Chunked prefill is enabled with max_num_batched_tokens=8192.", {"max_num_batched_tokens": 8192}),
    ("Using max model len 6144", {"max_model_len": 6144}),
    ("Resolved architecture: Qwen3MoeForCausalLM", {"architecture": "Qwen3MoeForCausalLM"}),
    ("vLLM API server version 0.10.2", {"version": "0.10.2"}),
    (
        "Avg prompt throughput: 28154.3 tokens/s, Avg generation throughput: 1095.3 tokens/s,"
        " Running: 31 reqs, Waiting:"
        " 0 reqs, GPU KV cache usage: 21.4%, Prefix cache hit rate: 62.0%",
        {
            "num_requests_running": 31,
            "num_requests_waiting": 0,
            "kv_cache_usage_percent": 21.4,
            "prefix_cache_hit_percent": 62.0,
            "prompt_tokens_per_s": 28154.3,
        },
    ),
    (
        "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 3"
        " reqs, Swapped: 1 reqs,"
        " Pending: 4 reqs, GPU KV cache usage: 99.7%, CPU KV cache usage: 1.5%.",
        {"num_requests_swapped": 1, "num_requests_waiting": 4, "cpu_kv_cache_usage_percent": 1.5},
    ),
    (
        "Engine 003: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 8.0 tokens/s,"
        " Running: 3 reqs, Waiting:"
        " 7 reqs, Deferred: 2 reqs, Preemptions: 5, CPU KV cache usage: 87.5%, Prefix cache hit"
        " rate: 1.0%, External prefix"
        " cache hit rate: 3.0%, MM cache hit rate: 9.0%",
        {
            "num_requests_deferred": 2,
            "num_preemptions": 5,
            "kv_cache_usage_percent": 87.5,
            "prefix_cache_hit_percent": 1.0,
            "external_prefix_cache_hit_percent": 3.0,
        },
    ),
)


def stated(text: str) -> dict[str, object]:
    return {name: value for event in events_of(LogLine(1, text)) for name, value in event.values.items()}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("tags", TAGS)
@pytest.mark.parametrize(("message", "values"), LINES, ids=[message[:40] for message, _ in LINES])
def test_a_line_states_its_figures_behind_any_head(
    message: str, values: dict[str, object], tags: str, head: str
) -> None:
    found = stated(f"{tags}{head}{message}")
    assert {name: found.get(name) for name in values} == values


@given(
    st.lists(
        st.sampled_from([m for m, _ in LINES if not m.startswith(("ValueError", "Engine"))]), min_size=1, max_size=5
    )
)
def test_records_on_one_line_are_read_each(messages: list[str]) -> None:
    """Two processes that write at once, and logs whose line breaks were lost."""
    line = " ".join(f"(EngineCore_DP{n} pid={n}) INFO 09-12 10:00:0{n} [x.py:1] {m}" for n, m in enumerate(messages))
    events = list(events_of(LogLine(1, line)))
    assert [event.rank for event in events] == [f"DP{n}" for n in range(len(messages))]
    for event, message in zip(events, messages, strict=True):
        [alone] = events_of(LogLine(1, message))
        assert {n: v for n, v in event.values.items() if not n.endswith("pid")} == dict(alone.values)


def test_a_record_glued_to_a_progress_bar_is_read() -> None:
    bar = "Capturing CUDA graph shapes: 100%|██████| 35/35 [00:19<00:00,  1.78it/s]"
    text = f"{bar}INFO 12-31 08:02:14 [model_runner.py:1592] Graph capturing finished in 20 secs, took 0.08 GiB"
    assert stated(text) == {"graph_s": 20, "graph_gib": 0.08}


@pytest.mark.parametrize(
    "text",
    [
        "INFO 09-12 10:00:00 [logger.py:1] Received request a: prompt: 'GPU KV cache size: 5 tokens', params: x",
        'INFO 09-12 10:00:00 [logger.py:1] Received request a: prompt: "Running: 3 reqs, Waiting: 9 reqs"',
        "GPU KV cache size: many tokens",
        "Maximum concurrency for x tokens per request: 1x",
        "INFO:vllm_mlx.scheduler:[schedule] request=f0 uid=0 prompt_tokens=11 running=1 waiting=0",
    ],
)
def test_words_of_users_and_of_others_state_nothing(text: str) -> None:
    assert stated(text) == {}


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert all(isinstance(event.step, Step) for event in events_of(LogLine(1, text)))
    assert "".join(record.body for record in records(text)).strip() in text or len(list(records(text))) > 1
