"""How full the pools of SGLang servers are, who runs and who waits."""

from __future__ import annotations

import pytest

from tests.evidence import DAY, URL, decode_batch, document, gauges, log, metrics, server_args, start
from ullage.engines.read import read
from ullage.engines.server import Level, Server
from ullage.evidence import Evidence

SLOTS = "max_total_num_tokens=100000, max_running_requests=64, context_len=32768"


def server(*items: Evidence) -> Server:
    [found], _ = read(items)
    return found


def level(found: Server, pool: str = "KV pool") -> Level:
    return next(level for level in found.levels if level.pool == pool)


def values(found: Level) -> tuple[object, ...]:
    return found.used.value, found.evictable.value, found.reserved.value, found.free.value


def decode(**counts: float) -> Server:
    arguments = server_args(disaggregation_mode="decode", disaggregation_decode_enable_radix_cache=False)
    lines = (f"[{DAY} 10:00:00] {arguments}", f"[{DAY} 10:00:50 TP0] {SLOTS}", f"[{DAY} 10:00:59] ready to roll!")
    return server(log("d.log", *lines, decode_batch(1, 40_000, 0.4, 10, **counts)))


def test_a_decode_server_keeps_512_back_for_each_that_runs_or_is_in_transfer() -> None:
    found = decode(transfer_req=2, prealloc_req=7)
    assert values(level(found)) == (40_000, 0, 12 * 512, 100_000 - 40_000 - 12 * 512)
    assert level(found, "request slots").used.value == 12
    assert found.running.value == 10
    assert {q.label: q.waiting.value for q in found.queues} == {"prealloc": 7, "transfer": 2}


def test_what_waits_on_decode_with_its_kv_in_place_holds_a_slot() -> None:
    """A log counts such requests alone as queued; /v1/loads counts those in prealloc, in transfer and set aside too."""
    assert level(decode(transfer_req=2, prealloc_req=7, queue_req=4), "request slots").used.value == 10 + 2 + 4
    queues = {"decode_prealloc_queue_reqs": 7, "decode_transfer_queue_reqs": 2, "decode_retracted_queue_reqs": 1}
    told = {"dp_rank": 0, "num_running_reqs": 10, "num_waiting_reqs": 14, "max_total_num_tokens": 100_000}
    loads = document(URL, "loads", {"loads": [told | {"disaggregation": {"mode": "decode"} | queues}]})
    info = {"disaggregation_mode": "decode", "model_path": "/m", "max_running_requests": 64, "internal_states": [{}]}
    assert level(server(document(URL, "server_info", info), loads), "request slots").used.value == 10 + 14 - 7 - 1


def test_no_more_is_kept_back_than_the_pool_has() -> None:
    lines = (f"[{DAY} 10:00:00] {server_args(disaggregation_mode='decode')}", f"[{DAY} 10:00:50 TP0] {SLOTS}")
    found = server(log("d.log", *lines, decode_batch(1, 99_000, 0.99, 60)))
    assert level(found).reserved.value == 1_000
    assert level(found).room.value == 0


def test_an_aggregated_server_keeps_back_what_depends_on_the_requests() -> None:
    page = gauges(max_total_num_tokens=100_000, num_running_reqs=3, num_used_tokens=20_000, kv_evictable_tokens=5_000)
    found = level(server(metrics(URL, *page)))
    assert values(found) == (20_000, 5_000, None, None)
    assert "max_tokens" in found.reserved.note
    assert found.room.value == 80_000
    assert "at most" in found.room.note


@pytest.mark.parametrize("cache", [True, False])
def test_without_a_prefix_cache_nothing_is_evictable(cache: bool) -> None:
    found = level(server(log("s.log", *start(40_000, disable_radix_cache=not cache), decode_batch(1, 400))))
    assert found.evictable.value == (None if cache else 0)


def test_window_and_state_pools_have_levels_of_their_own() -> None:
    page = gauges(
        max_total_num_tokens=100_000,
        max_total_num_tokens_swa=10_000,
        num_running_reqs=3,
        full_token_usage=0.2,
        swa_token_usage=0.5,
        token_usage=0.5,
        swa_evictable_tokens=100,
    )
    found = server(metrics(URL, *page))
    assert level(found).used.value == 20_000
    assert values(level(found, "window pool")) == (5_000, 100, 0, 4_900)


def test_a_rank_that_is_silent_leaves_the_use_of_all_unknown() -> None:
    loads = [{"dp_rank": n, "num_running_reqs": 1, "max_total_num_tokens": 5_000} for n in (0, 1)]
    found = server(document(URL, "loads", {"loads": [loads[0] | {"num_used_tokens": 100}, loads[1]]}))
    assert found.running.value == 2
    assert [pool.pool for pool in found.levels] == ["request slots"]


def test_nothing_is_said_where_nothing_is_stated() -> None:
    found = server(log("s.log", *start(40_000)))
    assert (found.levels, found.queues, found.running.known) == ((), (), False)
