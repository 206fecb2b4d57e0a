"""The router's metrics of older releases."""

from __future__ import annotations

from tests.evidence import argv, document, metrics
from ullage.engines.read import read
from ullage.report.rows import identity

ONE, TWO = "http://10.0.0.1:30000", "http://10.0.0.2:30000"


def test_a_router_whose_workers_are_not_known_does_not_say_that_it_has_none() -> None:
    [router] = read([argv("llama-server --models-dir /models")])[0]
    assert identity(router).split("  ")[2] == "workers not known"


def test_the_names_of_2025_tell_the_workers_and_their_requests() -> None:
    page = metrics(
        "http://router:29000",
        f'sgl_router_processed_requests_total{{worker="{ONE}"}} 7',
        f'sgl_router_processed_requests_total{{worker="{TWO}"}} 9',
        "sgl_router_active_workers 2",
        f'sgl_router_running_requests{{worker="{ONE}"}} 1',
        f'sgl_router_running_requests{{worker="{TWO}"}} 2',
    )
    [router], _ = read([page])
    assert router.workers == (ONE, TWO)
    usage = {name: figure.value for name, figure in router.usage.items()}
    assert usage == {"requests_total": 16, "active_workers": 2, "worker_requests_active": 3}


def test_workers_stand_in_one_order_however_the_router_lists_them() -> None:
    rows = [{"url": ONE, "worker_type": "decode", "is_healthy": True}, {"url": TWO, "worker_type": "prefill"}]
    for listed in (rows, rows[::-1]):
        [router], _ = read([document("http://router:8000", "workers", {"workers": listed})])
        assert router.workers == (TWO, ONE)
        healthy = router.usage[f"healthy {ONE}"]
        assert healthy.source is not None
        assert healthy.source.place == f"workers[{listed.index(rows[0])}].is_healthy"
