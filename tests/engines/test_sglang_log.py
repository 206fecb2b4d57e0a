"""What the lines of a log say: two pools that print alike, a line that is cut, a server that came up or did not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.evidence import DAY, decode_batch, log, prefill_batch, start
from ullage.engines.server import Server
from ullage.engines.sglang.read import facts_of, servers
from ullage.figure import Figure


def server(*lines: str) -> Server:
    [found] = servers(facts_of(log("a.log", *lines)))
    return found


def values(figures: Mapping[str, Figure]) -> dict[str, object]:
    return {name: figure.value for name, figure in figures.items()}


WINDOW_MODEL = (
    "Use sliding window memory pool. full_layer_tokens=40000, swa_layer_tokens=32000",
    "KV Cache is allocated. #tokens: 32000, K size: 4.00 GB, V size: 3.00 GB",
    "KV Cache is allocated. #tokens: 40000, K size: 1.50 GB, V size: 1.00 GB",
)


def test_the_two_pools_of_a_window_model_are_told_apart() -> None:
    for lines in (WINDOW_MODEL, (WINDOW_MODEL[0], *reversed(WINDOW_MODEL[1:]))):
        figures = values(server(*start(40000, *lines)).figures)
        assert (figures["swa_kv_k_gib"], figures["swa_kv_v_gib"]) == (4.0, 3.0)
        assert (figures["kv_k_gib"], figures["kv_v_gib"], figures["kv_total_gib"]) == (1.5, 1.0, 2.5)
        assert (figures["max_total_num_tokens"], figures["swa_max_total_num_tokens"]) == (40000, 32000)


def test_a_window_pool_is_no_data_parallel_ranks_pool() -> None:
    lines = [
        f"[{DAY} 10:00:0{rank} DP{rank} TP{rank}] {text}"
        for rank in (0, 1)
        for text in (
            "Use sliding window memory pool. full_layer_tokens=40000, swa_layer_tokens=32000",
            "KV Cache is allocated. #tokens: 32000, K size: 4.00 GB, V size: 3.00 GB",
        )
    ]
    assert not any("max_total_num_tokens" in rank.figures for rank in server(*lines).ranks)


def test_a_server_that_came_up_says_so() -> None:
    lines = start(40000)
    assert server(*lines).figure("ready").value is True
    assert not server(*lines[:-1]).figure("ready").known


def retracted(rank: int, second: int, words: str = "#retracted_reqs: 1, #new_token_ratio: 0.1474 -> 0.1845") -> str:
    return f"[{DAY} 11:00:{second:02} TP{rank}] KV cache pool is full. Retract requests. {words}"


def test_a_retraction_that_every_rank_logs_is_one_also_where_a_line_is_cut() -> None:
    cut = "#retracted_reqs: 1, #new_token_rati"
    usage = values(server(retracted(0, 1), retracted(1, 1), retracted(0, 9, cut), retracted(1, 9)).usage)
    assert (usage["retractions_in_log"], usage["retraction_events_in_log"]) == (2, 2)
    assert usage["new_token_ratio"] == 0.1845


def test_what_retractions_gave_back_is_the_last_with_the_range_over_all() -> None:
    lines = [
        retracted(0, i, f"#retracted_reqs: 1, #new_tokens_gained: {n}") for i, n in enumerate((657, 646, 792, 700))
    ]
    gained = server(*lines).usage["gained_tokens"]
    assert (gained.value, gained.low, gained.high) == (700, 646, 792)


def test_two_retractions_within_a_second_are_two() -> None:
    usage = values(server(retracted(0, 1), retracted(0, 1, "#retracted_reqs: 1, #new_token_ratio: 0.18 -> 0.21")).usage)
    assert (usage["retractions_in_log"], usage["new_token_ratio"]) == (2, 0.21)


def test_growth_is_seen_beside_the_first_line() -> None:
    usage = values(server(decode_batch(1, running=3, queue_req=2), decode_batch(9, running=5, queue_req=7)).usage)
    assert (usage["first_num_running_reqs"], usage["num_running_reqs"]) == (3, 5)
    assert (usage["first_num_queue_reqs"], usage["num_queue_reqs"]) == (2, 7)


def test_the_figures_of_2024_behind_a_tag_of_the_gpu() -> None:
    found = server(
        "[gpu_id=0] Load weight end. type=SmallForCausalLM, dtype=torch.bfloat16, avail mem=15.61 GB",
        "[gpu_id=1] Load weight end. type=SmallForCausalLM, dtype=torch.bfloat16, avail mem=15.95 GB",
        "[gpu_id=0] Memory pool end. avail mem=6.12 GB",
        "[gpu_id=0] max_total_num_tokens=40000, max_prefill_tokens=16384, max_running_requests=64, context_len=8192",
        "[gpu=0] Decode batch. #running-req: 2, #token: 60, token usage: 0.01, #queue-req: 1",
    )
    figures, usage = values(found.figures), values(found.usage)
    assert (figures["max_total_num_tokens"], figures["max_running_requests"]) == (40000, 64)
    assert (figures["avail_after_weights_gib"], figures["ranks_seen"]) == (15.61, "TP 0-1")
    assert (usage["num_running_reqs"], usage["num_queue_reqs"]) == (2, 1)


def test_the_figures_of_the_oldest_logs() -> None:
    for line in (
        "Rank 0: max_total_num_token=40000, max_prefill_num_token=7000, context_len=8192, model_mode=[]",
        "Rank 1: Max_total_num_token=40000, max_prefill_num_token=7000, context_len=8192, ",
    ):
        figures = values(server(line).figures)
        assert (figures["max_total_num_tokens"], figures["max_prefill_tokens"]) == (40000, 7000)


def test_states_and_windows_as_other_versions_print_them() -> None:
    figures = values(
        server(
            "Mamba Cache is allocated. conv_state size: 0.07GB, ssm_state size: 3.05GB",
            "SWAKVPool mem usage: 3.18 GB, swa size: 32000, full size: 40000",
            "Memory pool end. avail mem=6.12 GB",
        ).figures
    )
    assert (figures["mamba_conv_state_gib"], figures["mamba_ssm_state_gib"]) == (0.07, 3.05)
    assert (figures["max_total_num_tokens"], figures["swa_max_total_num_tokens"]) == (40000, 32000)


def test_a_limit_that_was_lowered_is_known_without_arguments_and_summary() -> None:
    found = server("max_running_requests was reduced from requested 128 to 50")
    [running] = [s for s in found.settings if s.label == "running requests"]
    assert (running.requested.value, running.effective.value, running.differs) == (128, 50, True)


REFUSAL = "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.88."


def test_why_the_pool_is_not_known_is_said() -> None:
    lines = start(40000)
    refused = server(*lines[:3], REFUSAL)
    assert refused.pools[0].size.note == f"the server refused to start: {REFUSAL}"
    unfinished = server(*lines[:2])
    assert "the start is not finished in this log, which ends after 'Load weight begin. avail mem=93.70 GB'" in (
        unfinished.pools[0].size.note
    )
    assert (
        "the start is not finished in this log, which ends after its arguments" in server(lines[0]).pools[0].size.note
    )
    assert server(decode_batch(1)).pools[0].size.note == "the start-up lines are not in this log"


def test_the_share_in_use_is_the_fullest_pools_and_tokens_are_the_full_pools() -> None:
    shares = "full token usage: 0.10, swa token usage: 0.40"
    found = server(*start(40000), f"[{DAY} 11:00:01 TP0] Prefill batch, #new-seq: 1, {shares}, #running-req: 1")
    usage = found.usage
    assert (usage["token_usage"].value, usage["num_used_tokens"].value) == (0.4, 4000)
    assert next(level.room for level in found.levels if level.pool == "KV pool").value == 36_000
    assert {f.name for f in usage["token_usage"].inputs} == {"full_token_usage", "swa_token_usage"}


@pytest.mark.parametrize("line", [start(123_456)[-2], "Use sliding window memory pool. full_layer_tokens=123456, swa"])
def test_a_number_that_is_cut_is_no_figure(line: str) -> None:
    stated = values(server(*start(123_456)[:1], line).figures)
    for end in range(line.index("_tokens=") + 14, line.index("context_len") if "context_len" in line else len(line)):
        cut = values(server(*start(123_456)[:1], line[:end]).figures)
        assert all(stated.get(name) == value for name, value in cut.items()), line[:end]


def test_a_batch_line_that_is_cut_tells_what_stands_whole() -> None:
    line = decode_batch(1, tokens=123_456, usage=0.98, running=7, queue_req=3)
    for end in range(line.index("#token"), line.index("cuda")):
        usage = values(server(*start(200_000), line[:end]).usage)
        assert usage.get("num_used_tokens", 123_456) == 123_456
        assert usage.get("token_usage", 0.98) == 0.98


@pytest.mark.parametrize("value", ["-5", "nan", "inf", "1e300", "12 345", ""])
def test_a_batch_line_with_what_is_no_quantity(value: str) -> None:
    told = f"#running-req: {value}, #token: {value}, token usage: {value}, #queue-req: 1"
    line = f"[{DAY} 11:00:01 TP0] Decode batch. {told}"
    found = server(*start(40_000), line)
    assert not {"num_running_reqs", "num_used_tokens", "token_usage"} & found.usage.keys()
    assert not found.running.known
    assert found.levels == ()


def test_a_transfer_that_failed_is_one_request_by_its_room_of_many_digits() -> None:
    words = (
        "Prefill transfer failed for request req.rid='a' req.bootstrap_room=6989861766352545488 with exception Gone()"
    )
    usage = server(*(f"[{DAY} 11:00:01 TP{rank}] {words}" for rank in range(4))).usage
    assert (usage["failed_transfers_in_log"].value, usage["failed_transfers_in_log"].note) == (1, "Gone()")


def test_a_count_of_an_earlier_line_is_not_put_beside_the_share_of_a_later_one() -> None:
    found = server(*start(40_000), decode_batch(1, tokens=400, usage=0.01), prefill_batch(9, usage=0.60))
    assert found.use("token_usage").value == 0.6
    assert found.use("num_used_tokens").value in (None, 24_000)
    again = server(*start(40_000), prefill_batch(1, usage=0.60), decode_batch(9, tokens=400, usage=0.01))
    assert again.use("num_used_tokens").value == 400


def test_use_that_two_servers_could_have_logged_is_neithers() -> None:
    one, other = start(40_000), start(90_000, port=30_001)
    lines = [line for pair in zip(one, other, strict=True) for line in pair]
    found = servers(facts_of(log("a.log", *lines, decode_batch(1))))
    assert [s.use("num_running_reqs").known for s in found] == [False, False]


def test_a_start_that_failed_before_another_is_no_second_server_at_the_same_time() -> None:
    failed = (*start(40_000)[:3], f"[{DAY} 09:00:00 TP0] Scheduler hit an exception: Traceback")
    found = servers(facts_of(log("a.log", *failed, *start(90_000, port=30_001))))
    assert found[-1].says("max_total_num_tokens") == 90_000
