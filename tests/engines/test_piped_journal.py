"""A unit's journal as it is piped in: systemd's "Started" stands before, after or among the lines of its start.

What systemd says was recorded (252; with StatusUnitFormat=description where it says the description alone), and is by
247 and 219 where an older one says it in other words.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.evidence import decode_batch, log, start, vllm_start, vllm_stats
from ullage.engines.read import read
from ullage.engines.server import Server
from ullage.evidence import Evidence

from .test_llamacpp_log import NEWEST

UNIT = "llm.service - LLM server"
CRASH = (
    "llm.service: Main process exited, code=exited, status=3/NOTIMPLEMENTED",
    "llm.service: Failed with result 'exit-code'.",
    "llm.service: Scheduled restart job, restart counter is at 1.",
    f"Stopped {UNIT}.",
)
STOP = (f"Stopping {UNIT}...", "llm.service: Deactivated successfully.", f"Stopped {UNIT}.")
ENDS = {
    "stopped": STOP,
    "stopped by a user's manager": (STOP[0], STOP[2]),
    "crashed": CRASH,
    "killed and started by hand": (CRASH[0], "llm.service: Failed with result 'signal'."),
    "out of memory": (
        "llm.service: A process of this unit has been killed by the OOM killer.",
        CRASH[0],
        "llm.service: Failed with result 'oom-kill'.",
        "llm.service: Consumed 5min 3.1s CPU time, 20.5G memory peak.",
    ),
    "stopped, 247": (STOP[0], "llm.service: Succeeded.", STOP[2]),
    "crashed, 241": (
        CRASH[0],
        CRASH[1],
        "llm.service: Service RestartSec=100ms expired, scheduling restart.",
        *CRASH[2:],
    ),
    "crashed, 219": (
        "llm.service: main process exited, code=exited, status=1/FAILURE",
        "llm.service holdoff time over, scheduling restart.",
    ),
    "ended by itself": ("llm.service: Deactivated successfully.",),
    "ended by itself, 247": ("llm.service: Succeeded.",),
    "without a main process": ("llm.service: Failed with result 'timeout'.",),
    "rebooted": ("-- Boot 0123456789abcdef0123456789abcdef --",),
    "the power failed, 245": ("-- Reboot --",),
}
STARTING, STARTED = f"Starting {UNIT}...", f"Started {UNIT}."


SERVERS: dict[str, tuple[Callable[[int], tuple[str, ...]], str]] = {  # by what it calls its pool: a start, a run
    "max_total_num_tokens": (start, decode_batch(1)),
    "kv_cache_size_tokens": (lambda tokens: vllm_start(tokens, 1), vllm_stats("10:10", 1)),
    "n_ctx_slot": (
        lambda tokens: tuple(line.replace("8192", str(tokens)) for line in NEWEST),
        "9.00.559.229 I slot launch_slot_: id  0 | task 1 | processing task, is_child = 0",
    ),
}
servers = pytest.mark.parametrize("figure", SERVERS)


Part = list[str]  # lines that come in one second


def printed(figure: str, tokens: int) -> Part:
    make, _ = SERVERS[figure]
    return [f"python3[376]: {line}" for line in make(tokens)]


def runs(figure: str) -> Part:
    return [f"python3[376]: {SERVERS[figure][1]}"]


def systemd(*lines: str, pid: int = 1) -> Part:
    return [line if line.startswith("-- ") else f"systemd[{pid}]: {line}" for line in lines]


def journal(*parts: Part) -> Evidence:
    lines = [
        (f"2026-11-30T12:00:{second:02}+0000 machine ", line) for second, part in enumerate(parts) for line in part
    ]
    return log("standard input", *(line if line.startswith("-- ") else head + line for head, line in lines))


def server_of(*parts: Part) -> Server:
    return server_in(journal(*parts))


def server_in(evidence: Evidence) -> Server:
    (server,), unclaimed = read([evidence])
    assert not unclaimed
    return server


def pools(figure: str, *parts: Part) -> list[object]:
    """Of the earlier starts, and of the current one: None where nothing is known."""
    return pools_in(figure, journal(*parts))


def pools_in(figure: str, evidence: Evidence) -> list[object]:
    server = server_in(evidence)
    earlier = [found.figures[figure].value for found in server.earlier]
    return [*earlier, server.figure(figure).value]


def a_start(figure: str, tokens: int, place: int | None, starting: bool) -> Part:
    """With "Started" before the line of that place; None: not at all."""
    lines = printed(figure, tokens)
    if place is not None:
        lines[place:place] = systemd(STARTED)
    return [*(systemd(STARTING) if starting else ()), *lines]


@servers
@pytest.mark.parametrize("starting", [True, False])
@pytest.mark.parametrize("place", [0, 1, 2, 4, 99])
def test_started_belongs_to_the_start_around_it(figure: str, place: int, starting: bool) -> None:
    server = server_of(a_start(figure, 1024, place, starting), runs(figure))
    assert (server.figure(figure).value, server.earlier) == (1024, ())
    assert server.name.startswith("llm.service" if server.engine != "llama.cpp" else "python3")


@servers
def test_started_can_come_long_after_the_first_line(figure: str) -> None:
    first, *others = printed(figure, 1024)
    assert pools(figure, systemd(STARTING), [first], others, systemd(STARTED), runs(figure)) == [1024]


@servers
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", [0, 1, 99])
def test_what_was_before_the_last_end_is_an_earlier_start(figure: str, end: str, place: int) -> None:
    first, second = (a_start(figure, tokens, place, place == 99) for tokens in (1024, 2048))
    assert pools(figure, first, runs(figure), systemd(*ENDS[end]), second) == [1024, 2048]


@servers
@pytest.mark.parametrize("end", [end for end, said in ENDS.items() if "--" not in said[0]])
@pytest.mark.parametrize("place", [1, 2, 99])
@pytest.mark.parametrize("others", [(), ("Starting cron.service...", "Started cron.service.")])
def test_what_is_noted_too_late_is_still_of_the_start_before(
    figure: str, end: str, place: int, others: tuple[str, ...]
) -> None:
    said, *late = (line for line in ENDS[end] if "OOM" not in line)
    again = printed(figure, 2048)
    again[place:place] = systemd(*late, STARTING, STARTED)
    starts = [systemd(*others), a_start(figure, 1024, 0, False), [*systemd(said), *again]]
    assert pools(figure, *starts) == [1024, 2048]
    assert pools(figure, *starts, systemd(*ENDS[end], STARTED)) == [1024, 2048, None]


@servers
def test_a_fraction_of_the_second_tells_what_was_noted_too_late(figure: str) -> None:
    def at(millis: int, *lines: str) -> Part:
        return [f"2026-11-30T12:00:00.{millis:03}+0000 machine {line}" for line in lines]

    others = systemd("Started other.service.", "Stopping other.service...", "Stopped other.service.")
    first = [*at(10, *systemd(STARTED)), *at(20, *printed(figure, 1024)), *at(200, *others), *at(300, others[0])]
    late = [*at(420, *systemd(*STOP[1:], STARTING)), *at(430, *systemd(STARTED))]
    starts = [*first, *at(400, *systemd(STOP[0])), *at(410, *printed(figure, 2048)), *late]
    assert pools_in(figure, log("a.log", *starts)) == [1024, 2048]
    assert pools_in(figure, log("a.log", *starts, *at(700, *others[1:], others[0]))) == [1024, 2048]
    assert pools_in(figure, log("a.log", *starts, *at(700, *systemd(*STOP, STARTING)))) == [1024, 2048, None]


@servers
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("started", [STARTING, STARTED])
@pytest.mark.parametrize("place", [0, 99, None])
def test_of_a_start_that_has_printed_nothing_nothing_is_known(
    figure: str, end: str, started: str, place: int | None
) -> None:
    before = [a_start(figure, 1024, place, started == STARTING), runs(figure)]
    assert pools(figure, *before, systemd(*ENDS[end], started)) == [1024, None]


@servers
def test_a_start_that_ended_in_its_first_second(figure: str) -> None:
    for place in (0, 1, 99, None):
        before = a_start(figure, 1024, place, place not in (0, 1))
        assert pools(figure, [*before, *systemd(*CRASH, STARTING)]) == [1024, None]


@servers
def test_a_second_started_is_a_second_start_though_nothing_says_that_the_first_ended(figure: str) -> None:
    assert pools(figure, a_start(figure, 1024, 0, False), systemd(STARTED)) == [1024, None]
    assert pools(figure, a_start(figure, 1024, 99, False), systemd(STARTED)) == [1024, None]


@servers
def test_a_restart_that_is_scheduled_is_a_start(figure: str) -> None:
    parts = [a_start(figure, 1024, 0, False), systemd(*CRASH[:3])]
    assert pools(figure, *parts) == [1024, None]
    server = server_of(*parts)
    assert (server.says("restart_counter") or server.use("restart_counter").value) == 1


@servers
def test_what_a_dying_server_prints_does_not_undo_its_end(figure: str) -> None:
    before = [a_start(figure, 1024, 99, True), [*systemd(STOP[0]), *runs(figure)]]
    assert pools(figure, *before, systemd(*STOP[1:], STARTED)) == [1024, None]


@servers
def test_a_reload_is_no_start(figure: str) -> None:
    parts = [a_start(figure, 1024, 99, True), systemd(f"Reloading {UNIT}...", f"Reloaded {UNIT}.")]
    assert pools(figure, *parts) == [1024]


@servers
def test_the_units_of_a_user(figure: str) -> None:
    parts = [[*printed(figure, 1024), *systemd(STARTED, pid=1496)]]
    assert pools(figure, *parts) == [1024]
    assert pools(figure, *parts, systemd(STOP[0], STOP[2], STARTING, pid=1496)) == [1024, None]


@servers
@pytest.mark.parametrize("place", [0, 99, None])
def test_a_journal_without_tags_and_times(figure: str, place: int) -> None:
    parts = [a_start(figure, 1024, place, place == 99), systemd(*STOP), systemd(STARTED)]
    plain = [line.partition("]: ")[2] for part in parts for line in part]
    assert pools_in(figure, log("a.log", *plain[:-4])) == [1024]
    assert pools_in(figure, log("a.log", *plain)) == [1024, None]


@servers
def test_a_unit_by_its_description_alone(figure: str) -> None:
    starting, started, *stop = (line.replace("llm.service - ", "") for line in (STARTING, STARTED, *STOP))
    parts = [[*systemd(starting), *printed(figure, 1024), *systemd(started)]]
    assert pools(figure, *parts) == [1024]
    assert pools(figure, *parts, systemd(*stop, starting)) == [1024, None]
    assert pools(figure, *parts, systemd(*CRASH[:2], starting)) == [1024, None]
    assert pools(figure, printed(figure, 1024), systemd(*CRASH[:2], started)) == [1024, None]


# What `journalctl` prints of other units

ELSEWHERE = (
    "Started session-12.scope - Session 12 of User op.",
    "Started Session 3 of user root.",
    "Started systemd-tmpfiles-clean.timer - Daily Cleanup of Temporary Directories.",
    "Starting oneshot.service...",
    "oneshot.service: Deactivated successfully.",
    "Finished oneshot.service.",
    "Starting dbus.service - D-Bus System Message Bus...",
    "Started dbus.service - D-Bus System Message Bus.",
    "Starting user@1001.service - User Manager for UID 1001...",
    "Started user@1001.service - User Manager for UID 1001.",
    "Started run-re5c14097d7fc4ee8a2079568798289a6.scope - /usr/bin/true.",
    "run-re5c14097d7fc4ee8a2079568798289a6.scope: Deactivated successfully.",
    "session-12.scope: Deactivated successfully.",
    "Reached target timers.target - Timer Units.",
)
OTHERS = systemd(*ELSEWHERE)
CRON = "cron.service - Regular background program processing daemon"
CRON_STARTS = systemd(f"Started {CRON}.")
CRON_AGAIN = systemd(f"Stopping {CRON}...", "cron.service: Deactivated successfully.", f"Started {CRON}.")


@servers
@pytest.mark.parametrize("place", [0, 99])
def test_other_units_begin_no_start(figure: str, place: int) -> None:
    parts = [OTHERS, a_start(figure, 1024, place, place == 99), OTHERS, runs(figure), OTHERS]
    server = server_of(*parts)
    assert (server.figure(figure).value, server.earlier) == (1024, ())
    assert server.name.startswith("llm.service" if server.engine != "llama.cpp" else "python3")
    assert pools(figure, *parts, systemd(*STOP), OTHERS, systemd(STARTED), OTHERS) == [1024, None]


@servers
@pytest.mark.parametrize("place", [0, 2, 99])
def test_what_runs_no_server_is_no_unit_beside_it(figure: str, place: int) -> None:
    others = systemd(*(line for line in ELSEWHERE if "ession" in line or ".timer" in line))
    first, *lines = printed(figure, 1024)
    parts = [others, [first], [*lines[:place], *systemd(STARTED), *lines[place:]], others]
    assert pools(figure, *parts) == [1024]
    assert pools(figure, *parts, systemd(*STOP, STARTED), others) == [1024, None]


@servers
def test_a_unit_that_started_again_while_the_server_went_on_is_not_its_own(figure: str) -> None:
    parts = [CRON_STARTS, a_start(figure, 1024, 0, False), CRON_AGAIN, runs(figure)]
    assert pools(figure, *parts, CRON_AGAIN) == [1024]
    assert pools(figure, *parts, CRON_AGAIN, systemd(*STOP, STARTED)) == [1024, None]


@servers
def test_a_unit_in_whose_lives_fewer_starts_begin_is_not_the_servers(figure: str) -> None:
    twice = [a_start(figure, 1024, 0, False), systemd(*STOP), a_start(figure, 2048, 0, False)]
    parts = [CRON_STARTS, *twice, CRON_AGAIN]
    assert pools(figure, *parts) == [1024, 2048]
    assert pools(figure, *parts, systemd(*STOP, STARTED), CRON_AGAIN) == [1024, 2048, None]


@servers
def test_of_several_units_the_one_that_is_called_like_an_engine_is_the_servers(figure: str) -> None:
    starting, started, *stop = (line.replace("llm", "vllm") for line in (STARTING, STARTED, *STOP))
    parts = [CRON_STARTS, [*systemd(starting), *printed(figure, 1024), *systemd(started)], CRON_AGAIN]
    assert pools(figure, *parts) == [1024]
    assert pools(figure, *parts, systemd(*stop, starting)) == [1024, None]
    for end in (stop, [line.replace("llm", "vllm") for line in CRASH]):
        for begin in (starting, started):
            begun = server_of(runs(figure), CRON_AGAIN, systemd(end[0], begin), CRON_AGAIN)
            assert (len(begun.earlier), begun.says("num_requests_running")) == (1, None)


def test_the_journal_of_another_program_is_nobodys() -> None:
    for said in ((*ELSEWHERE, STARTED, *CRASH), (STARTED, *CRASH), (f"Started {CRON}.",), (*STOP, STARTED)):
        assert read([journal(systemd(*said))])[0] == []


def test_how_another_unit_ended_is_not_told_of_the_server() -> None:
    peak = "other.service: Consumed 5s CPU time, 2G memory peak, 0B swap peak."
    ended = systemd("Started other.service.", "other.service: systemd-oomd killed 3 process(es) in this unit.", peak)
    usage = server_of(a_start("n_ctx_slot", 1024, 0, False), ended, runs("n_ctx_slot")).usage
    assert "killed_by" not in usage
    assert "memory_peak_gib" not in usage


# Two servers in one journal

TWO = ("max_total_num_tokens", "kv_cache_size_tokens")


def of_unit(name: str, *lines: str) -> Part:
    return [line.replace("llm.service", f"{name}.service") for line in systemd(*lines)]


def two(place: int, figure: str) -> list[Part]:
    """Of two units, the second of which starts when the first is up."""
    parts = []
    for name, tokens, port in (("one", 1024, 8000), ("two", 2048, 8001)):
        lines = start(tokens, port=port) if figure == TWO[0] else vllm_start(tokens, 1, port=port)
        part = [f"python3[{port}]: {line}" for line in lines]
        part[place:place] = of_unit(name, STARTED)
        parts += [of_unit(name, STARTING), part]
    return parts


def by_unit(figure: str, *parts: Part) -> dict[str, object]:
    found, unclaimed = read([journal(*parts)])
    assert not unclaimed
    return {str(server.says("unit")).partition(".")[0]: server.figure(figure).value for server in found}


@pytest.mark.parametrize("figure", TWO)
@pytest.mark.parametrize("place", [0, 99])
def test_of_two_units_the_one_that_starts_again_is_not_known(figure: str, place: int) -> None:
    parts = two(place, figure)
    assert by_unit(figure, *parts) == {"one": 1024, "two": 2048}
    assert by_unit(figure, *parts, of_unit("one", *STOP, STARTING)) == {"one": None, "two": 2048}
    assert by_unit(figure, *parts, of_unit("two", *CRASH, STARTED)) == {"one": 1024, "two": None}


# Any course

Life = tuple[int, bool, bool, tuple[str, ...]]
lives = st.lists(
    st.tuples(st.sampled_from([0, 1, 3, 99]), st.booleans(), st.booleans(), st.sampled_from(list(ENDS.values()))),
    min_size=1,
    max_size=5,
)


@servers
@example(lives=[(0, False, False, ENDS["rebooted"]), (3, False, False, STOP)], others=[ELSEWHERE[3]], prints=False)
@given(lives=lives, others=st.lists(st.sampled_from(ELSEWHERE), max_size=3), prints=st.booleans())
def test_every_start_keeps_its_own_figures(figure: str, lives: list[Life], others: list[str], prints: bool) -> None:
    parts: list[Part] = []
    for number, (place, starting, used, end) in enumerate(lives):
        parts += [a_start(figure, 1024 + number, place, starting), runs(figure) if used else []]
        parts += [systemd(*others), systemd(*end)]
    last = a_start(figure, 4096, 99, True) if prints else systemd(STARTED)
    now = 4096 if prints else None
    assert pools(figure, *parts, last) == [*range(1024, 1024 + len(lives)), now]
