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


INFO = (  # of a server whose context is the model's own
    document(
        URL,
        "server_info",
        {"disaggregation_mode": "null", "port": 30000, "schedule_conservativeness": 1.0, "internal_states": []},
    ),
    document(URL, "models", {"data": [{"id": "m", "owned_by": "sglang", "max_model_len": 4096}]}),
)
DIFFERS = (
    Scenario(
        fires=(RUNS, intended("--mem-fraction-static 0.85 --context-length 131072")),
        silent=(RUNS, intended("--mem-fraction-static 0.830 --context-length 131072 --tp 4 --port 30000")),
        says=("mem_fraction_static is 0.85 in ullage.toml, target 1, it runs with 0.83",),
        advice="restart it with these flags",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(*INFO, intended("--context-length 8192 --schedule-conservativeness 2", URL)),
        silent=(*INFO, intended("--context-length 4096 --schedule-conservativeness 1 --port 30000", URL)),
        says=("context_length is 8,192 in ullage.toml, target 1, it runs with 4,096", "conservativeness is 2 in"),
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
    Scenario(
        fires=(RUNS, intended("--mem-fractoin-static 0.85 --context-length=131_O72 --tp 4 --api-key k")),
        silent=(RUNS, intended("--mem-fraction-static 0.83 --context-length=131072 --tp 4 --api-key k --host ::1")),
        says=("Ullage does not read them, or their values are none: --mem-fractoin-static, --context-length",),
        advice="look at how they are written",
        severity=Severity.INFO,
    ),
)
SCENARIOS: Scenarios = {"spec-differs": DIFFERS, "spec-not-compared": NOT_COMPARED}
