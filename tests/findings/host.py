from __future__ import annotations

from tests.evidence import argv, log
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios
from .slots import M, start

CHECKPOINTS = "srv    load_model: context checkpoints enabled, max = {count}, min spacing = 8192"
STATES = (
    "llama_memory_recurrent: size =  201.00 MiB (     4 cells,  32 layers,  4 seqs  0 rs_seq), "
    "R (f32):    9.00 MiB, S (f32):  192.00 MiB, P (f32):    0.00 MiB"
)
UNIT = "Oct 05 16:43:01 box systemd[1]: llama-server.service: "
PEAK = f"{UNIT}Consumed 25.690s CPU time over 1min 23.032s wall clock time, 36.1G memory peak, 10.6G memory swap peak."

GROWS = (
    Scenario(
        fires=(argv(f"{M} -c 8192"),),
        silent=(argv(f"{M} -c 8192 --cache-ram 512"),),
        says=("up to 8,192 MiB of host memory beside the model, for saved prompts",),
        advice="--cache-ram",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(log("a.log", *start(8192, unified=True), STATES, CHECKPOINTS.replace("{count}", "32")),),
        silent=(log("a.log", *start(8192, unified=True), STATES, CHECKPOINTS.replace("{count}", "2")),),
        says=("up to 6,432 MiB of host memory beside the model, for checkpoints",),
        advice="--ctx-checkpoints",
        severity=Severity.INFO,
    ),
)
KILLED = (
    Scenario(
        fires=(log("a.log", f"{UNIT}systemd-oomd killed 79 process(es) in this unit.", PEAK),),
        silent=(log("a.log", f"{UNIT}Failed with result 'exit-code'.", PEAK),),
        says=("systemd-oomd killed it at 36.1 GiB",),
        advice="--cache-ram",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(log("a.log", f"{UNIT}Failed with result 'oom-kill'.", PEAK),),
        silent=(log("a.log", f"{UNIT}Failed with result 'signal'.", PEAK),),
        says=("the kernel killed it",),
        advice="--models-max",
        severity=Severity.ERROR,
    ),
)
SCENARIOS: Scenarios = {"host-cache-grows": GROWS, "killed-for-memory": KILLED}
