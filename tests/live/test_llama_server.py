"""The limits that Ullage states of a llama-server are what the server does when it is driven there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ullage.capacity.request import Shape
from ullage.cli.gather import Options, gather
from ullage.deployment import reach_of, server_limits, total_context
from ullage.engines.read import read
from ullage.engines.server import Role, Server
from ullage.evidence import Failure
from ullage.findings.base import Severity
from ullage.report.model import report_on

from .llama_server import LlamaServer, Parts, knows, parts, started

FOUND = parts()
pytestmark = pytest.mark.skipif(isinstance(FOUND, str), reason=str(FOUND))
PER_SLOT = "--kv-unified-per-slot"
EXCEEDED = "Context size has been exceeded."


@pytest.fixture
def real() -> Parts:
    assert not isinstance(FOUND, str)
    return FOUND


def read_of(server: LlamaServer, *flags: str, log: bool = True) -> Server:
    [found] = read(gather([server.url, *([str(server.log)] if log else [])], flags, Options()))[0]
    return found


def stated(log: Path) -> dict[str, str]:
    """What llama-server itself logs of its slots, and the library of its context."""
    text = log.read_text("utf-8")
    slots = re.findall(r"\b(n_slots|n_ctx_slot|kv_unified) = '?(\w+)'?", text)
    return dict([*slots, *re.findall(r"llama_context: (n_ctx) += (\d+)", text)])


def longest(server: Server) -> int:
    return reach_of(server).tokens.count


FLAGS = (
    (("-c", "512", "-np", "2"), 2, 256, 512),
    (("-c", "300", "-np", "3"), 3, 256, 768),
    (("-c", "256"), 4, 256, 256),
    (("-c", "256", "-np", "4", "-kvu"), 4, 256, 256),
    ((PER_SLOT, "128"), 4, 128, 512),
    (("-c", "512", PER_SLOT, "256", "-np", "3", "-kvu"), 3, 256, 512),
)


@pytest.mark.parametrize(
    ("flags", "slots", "each", "cells"), FLAGS, ids=lambda v: " ".join(v) if isinstance(v, tuple) else ""
)
def test_limits_by_log_by_endpoints_and_by_flags_are_the_servers(
    real: Parts, tmp_path: Path, flags: Sequence[str], slots: int, each: int, cells: int
) -> None:
    if PER_SLOT in flags and not knows(real, PER_SLOT):
        pytest.skip(f"this build of llama-server has no {PER_SLOT}")
    with started(real, tmp_path, "-lv", "4", *flags) as server:
        live = read_of(server)
        asked = read_of(server, f"llama-server -m {real.model} {' '.join(flags)}", log=False)
        logged = stated(server.log)
        assert (int(logged["n_slots"]), int(logged["n_ctx_slot"]), int(logged["n_ctx"])) == (slots, each, cells)
        for found in (live, asked):
            assert (found.says("n_slots"), found.says("n_ctx_slot"), total_context(found).value) == (slots, each, cells)
            assert found.says("kv_unified") is (logged["kv_unified"] == "true")
        accepted, refused = (server.complete(longest(live) + more, 4) for more in (0, 1))
        assert (accepted.status, accepted.body["tokens_predicted"]) == (200, 1)
        assert (refused.status, refused.body["error"]["type"]) == (400, "exceed_context_size_error")
        beyond = Shape(each - 20, 60)
        stopped = server.complete(beyond.prompt, beyond.named_output).body
        assert (stopped["tokens_predicted"], stopped["truncated"]) == (20, True)
        assert server_limits(live, beyond).safe.value == 0
        assert server_limits(live, Shape(beyond.prompt, 20)).safe.number >= 1


def test_without_the_log_the_pool_is_a_range_that_holds_it(real: Parts, tmp_path: Path) -> None:
    for flags, cells in ((("-c", "512", "-np", "2"), 512), (("-c", "256", "-np", "2", "-kvu"), 256)):
        with started(real, tmp_path, *flags) as server:
            total = total_context(read_of(server, log=False))
            assert total.least <= cells <= total.most
            assert (total.least, total.most) == (256, 512)


def test_one_pool_up_to_safe_all_finish_and_beyond_it_all_fail(real: Parts, tmp_path: Path) -> None:
    with started(real, tmp_path, "-c", "256", "-np", "4", "-kvu") as server:
        fits, more = Shape(50, 14), Shape(100, 60)
        limits = {shape: server_limits(read_of(server), shape) for shape in (fits, more)}
        assert (limits[fits].admits.value, limits[fits].safe.value) == (4, 4)
        assert (limits[more].admits.value, limits[more].safe.value) == (4, 1)
        answers = server.together(4, fits.prompt, fits.named_output)
        assert [(a.status, a.body.get("tokens_predicted")) for a in answers] == [(200, 14)] * 4
        assert server.complete(more.prompt, more.named_output).status == 200
        assert [(a.status, a.error) for a in server.together(2, more.prompt, more.named_output)] == [
            (500, EXCEEDED)
        ] * 2
        assert EXCEEDED in limits[more].overflow
        report = report_on(gather([server.url, str(server.log)], [], Options()))
        [told] = [f for f in report.findings if f.id == "unified-overcommit"]
        assert (told.severity, "happened 1 times" in told.says) == (Severity.ERROR, True)


def test_slots_of_their_own_all_finish_at_their_full_context(real: Parts, tmp_path: Path) -> None:
    with started(real, tmp_path, "-c", "512", "-np", "2") as server:
        full = Shape(206, 50)
        assert server_limits(read_of(server), full).safe.value == 2
        answers = server.together(2, full.prompt, full.named_output)
        assert [(a.status, a.body["tokens_predicted"], a.body["truncated"]) for a in answers] == [(200, 50, True)] * 2


def test_whoever_finds_no_slot_waits_and_is_counted(real: Parts, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with started(real, tmp_path, "-c", "512", "-np", "2", "--metrics") as server, ThreadPoolExecutor(1) as pool:
        answers = pool.submit(server.together, 4, 20, 60)
        server.wait_for(lambda: "requests_deferred 2" in server.ask("GET", "/metrics").body)
        found = read_of(server)
        assert (found.running.value, [(q.label, q.waiting.value) for q in found.queues]) == (2, [("deferred", 2)])
        assert server_limits(found, Shape(20, 60)).admits.value == 2
        cells = next(level for level in found.levels if level.pool == "KV pool")
        assert 0 < cells.used.number <= 2 * 80
        assert [a.status for a in answers.result()] == [200] * 4
        assert read_of(server).running.value == 0


def test_what_is_guarded_or_not_served_is_said(real: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "k3y-of-nobody")
    with started(real, tmp_path, "-c", "256", "-np", "1", "--no-slots", "--api-key", "k3y-of-nobody") as server:
        refused = {
            i.topic: i.content.status for i in gather([server.url], [], Options()) if isinstance(i.content, Failure)
        }
        assert (refused["props"], refused["metrics"]) == ("401", "401")
        items = gather([server.url, str(server.log)], [], Options(key_envs=("SOME_KEY",)))
        [found] = read(items)[0]
        assert (found.says("n_slots"), found.says("endpoint_slots")) == (1, False)
        assert {"slots", "metrics"} <= found.unread.keys()
        assert [f.id for f in report_on(items).findings if f.subject == "access"] == ["metrics-disabled"]


def test_a_router_has_no_pool_and_its_child_is_read_with_it(real: Parts, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "small.gguf").symlink_to(real.model)
    flags = ("--models-dir", str(folder), "-c", "256", "--models-max", "1")
    with started(real, tmp_path, *flags, model=False) as server:
        assert server.ask("POST", "/models/load", {"model": "small"}).status == 200
        server.wait_for(lambda: any(s.workers for s in read(gather([server.url], [], Options()))[0]))
        router, child = sorted(
            read(gather([server.url], [], Options(follow=True)))[0], key=lambda s: s.role is not Role.ROUTER
        )
        assert (router.role, router.pools, router.workers) == (Role.ROUTER, (), (child.name,))
        assert (child.says("n_slots"), child.says("kv_unified"), total_context(child).value) == (4, True, 256)
        in_log = read(gather([str(server.log)], [], Options()))[0]
        assert {s.role for s in in_log} == {Role.ROUTER, Role.UNIFIED}
        assert next(s for s in in_log if s.pools).says("n_ctx_slot") == 256
