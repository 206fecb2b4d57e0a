"""vLLM's metrics page of every era: what it states, per engine and together, and the traps of its configuration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence import metrics
from ullage.engines.facts import Facts
from ullage.engines.server import Role
from ullage.engines.vllm.read import facts_of

URL = "http://127.0.0.1:8000"
INFO = 'vllm:cache_config_info{{block_size="16",cache_dtype="auto",enable_prefix_caching="None",{}}} 1.0'


def page(*lines: str) -> Facts:
    [facts] = facts_of(metrics(URL, *lines))
    return facts


def series(name: str, *values: float, model: str = "m") -> list[str]:
    """One series of each engine."""
    return [f'vllm:{name}{{engine="{n}",model_name="{model}"}} {value}' for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ('vllm:gpu_cache_usage_perc{model_name="m"} 0.5', "kv_cache_usage_perc", 0.5),
        ('vllm:kv_cache_usage_perc{engine="0",model_name="m"} 5e-01', "kv_cache_usage_perc", 0.5),
        ('vllm:num_requests_swapped{model_name="m"} 3.0', "num_requests_swapped", 3),
        ('vllm:num_preemptions_total{engine="0"} 1.2e+03', "num_preemptions", 1200),
        ('vllm:gpu_prefix_cache_hits_total{engine="0"} 7', "prefix_cache_hits", 7),
        (
            'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 4.0',
            "num_requests_waiting_by_reason_capacity",
            4,
        ),
        ('vllm:request_success_total{engine="0",finished_reason="stop"} 19.0', "request_success_stop", 19),
        (
            'vllm:admission_rejections_total{reason="max_num_queued_reqs"} 2.0',
            "admission_rejections_max_num_queued_reqs",
            2,
        ),
        ('vllm:request_prompt_tokens_sum{engine="0"} 50222.0', "request_prompt_tokens_sum", 50222),
        ('vllm:nixl_num_kv_expired_reqs_total{engine="0"} 2.0', "nixl_num_kv_expired_reqs", 2),
    ],
)
def test_names_of_every_era(line: str, name: str, value: float) -> None:
    assert page(line).usage[name].value == value


def test_a_time_of_creation_is_no_count() -> None:
    found = page('vllm:num_preemptions_created{engine="0"} 1.7959872634822118e+09', *series("num_requests_running", 1))
    assert "num_preemptions" not in found.usage
    assert "num_preemptions_created" not in found.usage


@given(st.lists(st.integers(0, 500), min_size=1, max_size=8))
def test_counts_add_up_over_engines_and_shares_are_the_fullest(running: list[int]) -> None:
    usage = [n / 1000 for n in running]
    found = page(*series("num_requests_running", *running), *series("kv_cache_usage_perc", *usage))
    assert found.usage["num_requests_running"].value == sum(running)
    assert found.usage["kv_cache_usage_perc"].value == max(usage)
    ranks = {rank: figures["num_requests_running"].value for rank, figures in found.rank_usage.items()}
    assert ranks == ({f"DP{n}": value for n, value in enumerate(running)} if len(running) > 1 else {})


def test_blocks_are_summed_over_engines_and_tokens_are_of_one() -> None:
    labels = 'num_gpu_blocks="8000",kv_cache_size_tokens="32000",kv_cache_max_concurrency="4.0",engine="{}"'
    info = [INFO.format(labels.format(n)) for n in range(4)]
    effective = page(*info, *series("num_requests_running", 0, 0, 0, 0)).effective
    assert effective["num_gpu_blocks"].value == 2000
    assert effective["num_gpu_blocks_of_all_engines"].value == 8000
    assert effective["kv_cache_size_tokens"].value == 32000
    assert effective["max_model_len"].value == 8000


@pytest.mark.parametrize("word", ["None", ""])
def test_none_is_no_value(word: str) -> None:
    labels = f'num_gpu_blocks="573",num_cpu_blocks="{word}",num_gpu_blocks_override="{word}",sliding_window="{word}"'
    effective = page(INFO.format(labels)).effective
    assert effective.keys() >= {"num_gpu_blocks", "block_size", "cache_dtype"}
    assert not effective.keys() & {
        "num_cpu_blocks",
        "num_gpu_blocks_override",
        "sliding_window",
        "enable_prefix_caching",
    }


@given(st.integers(16, 1_048_576), st.floats(0.3, 5_000))
def test_the_context_is_told_by_tokens_and_concurrency(length: int, concurrency: float) -> None:
    """Where one full-length request fits, the tokens are rounded by less than a token of context."""
    tokens = int(concurrency * length)
    if tokens < 1:
        return
    labels = f'num_gpu_blocks="9",kv_cache_size_tokens="{tokens}",kv_cache_max_concurrency="{concurrency!r}"'
    told = page(INFO.format(labels)).effective["max_model_len"].number
    assert abs(told - length) <= 1 / concurrency + 1


def test_roles_by_what_only_one_side_counts() -> None:
    stage = 'vllm:num_requests_kv_fetch_by_stage{engine="0",stage="in_progress"} 0.0'
    assert page(stage).role is Role.DECODE
    assert page('vllm:nixl_num_kv_expired_reqs_total{engine="0"} 3.0').role is Role.PREFILL
    assert page('vllm:nixl_num_kv_expired_reqs_total{engine="0"} 0.0').role is Role.UNKNOWN


def test_means_of_histograms() -> None:
    found = page(*series("request_prompt_tokens_sum", 300, 100), *series("request_prompt_tokens_count", 3, 1))
    assert found.usage["mean_request_prompt_tokens"].value == 100
    assert "mean_request_generation_tokens" not in found.usage


def test_absurd_figures_are_told_and_not_used() -> None:
    found = page(*series("num_requests_running", float("nan")), *series("num_requests_waiting", -1))
    assert not found.usage.keys() & {"num_requests_running", "num_requests_waiting"}
    assert len(found.notes) == 2


def test_the_longest_bucket_is_a_lower_bound() -> None:
    buckets = [f'vllm:request_prompt_tokens_bucket{{engine="0",le="{le}"}} 0' for le in ("1.0", "5000.0", "+Inf")]
    assert page(*buckets).effective["max_model_len_at_least"].value == 5000
