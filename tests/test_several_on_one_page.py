"""Servers that have nothing to do with each other on one page: each has its own rows, and files say no time of day."""

from __future__ import annotations

from tests.evidence import URL, argv, log, metrics, start, vllm_gauges, vllm_start
from ullage.engines.read import read
from ullage.report.model import report_on
from ullage.report.rows import rows_of, usage_rows


def labels(title: str, tables: list[tuple[str, list[str]]]) -> list[str]:
    return next(rows for name, rows in tables if title in name)


def test_each_server_has_its_own_full_context_and_no_standard_lengths_above_it() -> None:
    report = report_on(
        [log("small.log", *start(20_000, context=8192)), log("big.log", *vllm_start(640_000, 9.77, length=65_536))]
    )
    tables = [(title, [row.label for row in rows]) for title, rows in rows_of(report)]
    assert labels("small.log", tables) == ["4,096", "full 8,192"]
    assert labels("big.log", tables) == ["4,096", "32,768", "full 65,536"]


def test_what_is_asked_for_stands_in_every_table() -> None:
    items = [log("small.log", *start(20_000, context=8192)), log("big.log", *vllm_start(640_000, 9.77, length=65_536))]
    tables = [(title, [row.label for row in rows]) for title, rows in rows_of(report_on(items, at=[10_000]))]
    assert all("10,000" in rows for _, rows in tables)


def test_a_captured_page_does_not_say_when() -> None:
    gauges = vllm_gauges(num_requests_running=3, num_requests_waiting=0)
    [captured], _ = read([metrics("metrics.txt", *gauges)])
    [live], _ = read([metrics(URL, *gauges)])
    assert captured.running.observed_at is None
    assert "the file does not say" in dict(usage_rows(captured))["in use now"]
    assert live.running.observed_at is not None
    assert "the file does not say" not in dict(usage_rows(live))["in use now"]


def test_files_of_two_vllm_servers_are_not_joined() -> None:
    """A log whose arguments name no other is served under its model's name, and the page is of another."""
    items = [log("vllm.log", *vllm_start(64_000, 7.81)), metrics("metrics.txt", *vllm_gauges(num_requests_running=1))]
    assert len(read(items)[0]) == 2
    named = [log("vllm.log", *vllm_start(64_000, 7.81, served_model_name="small")), items[1]]
    assert len(read(named)[0]) == 1


def test_an_unset_default_output_is_told_with_its_bound() -> None:
    """Where the pool itself is not known there is nothing to tell."""
    known = report_on([log("vllm.log", *vllm_start(64_000, 7.81))])
    assert [f.says[:37] for f in known.findings if f.id == "no-output-bound"] == [
        "with no max_tokens named, 7 chat requ"
    ]
    unknown = report_on([argv("vllm serve m --max-num-seqs 8 --max-model-len 8192")])
    assert not [f for f in unknown.findings if f.id == "no-output-bound"]
