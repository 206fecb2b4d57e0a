"""Which lines of a log are of one start, one rank, one model: a draft, a late rank, a process that came again."""

from __future__ import annotations

import pytest

from tests.evidence import DAY, log, server_args
from ullage.engines.server import Server
from ullage.engines.sglang.read import facts_of, servers

ARGUMENTS = f"[{DAY} 10:00:00] {server_args()}"


def lines(rank: str, *texts: str) -> list[str]:
    return [f"[{DAY} 10:00:01 {rank}] {text}" for text in texts]


def weights(before: float, after: float) -> tuple[str, str]:
    used = before - after
    return (
        f"Load weight begin. avail mem={before:.2f} GB",
        f"Load weight end. type=Some, avail mem={after:.2f} GB, mem usage={used:.2f} GB.",
    )


def pool(tokens: int, half: float, left: float) -> tuple[str, str]:
    return (
        f"KV Cache is allocated. #tokens: {tokens}, K size: {half:.2f} GB, V size: {half:.2f} GB",
        f"Memory pool end. avail mem={left:.2f} GB",
    )


def only(*logged: str) -> Server:
    [found] = servers(facts_of(log("a.log", *logged)))
    return found


TARGET = (weights(93.7, 52), pool(40_000, 10, 20))
DRAFTS = {
    "weights before the pool": [TARGET[0], weights(52, 50), TARGET[1], pool(40_000, 0.5, 19)],
    "weights after the pool": [*TARGET, weights(20, 18), pool(40_000, 0.5, 17)],
    "pool before the end of the target's": [TARGET[0], weights(52, 50), TARGET[1][:1], pool(40_000, 0.5, 20)],
}


@pytest.mark.parametrize("parts", DRAFTS.values(), ids=DRAFTS)
def test_a_drafts_figures_are_not_the_targets(parts: list[tuple[str, ...]]) -> None:
    found = only(ARGUMENTS, *lines("TP0", *(text for part in parts for text in part)))
    assert found.says("max_total_num_tokens") == 40_000
    assert (found.says("avail_before_weights_gib"), found.says("weights_gib")) == (93.7, 41.7)
    assert (found.says("draft_weights_gib"), found.says("kv_k_gib"), found.says("draft_kv_k_gib")) == (2.0, 10.0, 0.5)
    assert found.says("avail_after_pool_gib") == 20.0


def test_a_target_glued_to_the_load_of_its_draft_stays_the_target() -> None:
    parts = [*TARGET, weights(20, 18), pool(40_000, 0.5, 17)]
    texts = lines("TP0", *(text for part in parts for text in part))
    found = only(ARGUMENTS, *texts[:3], "".join(texts[3:5]), *texts[5:])
    assert (found.says("kv_k_gib"), found.says("avail_after_pool_gib")) == (10.0, 20.0)


@pytest.mark.parametrize(("early", "late"), [("DP0 TP0", "DP1 TP0"), ("PP1 TP0", "PP0 TP0")])
def test_a_rank_that_is_late_is_no_draft(early: str, late: str) -> None:
    first = lines(early, *weights(93.7, 52), *pool(45_000, 2, 9))
    second = lines(late, *weights(92, 50), *pool(40_000, 1.5, 8))
    found = only(ARGUMENTS, *first, *second)
    assert (found.says("max_total_num_tokens"), found.says("draft_weights_gib")) == (40_000, None)
    assert found.figure("weights_gib").high == 42.0


@pytest.mark.parametrize("earlier", [TARGET[:1], TARGET])
def test_a_process_that_came_again_without_its_arguments_is_a_start_of_its_own(earlier: tuple[tuple[str, str]]) -> None:
    crashed = lines("TP0", *(text for part in earlier for text in part))
    found = only(ARGUMENTS, *crashed, *lines("TP0", *weights(93.7, 51), *pool(30_000, 8, 20)))
    assert (found.says("max_total_num_tokens"), found.says("draft_weights_gib")) == (30_000, None)
    assert len(found.earlier) == 1


@pytest.mark.parametrize("sizes", [(32_000, 40_000), (40_000, 32_000)])
def test_two_pools_that_nothing_tells_apart_give_no_figure(sizes: tuple[int, int]) -> None:
    found = only(ARGUMENTS, *lines("DP0 TP0", *weights(93.7, 52), *(pool(size, 2, 20)[0] for size in sizes)))
    assert not found.figure("max_total_num_tokens").known
    assert not any("max_total_num_tokens" in rank.figures for rank in found.ranks)
    assert "tells the window pool's" in " ".join(found.notes)


def test_a_pool_that_was_capped_counts_before_the_budget_it_was_capped_from() -> None:
    sizes = [f"DSV4 pool sizes: full={full}, swa={full // 10}, c4=1, c128=1" for full in (4_700_160, 1_000_192)]
    budget = "DSV4 memory calculation: bytes_per_full_token=7705.45, available_bytes=36.34 GB, full_token=4700000"
    for texts in ((budget, *sizes), (*sizes, budget)):
        assert only(ARGUMENTS, *lines("TP0", *texts)).says("max_total_num_tokens") == 1_000_192
    assert only(ARGUMENTS, *lines("TP0", budget)).says("max_total_num_tokens") == 4_700_000
