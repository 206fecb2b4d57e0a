from __future__ import annotations

from tests.evidence import READ_AT, URL, failed, log, metrics, of_server, on_host, start, vllm_start
from ullage.evidence import EMBEDDED, LEFTOVER, Evidence, Member, Origin, Process
from ullage.findings.base import Severity

from .scenario import Items, Scenario, Scenarios

LAUNCH = "python -m sglang.launch_server --model-path /models/small --port 30000 --mem-fraction-static 0.83"
UNIT = "sglang.service"


def that_answers() -> Items:
    items = on_host(LAUNCH)
    return (*items, of_server(log("server.log", *start(500_000)), items))


def that_hangs(status: str, age_s: float = 7200) -> Items:
    items = on_host(LAUNCH, unit=UNIT, age_s=age_s)
    return (*items, of_server(failed(URL, "", status), items))


SERVES = (
    Scenario(
        fires=on_host(LAUNCH, listens=(), age_s=7200, unit=UNIT),
        silent=that_answers(),
        says=("pid 4242 has run for 2 h 0 min and listens on nothing", "sglang.service is active (running)"),
        advice="journalctl -u sglang.service",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=on_host(LAUNCH, listens=(), age_s=90),
        silent=on_host(LAUNCH, listens=(), age_s=90, hidden=True),
        says=("has run for 90 s",),
        advice="wait for its log",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=that_hangs("timeout"),
        silent=that_hangs("401"),
        says=("does not answer",),
        advice="read the end of its log",
        severity=Severity.ERROR,
    ),
)


def elsewhere(items: Items, **fields: object) -> Items:
    """The same with other fields of its process."""
    return tuple(
        i._replace(content=i.content._replace(**fields)) if isinstance(i.content, Process) else i  # type: ignore[arg-type]
        for i in items
    )


def of_two_engines() -> Items:
    """One process, of whose port another engine's page was read too."""
    items = on_host(LAUNCH, 100)
    return (*items, *(of_server(i, items) for i in (log("a", *start(500_000)), log("b", *vllm_start(64_000, 7.81)))))


STOPPED = (
    Scenario(
        fires=on_host(LAUNCH, age_s=90, stopped=(4242, 4243)),
        silent=on_host(LAUNCH, age_s=90),
        says=("is stopped (pid 4242, 4243: SIGSTOP",),
        advice="kill -CONT 4242 4243",
        severity=Severity.ERROR,
    ),
)
PORT = (
    Scenario(
        fires=(
            *elsewhere(on_host(LAUNCH, 100), network="n 1"),
            *elsewhere(on_host(LAUNCH, 200, listens=()), network="n 1"),
        ),
        silent=(*elsewhere(on_host(LAUNCH, 100), network="n 1"), *elsewhere(on_host(LAUNCH, 200), network="n 2")),
        says=("both told to use port 30000: pid 100 listens on it",),
        advice="kill 200",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(*on_host(LAUNCH, 100, listens=["0.0.0.0:30000"]), *on_host(LAUNCH, 200, listens=["10.0.0.5:30000"])),
        silent=(*on_host(LAUNCH, 100), *on_host(LAUNCH, 200, listens=["10.0.0.5:30000"])),
        says=("both listen",),
        advice="a port of its own",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(*on_host(LAUNCH, 100, hidden=True), *on_host(LAUNCH, 200, hidden=True, url=f"{URL}#", unit=UNIT)),
        silent=of_two_engines(),
        says=("both told to use port 30000: which of them listens on it is not readable",),
        advice="(kill 100 or systemctl stop sglang.service)",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(*on_host(LAUNCH, 100), *on_host(LAUNCH, 200, listens=())),
        silent=(*on_host(LAUNCH, 100), *on_host(LAUNCH.replace("30000", "30001"), 200)),
        says=("pid 100 and pid 200 are both told to use port 30000: pid 100 listens on it",),
        advice="kill 200",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(*on_host(LAUNCH, 100), *on_host(LAUNCH, 200, url="http://10.0.0.5:30000")),
        silent=on_host(LAUNCH, 100),
        says=("both listen",),
        advice="a port of its own",
        severity=Severity.ERROR,
    ),
)


def no_server(topic: str) -> Evidence:
    process = Process(77, "SGLang", READ_AT, "llm", (Member(78, "sglang::scheduler_TP1"),), title="python eval.py")
    return Evidence(Origin("pid 77"), "pid 77", topic, READ_AT, process)


LEFT = (
    Scenario(
        fires=(*on_host(LAUNCH), no_server(LEFTOVER)),
        silent=(*on_host(LAUNCH), no_server(EMBEDDED)),
        says=("2 SGLang processes without a server: 77, 78",),
        advice="kill 77 78",
        severity=Severity.ERROR,
    ),
)


INSIDE = (
    Scenario(
        fires=(*on_host(LAUNCH), no_server(EMBEDDED)),
        silent=(*on_host(LAUNCH), no_server(LEFTOVER)),
        says=("python eval.py runs SGLang inside itself",),
        advice="ullage memory",
        severity=Severity.INFO,
    ),
)


def in_state(state: str) -> Items:
    items = on_host(LAUNCH, unit=UNIT, state=state)
    return (*items, of_server(metrics(URL, 'sglang:num_running_reqs{model_name="m"} 1'), items))


NEVER_ENDS = (
    Scenario(
        fires=in_state("activating (start)"),
        silent=in_state("active (running)"),
        says=("sglang.service is activating (start), although the server answers",),
        advice="set Type=exec in sglang.service",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=in_state("activating (start)"),
        silent=on_host(LAUNCH, unit=UNIT, state="activating (start)"),
        says=("systemd still waits",),
        advice="Type=exec",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "start-never-ends": NEVER_ENDS,
    "not-serving": SERVES + STOPPED,
    "port-taken": PORT,
    "left-over-processes": LEFT,
    "engine-inside-a-program": INSIDE,
}
