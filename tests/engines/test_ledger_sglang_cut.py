"""Ledgers of SGLang's starts where a line is missing, or a pool is held below what memory holds."""

from __future__ import annotations

from tests.evidence import DAY, log, metrics, start
from ullage.engines.ledger import Account, accounts_of
from ullage.engines.read import read
from ullage.evidence import Evidence
from ullage.units import GIB

V4 = "DSv4 memory calculation: bytes_per_full_token=15897.45, available_bytes=24.16 GB, full_token=1632000"
SIZES = "DSV4 pool sizes: full={0}, swa={1}, c4={2}, c128={3}, c4_state=200, c128_state=0"


def account(*items: Evidence) -> Account:
    [found] = accounts_of(read(items)[0], items, GIB)[0]
    return found


def test_weights_whose_line_is_missing_are_what_the_pools_leave() -> None:
    lines = [line for line in start(1_632_000, V4, mem_fraction_static=0.7) if "Load weight end" not in line]
    [led] = account(log("cut.log", *lines)).ledgers
    joint = led.part("weights and pools")
    assert joint is not None
    assert round(joint.size.number / GIB, 2) == round(93.70 - 15.93, 2)
    assert sum(part.size.count for part in joint.of_it) == joint.size.count
    weights = led.part("weights, and what else was made")
    assert weights is not None
    assert 50 * GIB < weights.size.number < 60 * GIB
    assert led.unaccounted.number < 10 * GIB


def test_a_step_of_which_nothing_is_stated_is_one_line() -> None:
    lines = [line for line in start(1_632_000) if "Load weight end" not in line and "max_total" not in line]
    [led] = account(log("cut.log", *lines)).ledgers
    joint = led.part("weights and pools")
    assert joint is not None
    assert joint.of_it == ()


def test_ranks_stand_in_their_order_whichever_was_first() -> None:
    lines = [
        f"[{DAY} 10:00:0{second} TP{rank}] {text}"
        for second, rank in enumerate((2, 10, 0))
        for text in (
            "Load weight begin. avail mem=93.70 GB",
            "Load weight end. type=X, avail mem=52.27 GB, mem usage=41.43 GB.",
        )
    ]
    assert [led.device for led in account(log("ranks.log", *lines)).ledgers] == ["TP0", "TP2", "TP10"]


def test_a_pool_that_the_sizing_lines_show_capped_gains_nothing_by_the_fraction() -> None:
    capped = start(32_768, V4, SIZES.format(1_632_000, 163_200, 408_000, 12_750), SIZES.format(32_768, 3200, 8192, 256))
    tap = account(log("capped.log", *capped)).tap
    assert "--max-total-tokens caps the pool" in tap.unknown
    assert "memory holds 1,632,000" in tap.unknown
    assert (tap.settings, tap.each) == ((), None)
    assert [way.what for way in tap.ways if "tokens" in way.gives.unit] == []


def test_a_capped_pool_whose_tokens_cost_is_not_known_is_said_to_be_capped() -> None:
    given = {"model_path": "/models/DeepSeek-V4.1-Flash", "max_total_tokens": 40_000}
    assert "--max-total-tokens caps" in account(log("a.log", *start(39_936, **given))).tap.unknown
    given["max_total_tokens"] = 80_000
    assert "'memory calculation' line" in account(log("a.log", *start(39_936, **given))).tap.unknown


def late(*lines: str) -> Account:
    made = (
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, K size: 10.00 GB, V size: 10.00 GB",
        "Capture target decode CUDA graph end. elapsed=3.00 s, mem usage=2.00 GB, avail mem=13.93 GB.",
    )
    return account(log("late.log", *start(100_000, *lines, *made, mem_fraction_static=0.8)))


def test_before_the_late_sizing_a_token_costs_what_the_addresses_do() -> None:
    """20 GiB of addresses for 400,000 tokens, of which 100,000 were backed in the end."""
    found = late("Post-capture KV sizing: max_total_num_tokens=100000, free memory=9.81 GB")
    assert found.tap.each is not None
    cost = 20 * GIB / 400_000
    assert abs(found.tap.each.number - 0.01 * 93.70 * GIB / cost) < 20


def test_the_late_sizing_states_the_pool_that_is_there() -> None:
    found = late("Post-capture KV sizing: KV cache allocated. #tokens: 100000, KV size: 5.00 GB, avail mem=9.81 GB")
    pools = found.ledgers[0].part("pools")
    assert pools is not None
    assert [part.name for part in pools.of_it] == ["KV pool", "request table", "rest of the pools"]
    assert pools.of_it[0].size.number == 5 * GIB
    assert sum(part.size.count for part in pools.of_it) == pools.size.count


def test_the_pools_of_a_window_model_are_told_apart_where_its_lines_do() -> None:
    lines = (
        "SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 80000, K size: 10.00 GB, V size: 10.00 GB",
        "Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 100000, K size: 8.00 GB, V size: 8.00 GB",
        "SWAKVPool mem usage: 36.00 GB, swa size: 80000, full size: 100000",
    )
    [led] = account(log("window.log", *start(100_000, *lines))).ledgers
    pools = led.part("pools")
    assert pools is not None
    names = ["KV pool, keys", "KV pool, values", "window pool, keys", "window pool, values"]
    assert [part.name for part in pools.of_it][:4] == names


def test_ranks_are_told_apart_by_what_the_pools_left_where_nothing_else_tells() -> None:
    pool = "KV Cache is allocated. dtype: fp8, #tokens: 400000, K size: {0} GB, V size: {0} GB"
    lines = [
        f"[{DAY} 10:00:31 TP{rank}] {text}"
        for rank, left in enumerate((8.0, 7.0))
        for text in (
            pool.format("3.00"),
            f"Memory pool end. avail mem={left:.2f} GB",
            pool.format("1.00"),
            f"Memory pool end. avail mem={left - 2.25:.2f} GB",
        )
    ]
    for led, left in zip(account(log("pools.log", *lines)).ledgers, (5.75, 4.75), strict=True):
        drafts = led.part("draft pools")
        assert drafts is not None
        assert led.left is not None
        assert (drafts.size.number, led.left.number) == (2.25 * GIB, left * GIB)


def test_the_bar_of_a_capture_is_the_first_ranks() -> None:
    lines = [
        f"[{DAY} 10:00:31 TP{rank}] {text}"
        for rank in (0, 1)
        for text in (
            "Load weight end. type=X, avail mem=50.00 GB, mem usage=40.00 GB.",
            "KV Cache is allocated. #tokens: 400000, KV size: 30.00 GB",
            "Memory pool end. avail mem=20.00 GB",
            "Capture cuda graph begin. This can take up to several minutes. avail mem=19.50 GB",
        )
    ]
    first, second = account(
        log("bar.log", *lines, "Capturing batches (bs=512 avail_mem=18.00 GB):   0%| | 0/52")
    ).ledgers
    sizes = [(led.left.number / GIB if led.left else None) for led in (first, second)]
    assert sizes == [18.0, 19.5]
    for led, taken in ((first, 2.0), (second, 0.5)):
        since = led.part("taken since the pools were made")
        assert since is not None
        assert since.size.number == taken * GIB


def test_a_page_that_states_a_pool_in_no_memory_states_none() -> None:
    gauges = "sglang:{0}{{model_name='x',tp_rank='0',pp_rank='0'}} {1}".replace("'", '"')
    told = {"max_total_num_tokens": 2_000_000, "weight_memory_usage_gb": 41.43, "kv_cache_memory_usage_gb": 0}
    [led] = account(metrics("http://127.0.0.1:30000", *(gauges.format(*pair) for pair in told.items()))).ledgers
    assert [part.name for part in led.parts] == ["weights"]
    assert any("states 0 GB" in figure.note for figure in led.unknown)


def drafted(*lines: str) -> Account:
    """A start with a draft model that older builds load last: 41.43 GiB of weights, 20 of pools, 2 of graphs."""
    made = [f"[{DAY} 10:00:{31 + n} TP0] {line}" for n, line in enumerate(lines)]
    begun = start(300_000, mem_fraction_static=0.699)
    return account(log("draft.log", *begun[:3], *made, *begun[-2:]))


def test_a_draft_model_that_is_loaded_after_the_captures_is_no_set_up() -> None:
    found = drafted(
        "KV Cache is allocated. #tokens: 300000, KV size: 20.25 GB",
        "Memory pool end. avail mem=32.02 GB",
        "Capture cuda graph end. Time elapsed: 9.00 s. mem usage=2.00 GB. avail mem=29.77 GB.",
        "Load weight begin. avail mem=29.77 GB",
        "Load weight end. type=XNextN, avail mem=14.77 GB, mem usage=15.00 GB.",
        "KV Cache is allocated. #tokens: 300000, KV size: 3.75 GB",
        "Memory pool end. avail mem=11.02 GB",
        "Capture draft cuda graph end. Time elapsed: 1.00 s. avail mem=10.02 GB. mem usage=1.00 GB.",
    )
    [led] = found.ledgers
    sizes = {part.name: round(part.size.number / GIB, 2) for part in led.parts}
    assert sizes == {
        "weights": 41.43,
        "draft weights": 15.0,
        "pools": 20.25,
        "draft pools": 3.75,
        "set up before serving": 0.46,
        "graphs": 2.0,
        "graphs, draft": 1.0,
        "free at the end of the start": 9.81,
    }
    assert led.unaccounted.least <= 0 <= led.unaccounted.most
    [check] = found.tap.checks
    assert abs(check.error) < 0.01


def test_a_draft_model_is_told_by_its_class_where_the_lines_before_it_are_missing() -> None:
    lines = [
        f"[{DAY} 10:00:{second} {rank}] {text}"
        for second, rank, text in (
            (31, "TP0", "KV Cache is allocated. #tokens: 300000, KV size: 20.00 GB"),
            (31, "TP0", "Memory pool end. avail mem=18.00 GB"),
            (40, "TP0", "Capture cuda graph end. Time elapsed: 9.00 s. mem usage=9.00 GB. avail mem=9.00 GB."),
            (41, "TP1", "Load weight begin. avail mem=9.00 GB"),
            (45, "TP0", "Load weight end. type=XForCausalLMNextN, avail mem=6.00 GB, mem usage=3.00 GB."),
            (45, "TP1", "Load weight end. type=XForCausalLMNextN, avail mem=6.00 GB, mem usage=3.00 GB."),
            (46, "TP0", "KV Cache is allocated. #tokens: 300000, KV size: 0.25 GB"),
            (46, "TP1", "KV Cache is allocated. #tokens: 300000, KV size: 0.25 GB"),
            (46, "TP0", "Memory pool end. avail mem=5.75 GB"),
            (46, "TP1", "Memory pool end. avail mem=5.50 GB"),
            (47, "TP0", "Capture draft cuda graph begin. avail mem=5.25 GB"),
        )
    ]
    first, second = account(log("cut.log", *lines)).ledgers
    for led, left in ((first, 5.25), (second, 5.5)):
        assert not led.whole.known
        assert led.left is not None
        assert led.left.number == left * GIB
        named = {part.name: part.size.number / GIB for part in led.parts}
        assert (named["draft weights"], named["KV pool"]) == (3.0, 20.0)
        assert "weights" not in named
    assert second.part("graphs") is None
