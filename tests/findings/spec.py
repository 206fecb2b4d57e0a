from __future__ import annotations

import shlex

from tests.evidence import READ_AT, URL, document, log, metrics, start, vllm_start
from ullage.evidence import INTENDED, Argv, Evidence, Origin
from ullage.findings.base import Severity
from ullage.masking import Masker

from .scenario import Scenario, Scenarios

RUNS = log("decode.log", *start(500_000, context=524_288, mem_fraction_static=0.83, context_length=131_072, tp_size=4))


def intended(flags: str, target: str = "decode.log") -> Evidence:
    content = Argv(Masker().words(shlex.split(flags)))
    return Evidence(Origin(target), "ullage.toml, target 1", INTENDED, READ_AT, content)


DIFFERS = (
    Scenario(
        fires=(RUNS, intended("--mem-fraction-static 0.85 --context-length 131072")),
        silent=(RUNS, intended("--mem-fraction-static 0.830 --context-length 131072 --tp 4 --port 30000")),
        says=("mem_fraction_static is 0.85 in ullage.toml, target 1, it runs with 0.83",),
        advice="restart it with these flags",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(RUNS, intended("python -m sglang.launch_server --context-length 65536")),
        silent=(RUNS, intended("--mem-fraction-static 0.85", "prefill.log")),
        says=("context_length is 65,536 in ullage.toml, target 1, it runs with 131,072, 524,288 in effect",),
        advice="write what it runs with",
        severity=Severity.WARNING,
    ),
)
USE = metrics(URL, 'sglang:num_running_reqs{model_name="m"} 1', 'sglang:max_total_num_tokens{model_name="m"} 5e5')
NOT_COMPARED = (
    Scenario(
        fires=(USE, intended("--mem-fraction-static 0.85", URL)),
        silent=(
            USE,
            document(
                URL,
                "server_info",
                {"mem_fraction_static": 0.85, "disaggregation_mode": "null", "internal_states": []},
            ),
            intended("--mem-fraction-static 0.85", URL),
        ),
        says=("nothing that was read states what it runs with: mem_fraction_static (0.85)",),
        advice="add its whole start-up log",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(log("v.log", *vllm_start(90_000, 11.0)), intended("--max-num-seqs 64", "v.log")),
        silent=(log("v.log", *vllm_start(90_000, 11.0, max_num_seqs=64)), intended("--max-num-seqs 64", "v.log")),
        says=("max_num_seqs (64)",),
        advice="add its whole start-up log",
        severity=Severity.INFO,
    ),
)
SCENARIOS: Scenarios = {"spec-differs": DIFFERS, "spec-not-compared": NOT_COMPARED}
