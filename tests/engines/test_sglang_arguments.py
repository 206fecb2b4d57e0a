"""Arguments that no server would start with, or that are cut or mistyped, are no reading; the rest still counts."""

from __future__ import annotations

import pytest

from tests.evidence import URL, argv, document, log, server_args, start
from ullage.engines.sglang.facts import ARGUMENTS
from ullage.evidence import Evidence
from ullage.report.json_form import to_json
from ullage.report.model import Report, report_on

ODD = ("x", True, 0, -0.5, [1])
TOKENS = 100_000


def answered(*items: Evidence) -> Report:
    report = report_on(items, at=[1000])
    to_json(report)
    assert report.deployment.servers
    return report


@pytest.mark.parametrize("mode", ["null", "decode"])
@pytest.mark.parametrize("name", sorted(ARGUMENTS - {"disaggregation_mode"}))
def test_a_server_with_an_odd_argument_is_still_answered_for(name: str, mode: str) -> None:
    common: dict[str, object] = {"model_path": "/models/deepseek-v4-flash", "disaggregation_mode": mode}
    memory = {"internal_states": [{"memory_usage": {"token_capacity": TOKENS}}]}
    for value in ODD:
        answered(document(URL, "server_info", common | memory | {name: value}))
    answered(log("start.log", server_args(**common | {name: ["x"]}), *start(TOKENS)[1:]))


@pytest.mark.parametrize("value", ["", "x", "0.5", "-1", "$N", "1e999"])
@pytest.mark.parametrize(
    "flag", ["page-size", "dp", "context-length", "schedule-conservativeness", "max-queued-requests"]
)
def test_a_mistyped_flag_leaves_the_running_server_as_it_is(flag: str, value: str) -> None:
    command = argv(f"python -m sglang.launch_server --model-path /models/small --port 30000 --{flag} {value}")
    [server] = answered(log("start.log", *start(TOKENS)), command).deployment.servers
    assert server.says("max_total_num_tokens") == TOKENS


@pytest.mark.parametrize("length", [0, -1])
def test_a_context_of_nothing_is_not_asked_for(length: int) -> None:
    models = {"data": [{"id": "small", "owned_by": "sglang", "max_model_len": length}]}
    answered(document(URL, "models", models), log("start.log", *start(TOKENS, context=0)))
