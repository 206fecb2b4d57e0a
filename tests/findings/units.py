from __future__ import annotations

from tests.evidence import READ_AT, log, of_server, on_host, start
from ullage.evidence import CONFIGURED, DOWN, Evidence, Failure, Origin, Unit
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
        fires=on_host(LAUNCH, unit=UNIT, configured=says("${FRACTION}"), edited_s_ago=600),
        silent=on_host(LAUNCH, unit=UNIT, configured=says("${FRACTION}"), edited_s_ago=7200),
        says=("some of its command line there is not known", "nothing that was read there differs"),
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


RUNS_ON = on_host(LAUNCH, unit=UNIT)
MASKED = Evidence(RUNS_ON[0].origin, UNIT, CONFIGURED, READ_AT, Failure("masked", "it cannot be started"))
GONE = (
    Scenario(
        fires=on_host(LAUNCH, unit=UNIT, gone=True),
        silent=on_host(LAUNCH, unit=UNIT),
        says=("sglang.service is active (running), and its file is no more",),
        advice="put its file back",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(*RUNS_ON, MASKED),
        silent=(*RUNS_ON, MASKED._replace(content=Failure("no rights", "no permission to read it"))),
        says=("sglang.service is active (running), and it is masked",),
        advice="systemctl unmask sglang.service",
        severity=Severity.WARNING,
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
SCENARIOS: Scenarios = {
    "does-not-stay-up": (*STAYS, *DOWN_SINCE),
    "restart-pending": (*RESTART, *OF_A_FILE),
    "unit-differs": DIFFERS,
    "clock-set": CLOCK,
    "unit-gone": GONE,
}
