"""A metrics page that holds several servers: each by itself, whichever label tells them apart."""

from __future__ import annotations

import pytest

from tests.evidence import metrics
from ullage.engines.server import Server
from ullage.engines.sglang.read import facts_of, servers

LABELS = {"model_name": "small", "engine_type": "prefill", "tp_rank": "0"}


def lines(value: int, **labels: str) -> list[str]:
    told = ",".join(f'{name}="{text}"' for name, text in (LABELS | labels).items())
    names = ("max_total_num_tokens", "num_running_reqs")
    return [f"sglang:{name}{{{told}}} {value + place}" for place, name in enumerate(names)]


def page(*told: str) -> list[Server]:
    return servers(facts_of(metrics("m.txt", *told)))


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("model_name", ("small", "big")),
        ("instance", ("a:1", "b:1")),
        ("engine", ("0", "1")),
        ("engine_type", ("prefill", "decode")),
        ("worker_addr", ("a:1", "b:1")),
        ("pod", ("sglang-0", "sglang-1")),
    ],
)
def test_two_servers_on_a_page_stay_two(label: str, values: tuple[str, str]) -> None:
    found = page(*lines(10, **{label: values[0]}), *lines(90, **{label: values[1]}))
    stated = [(s.says("max_total_num_tokens"), s.use("num_running_reqs").value) for s in found]
    assert sorted(stated, key=str) == [(10, 11), (90, 91)]


@pytest.mark.parametrize("besides", [{"engine_type": "unified"}, {"name": "a_function"}, {"tp_rank": "1"}])
def test_what_is_no_server_does_not_split_a_page(besides: dict[str, str]) -> None:
    told = ",".join(f'{name}="{text}"' for name, text in (LABELS | besides).items())
    [found] = page(*lines(10), f"sglang:num_queue_reqs{{{told}}} 5", 'sglang:func_latency_seconds_sum{name="other"} 1')
    assert (found.says("max_total_num_tokens"), found.use("num_queue_reqs").value) == (10, 5)
