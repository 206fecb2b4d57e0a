from __future__ import annotations

from tests.evidence import READ_AT, URL, failed, log, of_server, on_host, start, vllm_start
from ullage.engines.on_host import DOWN, EMBEDDED, LEFTOVER
from ullage.evidence import Evidence, Member, Origin, Process, Unit
from ullage.findings.base import Severity

from .scenario import Items, Scenario, Scenarios

LAUNCH = "python -m sglang.launch_server --model-path /models/small --port 30000 --mem-fraction-static 0.83"
UNIT = "sglang.service"


def says(fraction: str, besides: str = "") -> str:
    return f"{LAUNCH.replace('0.83', fraction)} {besides}".strip()


RUNNING = on_host(LAUNCH, unit=UNIT, configured=LAUNCH, edited_s_ago=7200)
RESTART = (
    Scenario(
        fires=on_host(LAUNCH, unit=UNIT, configured=says("0.85"), edited_s_ago=600),
        silent=RUNNING,
        says=(
            "mem_fraction_static is 0.85 in /etc/systemd/system/sglang.service",
            "running since before the edit with 0.83",
            "restart pending",
        ),
        advice="systemctl restart sglang.service",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=on_host(LAUNCH, unit=UNIT, configured=says("0.83", "--context-length 131072"), reload_pending=True),
        silent=on_host(LAUNCH, unit=UNIT, configured=LAUNCH, reload_pending=True),
        says=("context_length is 131,072 in", "running since before the edit with not set"),
        advice="systemctl daemon-reload, then systemctl restart sglang.service",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=on_host(LAUNCH, unit=UNIT, configured=LAUNCH, edited_s_ago=600),
        silent=on_host(LAUNCH, unit=UNIT, configured=LAUNCH, edited_s_ago=600, clock_moved_s=-7000.0),
        says=("changed since the start: /etc/systemd/system/sglang.service", "nothing that was read there differs"),
        advice="look at what was edited",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=on_host(LAUNCH, unit=UNIT, edited_s_ago=600),
        silent=on_host(LAUNCH),
        says=("its command line there is not known",),
        advice="the next start reads it",
        severity=Severity.INFO,
    ),
)


def in_effect(context: int, unit_says: int) -> Items:
    items = on_host(
        f"{LAUNCH} --context-length {context}", unit=UNIT, configured=says("0.83", f"--context-length {unit_says}")
    )
    return (*items, of_server(log("journal", *start(500_000, context=context, context_length=context)), items))


def by_file(words: str, context: int = 524_288, edited_s_ago: float = 600) -> Items:
    """Its `--config` file, which is edited by now, may say more than its command line."""
    edited = says("0.83", "--context-length 131072")
    items = on_host(f"{LAUNCH} {words}", unit=UNIT, configured=edited, edited_s_ago=edited_s_ago)
    told = log("journal", *start(500_000, context=context, context_length=context, config="c.yaml"))
    return (*items, of_server(told, items))


def of_op(items: Items) -> Items:
    """The same under a user's manager."""
    return tuple(
        i._replace(content=i.content._replace(manager="user op")) if isinstance(i.content, Unit) else i for i in items
    )


def unread_file() -> Items:
    return on_host(
        f"{LAUNCH} --config c.yaml", unit=UNIT, configured=says("0.83", "--context-length 131072"), edited_s_ago=600
    )


OF_A_FILE = (
    Scenario(
        fires=of_op(on_host(LAUNCH, unit=UNIT, configured=says("0.85"), edited_s_ago=600, reload_pending=True)),
        silent=of_op(RUNNING),
        says=("restart pending",),
        advice="systemctl --user daemon-reload, then systemctl --user restart sglang.service (as op) when it suits",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=by_file("--config c.yaml"),
        silent=by_file("--config=c.yaml", 131_072, 7200),
        says=("context_length is 131,072 in", "running since before the edit with 524,288 (/etc/"),
        advice="systemctl restart",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=unread_file(),
        silent=on_host(f"{LAUNCH} --config c.yaml", unit=UNIT, configured=says("0.83"), edited_s_ago=7200),
        says=("what it read of its --config file is not known",),
        advice="the next start reads it",
        severity=Severity.INFO,
    ),
)
DIFFERS = (
    Scenario(
        fires=in_effect(524_288, 131_072),
        silent=in_effect(131_072, 131_072),
        says=("context_length is 131,072 in /etc/systemd/system/sglang.service, it runs with 524,288",),
        advice="systemctl cat sglang.service",
        severity=Severity.WARNING,
    ),
)
CLOCK = (
    Scenario(
        fires=on_host(LAUNCH, unit=UNIT, clock_moved_s=7200.0),
        silent=on_host(LAUNCH, unit=UNIT, clock_moved_s=0.4),
        says=("set forward by 2 h 0 min",),
        advice="time service",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=on_host(LAUNCH, unit=UNIT, clock_moved_s=-90.0),
        silent=on_host(LAUNCH, unit=UNIT, clock_moved_s=None),
        says=("set back by 90 s",),
        advice="time service",
        severity=Severity.INFO,
    ),
)


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
        fires=(*RUNNING, no_server(LEFTOVER)),
        silent=(*RUNNING, no_server(EMBEDDED)),
        says=("2 SGLang processes without a server: 77, 78",),
        advice="kill 77 78",
        severity=Severity.ERROR,
    ),
)


def down(**fields: object) -> Evidence:
    given = {"manager": "system", "state": "activating (auto-restart)", "result": "exit-code"} | fields
    unit = Unit(UNIT, **given)  # type: ignore[arg-type]
    return Evidence(Origin(UNIT), UNIT, DOWN, READ_AT, unit)


STAYS = (
    Scenario(
        fires=(*on_host(LAUNCH), down(restarts=12)),
        silent=on_host(LAUNCH, unit=UNIT, restarts=0),
        says=("sglang.service is activating (auto-restart), started again 12 times, the last end: exit-code",),
        advice="journalctl -u sglang.service",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=on_host(LAUNCH, unit=UNIT, restarts=1, result="success"),
        silent=on_host(LAUNCH, unit=UNIT, restarts=None),
        says=("started again 1 time",),
        advice="read how it ended",
        severity=Severity.WARNING,
    ),
)
DOWN_SINCE = (
    Scenario(
        fires=(*on_host(LAUNCH), down(restarts=0)),
        silent=on_host(LAUNCH),
        says=("sglang.service is activating (auto-restart), waits to be started again, the last end: exit-code",),
        advice="journalctl -u sglang.service",
        severity=Severity.ERROR,
    ),
    Scenario(
        fires=(*on_host(LAUNCH), down(state="failed (failed)", since=READ_AT, manager="user op")),
        silent=on_host(LAUNCH),
        says=(f"sglang.service has failed (since {READ_AT:%Y-%m-%d %H:%M:%S} UTC), not started again",),
        advice="journalctl --user -u sglang.service -e (as op)",
        severity=Severity.ERROR,
    ),
)
INSIDE = (
    Scenario(
        fires=(*RUNNING, no_server(EMBEDDED)),
        silent=(*RUNNING, no_server(LEFTOVER)),
        says=("python eval.py runs SGLang inside itself",),
        advice="ullage memory",
        severity=Severity.INFO,
    ),
)
SCENARIOS: Scenarios = {
    "engine-inside-a-program": INSIDE,
    "does-not-stay-up": STAYS + DOWN_SINCE,
    "restart-pending": RESTART + OF_A_FILE,
    "unit-differs": DIFFERS,
    "clock-set": CLOCK,
    "not-serving": SERVES,
    "port-taken": PORT,
    "left-over-processes": LEFT,
}
