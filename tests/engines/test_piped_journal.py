"""A unit's journal as it is piped in: systemd's "Started" stands before, after or among the lines of its start.

What systemd says was recorded (252; with StatusUnitFormat=description where it says the description alone), and is by
247 and 219 where an older one says it in other words.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence import decode_batch, log, start, vllm_start, vllm_stats
from ullage.engines.read import read
from ullage.engines.server import Server

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


def printed(figure: str, tokens: int) -> list[str]:
    make, _ = SERVERS[figure]
    return [f"2026-11-30T12:55:21+0000 machine python3[376]: {line}" for line in make(tokens)]


def runs(figure: str) -> str:
    return f"2026-11-30T12:56:21+0000 machine python3[376]: {SERVERS[figure][1]}"


def systemd(*lines: str, pid: int = 1) -> list[str]:
    tag = f"2026-11-30T12:55:20+0000 machine systemd[{pid}]: "
    return [line if line.startswith("-- ") else tag + line for line in lines]


def server_of(*lines: str) -> Server:
    (server,), unclaimed = read([log("standard input", *lines)])
    assert not unclaimed
    return server


def pools(figure: str, *lines: str) -> list[object]:
    """Of the earlier starts, and of the current one: None where nothing is known."""
    server = server_of(*lines)
    earlier = [found.figures[figure].value for found in server.earlier]
    return [*earlier, server.figure(figure).value]


def a_start(figure: str, tokens: int, place: int | None, starting: bool) -> list[str]:
    """With "Started" before the line of that place; None: not at all."""
    lines = printed(figure, tokens)
    if place is not None:
        lines[place:place] = systemd(STARTED)
    return [*(systemd(STARTING) if starting else ()), *lines]


@servers
@pytest.mark.parametrize("starting", [True, False])
@pytest.mark.parametrize("place", [0, 1, 2, 4, 99])
def test_started_belongs_to_the_start_around_it(figure: str, place: int, starting: bool) -> None:
    server = server_of(*a_start(figure, 1024, place, starting), runs(figure))
    assert (server.figure(figure).value, server.earlier) == (1024, ())
    assert server.name.startswith("llm.service" if server.engine != "llama.cpp" else "python3")


@servers
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", [0, 1, 99])
def test_what_was_before_the_last_end_is_an_earlier_start(figure: str, end: str, place: int) -> None:
    first, second = (a_start(figure, tokens, place, place == 99) for tokens in (1024, 2048))
    assert pools(figure, *first, runs(figure), *systemd(*ENDS[end]), *second) == [1024, 2048]


@servers
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("started", [STARTING, STARTED])
@pytest.mark.parametrize("place", [0, 99, None])
def test_of_a_start_that_has_printed_nothing_nothing_is_known(
    figure: str, end: str, started: str, place: int | None
) -> None:
    before = [*a_start(figure, 1024, place, started == STARTING), runs(figure)]
    assert pools(figure, *before, *systemd(*ENDS[end], started)) == [1024, None]


@servers
def test_a_second_started_is_a_second_start_though_nothing_says_that_the_first_ended(figure: str) -> None:
    assert pools(figure, *a_start(figure, 1024, 0, False), *systemd(STARTED)) == [1024, None]
    assert pools(figure, *a_start(figure, 1024, 99, False), *systemd(STARTED)) == [1024, None]


@servers
def test_a_restart_that_is_scheduled_is_a_start(figure: str) -> None:
    lines = [*a_start(figure, 1024, 0, False), *systemd(*CRASH[:3])]
    assert pools(figure, *lines) == [1024, None]
    server = server_of(*lines)
    assert (server.says("restart_counter") or server.use("restart_counter").value) == 1


@servers
def test_what_a_dying_server_prints_does_not_undo_its_end(figure: str) -> None:
    before = [*a_start(figure, 1024, 99, True), *systemd(STOP[0]), runs(figure)]
    assert pools(figure, *before, *systemd(*STOP[1:], STARTED)) == [1024, None]


@servers
def test_a_reload_is_no_start(figure: str) -> None:
    lines = [*a_start(figure, 1024, 99, True), *systemd(f"Reloading {UNIT}...", f"Reloaded {UNIT}.")]
    assert pools(figure, *lines) == [1024]


@servers
def test_the_units_of_a_user(figure: str) -> None:
    lines = [*printed(figure, 1024), *systemd(STARTED, pid=1496)]
    assert pools(figure, *lines) == [1024]
    assert pools(figure, *lines, *systemd(STOP[0], STOP[2], STARTING, pid=1496)) == [1024, None]


@servers
def test_a_unit_by_its_description_alone(figure: str) -> None:
    starting, started, *stop = (line.replace("llm.service - ", "") for line in (STARTING, STARTED, *STOP))
    lines = [*systemd(starting), *printed(figure, 1024), *systemd(started)]
    assert pools(figure, *lines) == [1024]
    assert pools(figure, *lines, *systemd(*stop, starting)) == [1024, None]
    assert pools(figure, *lines, *systemd(*CRASH[:2], starting)) == [1024, None]
    assert pools(figure, *printed(figure, 1024), *systemd(*CRASH[:2], started)) == [1024, None]


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
CRON = "cron.service - Regular background program processing daemon"


@servers
@pytest.mark.parametrize("place", [0, 99])
def test_other_units_begin_no_start(figure: str, place: int) -> None:
    others = systemd(*ELSEWHERE)
    lines = [*others, *a_start(figure, 1024, place, place == 99), *others, runs(figure), *others]
    server = server_of(*lines)
    assert (server.figure(figure).value, server.earlier) == (1024, ())
    assert server.name.startswith("llm.service" if server.engine != "llama.cpp" else "python3")
    assert pools(figure, *lines, *systemd(*STOP), *others, *systemd(STARTED), *others) == [1024, None]


@servers
def test_a_unit_that_started_again_while_the_server_went_on_is_not_its_own(figure: str) -> None:
    again = systemd(f"Stopping {CRON}...", "cron.service: Deactivated successfully.", f"Started {CRON}.")
    lines = [*systemd(f"Started {CRON}."), *a_start(figure, 1024, 0, False), *again, runs(figure)]
    assert pools(figure, *lines, *again) == [1024]
    assert pools(figure, *lines, *again, *systemd(*STOP, STARTED)) == [1024, None]


@servers
def test_of_several_units_the_one_that_is_called_like_an_engine_is_the_servers(figure: str) -> None:
    starting, started, *stop = (line.replace("llm", "vllm") for line in (STARTING, STARTED, *STOP))
    again = systemd(f"Stopping {CRON}...", f"Stopped {CRON}.", f"Started {CRON}.")
    lines = [*systemd(f"Started {CRON}.", starting), *printed(figure, 1024), *systemd(started), *again]
    assert pools(figure, *lines) == [1024]
    assert pools(figure, *lines, *systemd(*stop, starting)) == [1024, None]
    for end in (stop, [line.replace("llm", "vllm") for line in CRASH]):
        for begin in (starting, started):
            begun = server_of(runs(figure), *again, *systemd(end[0], begin), *again)
            assert (len(begun.earlier), begun.says("num_requests_running")) == (1, None)


def test_the_journal_of_another_program_is_nobodys() -> None:
    for lines in ((*ELSEWHERE, STARTED, *CRASH), (STARTED, *CRASH), (f"Started {CRON}.",), (*STOP, STARTED)):
        assert read([log("standard input", *systemd(*lines))])[0] == []


@servers
@pytest.mark.parametrize("place", [0, 2, 99])
def test_what_runs_no_server_is_no_unit_beside_it(figure: str, place: int) -> None:
    others = systemd(*(line for line in ELSEWHERE if "ession" in line or ".timer" in line))
    lines = [*others, *a_start(figure, 1024, place, False), *others]
    assert pools(figure, *lines) == [1024]
    assert pools(figure, *lines, *systemd(*STOP, STARTED), *others) == [1024, None]


@servers
def test_a_unit_in_whose_lives_fewer_starts_begin_is_not_the_servers(figure: str) -> None:
    again = systemd(f"Stopping {CRON}...", f"Stopped {CRON}.", f"Started {CRON}.")
    twice = [*a_start(figure, 1024, 0, False), *systemd(*STOP), *a_start(figure, 2048, 0, False)]
    lines = [*systemd(f"Started {CRON}."), *twice, *again]
    assert pools(figure, *lines) == [1024, 2048]
    assert pools(figure, *lines, *systemd(*STOP, STARTED), *again) == [1024, 2048, None]


def test_how_another_unit_ended_is_not_told_of_the_server() -> None:
    other = (
        "other.service: systemd-oomd killed 3 process(es) in this unit.",
        "other.service: Consumed 5s CPU time, 2G",
    )
    ended = systemd("Started other.service.", other[0], f"{other[1]} memory peak, 0B swap peak.")
    usage = server_of(*a_start("n_ctx_slot", 1024, 0, False), *ended, runs("n_ctx_slot")).usage
    assert "killed_by" not in usage
    assert "memory_peak_gib" not in usage


# Two servers in one journal


def of_unit(name: str, *lines: str) -> list[str]:
    return [line.replace("llm.service", f"{name}.service") for line in systemd(*lines)]


def two(place: int, figure: str) -> list[str]:
    """Of two units, the second of which starts when the first is up."""
    lines = []
    for name, tokens, port in (("one", 1024, 8000), ("two", 2048, 8001)):
        make = (
            start(tokens, port=30000 + port) if figure == "max_total_num_tokens" else vllm_start(tokens, 1, port=port)
        )
        own = of_unit(name, STARTED)
        printed = [f"2026-11-30T12:55:21+0000 machine python3[{port}]: {line}" for line in make]
        lines += [*of_unit(name, STARTING), *own, *printed] if not place else [*of_unit(name, STARTING), *printed, *own]
    return lines


def by_unit(figure: str, *lines: str) -> dict[str, object]:
    found, unclaimed = read([log("standard input", *lines)])
    assert not unclaimed
    return {str(server.says("unit")).partition(".")[0]: server.figure(figure).value for server in found}


@pytest.mark.parametrize("figure", ["max_total_num_tokens", "kv_cache_size_tokens"])
@pytest.mark.parametrize("place", [0, 99])
def test_of_two_units_the_one_that_starts_again_is_not_known(figure: str, place: int) -> None:
    lines = two(place, figure)
    assert by_unit(figure, *lines) == {"one": 1024, "two": 2048}
    assert by_unit(figure, *lines, *of_unit("one", *STOP, STARTING)) == {"one": None, "two": 2048}
    assert by_unit(figure, *lines, *of_unit("two", *CRASH, STARTED)) == {"one": 1024, "two": None}


# Any course

lives = st.lists(
    st.tuples(st.sampled_from([0, 1, 3, 99]), st.booleans(), st.booleans(), st.sampled_from(list(ENDS.values()))),
    min_size=1,
    max_size=5,
)


@servers
@given(lives=lives, others=st.lists(st.sampled_from(ELSEWHERE), max_size=3), prints=st.booleans())
def test_every_start_keeps_its_own_figures(
    figure: str, lives: list[tuple[int, bool, bool, tuple[str, ...]]], others: list[str], prints: bool
) -> None:
    lines: list[str] = []
    for number, (place, starting, used, end) in enumerate(lives):
        starting = starting or (bool(others) and place > 0)  # or nothing tells which unit is the server's
        lines += [*a_start(figure, 1024 + number, place, starting), *([runs(figure)] if used else ())]
        lines += [*systemd(*others), *systemd(*end)]
    last = a_start(figure, 4096, 99, True) if prints else systemd(STARTED)
    now = 4096 if prints else None
    assert pools(figure, *lines, *last) == [*range(1024, 1024 + len(lives)), now]
