"""vLLM's logs: starts told apart, processes that repeat each other, courses of use, and what never came up."""

from __future__ import annotations

import pytest

from tests.evidence import log, vllm_start, vllm_stats
from ullage.engines.facts import Facts
from ullage.engines.server import Role
from ullage.engines.vllm.read import facts_of

READY = "(APIServer pid=7) INFO:     Application startup complete."
REFUSED = (
    "(EngineCore_DP0 pid=9) ERROR 09-12 09:00:30 [core.py:1] ValueError: To serve at least one request with the model's"
    " max seq len (8192), (4.0 GiB KV cache is needed, which is larger than the available KV cache memory (1.5 GiB)."
    " Based on the available memory, the estimated maximum model length is 3072."
)


def facts(*lines: str) -> Facts:
    [found] = facts_of(log("vllm.log", *lines))
    return found


def test_the_last_start_counts_and_earlier_ones_are_history() -> None:
    found = facts(*vllm_start(80_000, 9.77, at="09:00"), *vllm_start(64_000, 7.81, at="10:00"))
    assert found.effective["kv_cache_size_tokens"].value == 64_000
    assert [start.figures["kv_cache_size_tokens"].value for start in found.earlier] == [80_000]
    assert "10:00" in (found.effective["kv_cache_size_tokens"].observed_at or "")


def test_a_start_that_was_refused_is_an_earlier_start_that_never_came_up() -> None:
    found = facts(*vllm_start(1, 1, at="09:00")[:3], REFUSED, *vllm_start(64_000, 7.81, at="10:00"))
    [earlier] = found.earlier
    assert earlier.why_earlier == "it never came up"
    assert {n: earlier.figures[n].value for n in ("needed_kv_gib", "available_kv_gib", "estimated_max_model_len")} == {
        "needed_kv_gib": 4.0,
        "available_kv_gib": 1.5,
        "estimated_max_model_len": 3072,
    }
    assert "needed_kv_gib" not in found.effective


def test_a_first_start_whose_arguments_are_not_in_the_log_is_of_the_same_server() -> None:
    begun, _, *rest = vllm_start(1, 1, at="09:00")[:3]
    found = facts(begun, *rest, REFUSED, *vllm_start(64_000, 7.81, at="10:00"))
    assert [start.figures["needed_kv_gib"].value for start in found.earlier] == [4.0]


def test_a_server_that_refused_to_start_says_why() -> None:
    found = facts(*vllm_start(1, 1)[:3], REFUSED)
    assert any("refused to start" in note and "4.0 GiB KV cache is needed" in note for note in found.notes)


FAILED = "(EngineCore pid=9) ERROR 09-12 10:00:40 [core.py:1] EngineCore failed to start."
OF_THE_API = "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above."


@pytest.mark.parametrize(
    "named",
    [
        "(EngineCore pid=9) ERROR 09-12 10:00:40 [core.py:1] torch._inductor.exc.InductorError: RuntimeError: Failed to"
        " run autotuning code block: CUDA out of memory. Tried to allocate 1.02 GiB.",
        "(EngineCore pid=9) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB.",
        "(Worker_TP1 pid=11) ERROR 09-12 10:00:40 [multiproc_executor.py:1] torch.OutOfMemoryError: CUDA out of memory."
        " Tried to allocate 1.02 GiB.",
    ],
)
def test_a_failed_start_says_the_error_that_made_it_fail(named: str) -> None:
    for lines in ((FAILED, named, OF_THE_API), (named, FAILED, OF_THE_API), (named, OF_THE_API)):
        [note] = [note for note in facts(*vllm_start(1, 1)[:3], *lines).notes if "refused to start" in note]
        assert "CUDA out of memory. Tried to allocate 1.02 GiB" in note
    named_by_figures = facts(*vllm_start(1, 1)[:3], named, FAILED, REFUSED, OF_THE_API)
    assert any("4.0 GiB KV cache is needed" in note for note in named_by_figures.notes)


def test_an_error_that_stopped_nothing_is_no_refusal() -> None:
    told = "(EngineCore pid=9) ERROR 09-12 10:00:10 [x.py:1] ImportError: no module named deep_gemm"
    assert "start_refused" not in facts(*vllm_start(1, 1)[:3], told).effective
    assert "start_refused" not in facts(*vllm_start(1, 1)[:3], told, *vllm_start(64_000, 7.81)[3:]).effective


API = "(APIServer pid=7) INFO 09-12 10:00:02 [x.py:1] "
CORE = "(EngineCore_DP0 pid=9) INFO 09-12 10:00:25 [x.py:1] "


@pytest.mark.parametrize("length", [2_048, 1_048_576])
@pytest.mark.parametrize("whole", [True, False])
def test_what_is_said_of_a_draft_model_is_not_the_servers(length: int, whole: bool) -> None:
    """The draft model's configuration is printed in the same words, after the model's own."""
    model = [f"{API}Resolved architecture: LlamaForCausalLM", f"{API}Using max model len 8192"]
    draft = [f"{API}Resolved architecture: EagleLlamaModel", f"{API}Using max model len {length}"]
    began, *rest = vllm_start(64_000, 7.81)
    found = facts(began, rest[0], *model, *draft, *(rest[1:] if whole else ())).effective
    assert (found["max_model_len"].value, found["architecture"].value) == (8192, "LlamaForCausalLM")


def test_what_a_summary_rounds_is_read_where_it_was_measured() -> None:
    stated = (
        f"{CORE}Model loading took 56.9342 GiB and 13.4 seconds",
        f"{CORE}Graph capturing finished in 7 secs, took 0.69 GiB",
    )
    summary = (
        f"{CORE}Free memory on device (78.57/79.18 GiB) on startup. Desired GPU memory utilization is (0.9, 71.26 GiB)."
        " Actual usage is 56.93 GiB for weight, 5.58 GiB for peak activation, 0.07 GiB for non-torch memory, and"
        " 0.7 GiB for CUDAGraph memory."
    )
    found = facts(*vllm_start(64_000, 7.81), *stated, summary).effective
    assert (found["weights_gib"].value, found["graph_gib"].value) == (56.9342, 0.69)
    assert facts(*vllm_start(64_000, 7.81), summary).effective["weights_gib"].value == 56.93


def test_the_token_budget_of_the_parser_is_not_the_servers() -> None:
    """Builds up to 0.11 make a scheduler's configuration of defaults while they build their parser."""
    line = "[scheduler.py:1] Chunked prefill is enabled with max_num_batched_tokens={}."
    parser, its = f"INFO 09-12 10:00:00 {line.format(2048)}", f"{API}{line.format(8192)}"
    start = vllm_start(64_000, 7.81)
    assert facts(parser, *start[:2], its, *start[2:]).effective["max_num_batched_tokens"].value == 8192
    offline = [f"INFO 09-12 10:00:0{n} {line.format(budget)}" for n, budget in enumerate([2048, 8192])]
    assert facts(*offline, *start[2:]).effective["max_num_batched_tokens"].value == 8192


@pytest.mark.parametrize("small", [80, 512])
def test_the_small_pool_that_graphs_are_profiled_with_is_not_the_pool(small: int) -> None:
    profiled = f"Overriding num_gpu_blocks=0 with num_gpu_blocks_override={small}"
    found = facts(*vllm_start(35_648, 4.35, profiled)).effective
    assert "num_gpu_blocks" not in found
    assert found["kv_cache_size_tokens"].value == 35_648
    asked = facts(*vllm_start(3_200, 0.39, profiled, "Overriding num_gpu_blocks=900 with num_gpu_blocks_override=200"))
    assert asked.effective["num_gpu_blocks"].value == 200


@pytest.mark.parametrize(
    "ended", ["init engine (profile, create kv cache, warmup model) took 26.28 s", "Shutdown initiated (timeout=0)"]
)
def test_engines_of_a_script_one_after_the_other_are_not_mixed(ended: str) -> None:
    """They start no API server, so none of them says that it is ready."""
    runs = [
        [*vllm_start(tokens, 4.0, kv_transfer_config=transfer)[1:-1], f"{CORE}{ended}"]
        for tokens, transfer in (
            (64_000, None),
            (32_000, {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}),
        )
    ]
    found = facts_of(log("script.log", *(line for run in runs for line in run)))
    assert [facts.effective["kv_cache_size_tokens"].value for facts in found] == [64_000, 32_000]
    assert not any("at the same time" in note for facts in found for note in facts.notes)


def test_workers_that_repeat_a_line_are_not_added() -> None:
    line = "(VllmWorker rank={0} pid={0}) INFO 09-12 10:00:20 [gpu_worker.py:1] Available KV cache memory: {1} GiB"
    found = facts(line.format(0, 8.7), line.format(1, 8.5), *vllm_start(64_000, 7.81)[5:])
    available = found.effective["available_kv_gib"]
    assert (available.value, available.low, available.high) == (8.5, 8.5, 8.7)
    assert found.effective["tensor_parallel_size"].value == 2


def test_engines_have_pools_of_their_own() -> None:
    core = "(EngineCore_DP{0} pid={0}) INFO 09-12 10:00:30 [kv_cache_utils.py:1] GPU KV cache size: {1:,} tokens"
    found = facts(core.format(0, 64_000), core.format(1, 48_000), READY)
    pools = {rank: figures["kv_cache_size_tokens"].value for rank, figures in found.rank_usage.items()}
    assert pools == {"DP0": 64_000, "DP1": 48_000}
    assert found.effective["kv_cache_size_tokens"].value == 48_000
    assert found.effective["data_parallel_size"].value == 2


def test_the_course_of_use_is_kept_and_its_end_is_now() -> None:
    course = [("10:01:00", 1, 0, 10.9), ("10:02:00", 4, 0, 34.9), ("10:03:00", 10, 3, 87.3)]
    found = facts(*vllm_start(64_000, 7.81), *(vllm_stats(*moment) for moment in course))
    assert [m.figures["num_requests_running"].value for m in found.history] == [1, 4, 10]
    assert found.usage["num_requests_running"].value == 10
    assert found.usage["kv_cache_usage_perc"].value == 0.873
    assert found.usage["first_num_requests_waiting"].value == 0


def test_use_of_several_engines_adds_up() -> None:
    found = facts(*(vllm_stats("10:01:00", n + 1, 10 * n, 20.0 * n, engine=n) for n in range(3)))
    assert found.usage["num_requests_running"].value == 6
    assert found.usage["num_requests_waiting"].value == 30
    assert found.usage["kv_cache_usage_perc"].value == 0.4


def test_two_servers_that_start_at_once_are_not_mixed() -> None:
    one, other = vllm_start(64_000, 7.81, port=8000), vllm_start(32_000, 3.9, port=8001)
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    found = facts_of(log("both.log", *mixed))
    assert len(found) == 2
    assert all("kv_cache_size_tokens" not in facts.effective for facts in found)
    assert all(any("at the same time" in note for note in facts.notes) for facts in found)


def test_two_servers_one_after_the_other_are_two() -> None:
    found = facts_of(log("both.log", *vllm_start(64_000, 7.81, port=8000), *vllm_start(32_000, 3.9, port=8001)))
    assert [facts.effective["kv_cache_size_tokens"].value for facts in found] == [64_000, 32_000]
    assert any("follows in this log" in note for note in found[0].notes)


def test_an_orderly_stop_is_told() -> None:
    stop = "(EngineCore pid=9) INFO 09-12 11:00:00 [core.py:1] [shutdown] EngineCore: trigger received signal=SIGTERM"
    assert any("was stopped" in note for note in facts(*vllm_start(64_000, 7.81), stop).notes)
    assert not any("was stopped" in note for note in facts(*vllm_start(64_000, 7.81)).notes)


def test_the_role_by_the_connector() -> None:
    transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}
    assert facts(*vllm_start(64_000, 7.81, kv_transfer_config=transfer)).role is Role.PREFILL
    assert facts(*vllm_start(64_000, 7.81)).role is Role.UNIFIED


def test_processes_are_named_by_their_ids() -> None:
    found = facts(*vllm_start(64_000, 7.81))
    assert (found.effective["api_server_pid"].value, found.effective["engine_pid"].value) == (7, 9)


V0_WORKER = (
    "{}INFO 09-12 10:00:10 [worker.py:267] model weights take 21.00GiB; non_torch_memory takes {}GiB; PyTorch"
    " activation peak memory takes {}GiB; the rest of the memory reserved for KV Cache is {}GiB."
)


def test_the_account_of_a_gpu_is_that_of_the_process_with_least_for_its_cache() -> None:
    """The least of each figure over the workers would be no GPU's account: 21 + 0.2 + 0.4 + 1.3 sum to no share."""
    workers = (
        V0_WORKER.format("(VllmWorkerProcess pid=52) ", "0.20", "0.40", "1.60"),
        V0_WORKER.format("", "0.30", "0.60", "1.30"),
        V0_WORKER.format("(VllmWorkerProcess pid=53) ", "0.25", "0.40", "1.55"),
    )
    found = facts(
        *workers, "INFO 09-12 10:00:11 [executor_base.py:112] # cuda blocks: 5000, # CPU blocks: 1000"
    ).effective
    stated = {name: found[name].value for name in ("non_torch_gib", "peak_activation_gib", "available_kv_gib")}
    assert stated == {"non_torch_gib": 0.3, "peak_activation_gib": 0.6, "available_kv_gib": 1.3}
    assert (found["available_kv_gib"].low, found["available_kv_gib"].high) == (1.3, 1.6)
    assert "3 processes" in found["available_kv_gib"].note


def test_a_refusal_that_a_terminal_wrapped_still_states_what_is_needed() -> None:
    """The rest of its line is on the next one, which nothing tells from any other."""
    whole, _, _ = REFUSED.partition(" cache is needed")
    found = facts(*vllm_start(1, 1)[:3], whole, "cache is needed, which is larger than")
    assert found.effective["needed_kv_gib"].value == 4.0
    assert found.effective["max_model_len"].value == 8192
