"""The journal of a unit: only the invocation that runs counts, and what is missing of it is told."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.systemd.inside import call
from tests.systemd.machine import Machine
from tests.systemd.servers import BATCH, new_port, printing, start_lines, start_tank
from ullage.engines.read import log_markers, read
from ullage.engines.server import Server
from ullage.evidence import Evidence, Failure, Log
from ullage.masking import Masker
from ullage.observe.host import journal
from ullage.observe.host.units import UnitName
from ullage.observe.log_choice import LogWords
from ullage.observe.log_file import LogScan


def log_of(
    machine: Machine,
    name: str,
    *,
    uid: int | None = None,
    pids: tuple[int, ...] = (),
    history: bool = False,
    user: str = "",
) -> Log:
    (item,) = items(machine, name, uid=uid, pids=pids, history=history, user=user)
    assert isinstance(item.content, Log), item.content
    return item.content


def items(
    machine: Machine,
    name: str,
    *,
    uid: int | None = None,
    pids: tuple[int, ...] = (),
    history: bool = False,
    user: str = "",
) -> list[Evidence]:
    machine.run("journalctl", "--sync")
    found: list[Evidence] = call(machine, "log", name, uid, pids, history, user=user)
    return found


def server_of(items: list[Evidence]) -> Server:
    (server,), unclaimed = read(items)
    assert not unclaimed
    return server


def texts(log: Log) -> str:
    return "\n".join(line.text for line in log.lines)


def test_after_an_edited_fraction_and_a_restart_old_figures_do_not_count(machine: Machine) -> None:
    port = new_port()
    start_tank(machine, "edited.service", port, "--mem-fraction-static 0.8")
    before = server_of(items(machine, "edited.service"))
    start_tank(machine, "edited.service", port, "--mem-fraction-static 0.7")
    (item,) = items(machine, "edited.service")
    now = server_of([item])
    assert before.figure("mem_fraction_static").value == 0.8
    assert now.figure("mem_fraction_static").value == 0.7
    assert now.figure("max_total_num_tokens").number < before.figure("max_total_num_tokens").number
    assert now.earlier == ()
    source = now.figure("mem_fraction_static").source
    assert source
    written = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00"
    assert re.fullmatch(rf"{written}, read as line \d+ mem_fraction_static", source.place)
    assert item.place == f"journal of edited.service, invocation {machine.show('edited.service', 'InvocationID')[:8]}"
    assert isinstance(item.content, Log)
    assert item.content.gaps == ()


def test_the_history_of_starts_on_request(machine: Machine) -> None:
    port = new_port()
    fractions = (0.5, 0.6, 0.7)
    for fraction in fractions:
        start_tank(machine, "history.service", port, f"--mem-fraction-static {fraction}")
    server = server_of(items(machine, "history.service", history=True))
    assert [start.figures["mem_fraction_static"].value for start in server.earlier] == [0.5, 0.6]
    assert server.figure("mem_fraction_static").value == 0.7
    pools = [*(s.figures["max_total_num_tokens"].number for s in server.earlier)]
    assert pools == sorted(pools)
    assert pools[-1] < server.figure("max_total_num_tokens").number


def test_a_line_that_journalctl_would_print_as_null(machine: Machine) -> None:
    printing(machine, "longline", start_lines(2_454_784, fraction=0.83, padding=400))
    machine.systemctl("start", "longline")
    log = log_of(machine, "longline.service")
    assert max(len(line.text) for line in log.lines) > 8000
    assert server_of(items(machine, "longline.service")).figure("mem_fraction_static").value == 0.83


def test_of_very_many_lines_the_first_and_the_last_and_what_is_between_is_told(machine: Machine) -> None:
    many = "".join(f"{BATCH.replace('999', str(number))}\n" for number in range(20_000))
    printing(machine, "many", start_lines(1_000_000) + many, LogRateLimitIntervalSec="0")
    machine.systemctl("start", "many")
    machine.until("sh", "-c", "journalctl --sync; journalctl -u many.service | grep -q 'token: 19999'")
    log = log_of(machine, "many.service")
    counts = [int(found[1]) for line in log.lines if (found := re.search(r"#token: (\d+),", line.text))]
    assert "max_total_num_tokens=1000000" in texts(log)
    last = journal.TAIL_LINES - 10  # systemd's own lines may stand among them
    assert counts[-last:] == list(range(20_000 - last, 20_000))
    assert counts == sorted(set(counts))
    assert counts[0] < journal.HEAD_LINES
    assert len(counts) < journal.HEAD_LINES + journal.TAIL_LINES
    assert any(re.fullmatch(r"lines from .* UTC to .* UTC were not read", gap) for gap in log.gaps)


def test_where_begin_and_end_meet_nothing_is_there_twice_and_no_gap_is_told(machine: Machine) -> None:
    count = journal.HEAD_LINES + journal.TAIL_LINES // 2
    lines = "".join(f"{BATCH.replace('999', str(number))}\n" for number in range(count))
    printing(machine, "meeting", lines, LogRateLimitIntervalSec="0")
    machine.systemctl("start", "meeting")
    machine.until("sh", "-c", f"journalctl --sync; journalctl -u meeting.service | grep -q 'token: {count - 1}'")
    log = log_of(machine, "meeting.service")
    counts = [int(found[1]) for line in log.lines if (found := re.search(r"#token: (\d+),", line.text))]
    assert counts == list(range(counts[0], count))
    assert not [gap for gap in log.gaps if "not read" in gap]


def test_secrets_are_masked(machine: Machine) -> None:
    secret = "x7Fq-journal-29ab"
    printing(machine, "secretive", start_lines(1000, secret=secret) + f"{BATCH} Authorization: Bearer {secret}\n")
    machine.systemctl("start", "secretive")
    found = items(machine, "secretive.service", history=True)
    assert "api_key='***'" in repr(found)
    assert secret not in repr(found)


def test_two_servers_in_one_unit_are_told_apart_by_process(machine: Machine) -> None:
    # A shell prints with its own pid, as a server does; `cat` would have another.
    run = """#!/bin/sh
        while read -r line; do echo "$line"; done < /srv/pair/$1.log
        echo $$ > /run/pair.$1
        exec sleep 100000
    """
    both = """#!/bin/sh
        echo 'max_total_num_tokens=7, a line of the script'
        /srv/pair/run.sh prefill & /srv/pair/run.sh decode & wait
    """
    machine.write("/srv/pair/prefill.log", start_lines(111_000))
    machine.write("/srv/pair/decode.log", start_lines(222_000))
    machine.write("/srv/pair/run.sh", run, 0o755)
    machine.write("/srv/pair/both.sh", both, 0o755)
    machine.unit("pair.service", "[Service]\nExecStart=/srv/pair/both.sh\n")
    machine.systemctl("start", "pair")
    machine.until("sh", "-c", "test -s /run/pair.prefill && test -s /run/pair.decode")
    for name, tokens in (("prefill", 111_000), ("decode", 222_000)):
        pid = int(machine.run("cat", f"/run/pair.{name}").stdout)
        log = log_of(machine, "pair.service", pids=(pid,), history=True)
        assert f"max_total_num_tokens={tokens}" in texts(log)
        assert not re.search(rf"max_total_num_tokens=(?!{tokens})", texts(log))
        assert any("holds other programs too" in gap for gap in log.gaps)
        assert any("earlier starts were not read" in gap for gap in log.gaps)


def test_nobody_can_forge_a_line_of_the_unit(machine: Machine) -> None:
    printing(machine, "forged", start_lines(1000))
    machine.systemctl("start", "forged")
    machine.run("useradd", "--create-home", "mallory")
    invocation = machine.show("forged.service", "InvocationID")
    fields = ["UNIT=forged.service", "SYSLOG_IDENTIFIER=systemd", "MESSAGE=max_total_num_tokens=9999999", "_PID=1"]
    fields += [f"INVOCATION_ID={invocation}", f"_SYSTEMD_INVOCATION_ID={invocation}"]
    machine.run("logger", "--journald", user="mallory", input="\n".join(fields))
    machine.run("journalctl", "--sync")
    assert "9999999" in machine.run("journalctl", f"INVOCATION_ID={invocation}").stdout
    assert "9999999" not in repr(items(machine, "forged.service", history=True))


def test_what_journald_dropped_is_told(machine: Machine) -> None:
    limit = {"LogRateLimitIntervalSec": "2s", "LogRateLimitBurst": "100"}
    printing(machine, "flood", start_lines(1000), f"seq 5000; sleep 3; echo '{BATCH}'; sleep 100000", **limit)
    machine.systemctl("start", "flood")
    machine.until("sh", "-c", "journalctl --sync; journalctl -u flood.service | grep -q 'Decode batch'")
    log = log_of(machine, "flood.service")
    (gap,) = [gap for gap in log.gaps if "dropped" in gap]
    dropped = int(re.sub(r"\D", "", gap.partition(" lines")[0]))
    kept = machine.run("journalctl", "--output=cat", "_SYSTEMD_UNIT=flood.service").stdout.splitlines()
    assert dropped + len(kept) == 5000 + len(start_lines(1000).splitlines()) + 1


def test_an_ordinary_user_is_told_what_would_let_him_read_it(machine: Machine) -> None:
    printing(machine, "guarded", start_lines(1000))
    machine.systemctl("start", "guarded")
    machine.run("useradd", "--create-home", "outsider")
    (item,) = items(machine, "guarded.service", user="outsider")
    assert isinstance(item.content, Failure)
    assert item.content.status == "no rights"
    assert item.content.advice.startswith("sudo ")
    assert "usermod -aG systemd-journal outsider" in item.content.advice
    machine.run("logger", "a journal of his own", user="outsider")
    (item,) = items(machine, "guarded.service", user="outsider")
    assert isinstance(item.content, Failure)
    machine.run("usermod", "-aG", "systemd-journal", "outsider")
    assert "max_total_num_tokens=1000" in texts(log_of(machine, "guarded.service", user="outsider"))


def test_a_unit_of_the_system_that_runs_as_a_user_shows_him_his_own_lines(machine: Machine) -> None:
    machine.run("useradd", "--create-home", "--uid=4321", "runner")
    printing(machine, "asuser", start_lines(1000), User="runner")
    machine.systemctl("start", "asuser")
    log = log_of(machine, "asuser.service", user="runner")
    assert "max_total_num_tokens=1000" in texts(log)
    assert log.gaps == ("what systemd wrote of the unit is not readable for runner",)


@pytest.fixture(scope="module")
def owner(machine: Machine) -> int:
    return machine.user("owner")


def test_a_unit_of_a_user_manager(machine: Machine, owner: int) -> None:
    port = new_port()
    start_tank(machine, "own.service", port, "--mem-fraction-static 0.8", user="owner")
    start_tank(machine, "own.service", port, "--mem-fraction-static 0.7", user="owner")
    for user in ("", "owner"):
        server = server_of(items(machine, "own.service", uid=owner, history=True, user=user))
        assert server.figure("mem_fraction_static").value == 0.7
        assert [start.figures["mem_fraction_static"].value for start in server.earlier] == [0.8]
        log = log_of(machine, "own.service", uid=owner, user=user)
        assert "mem_fraction_static=0.8" not in texts(log)
        assert "Started own.service" in texts(log)
        assert log.gaps == ()


def test_a_crash_loop_shows_its_last_try_and_a_bounded_number_before(machine: Machine) -> None:
    refusal = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    tries = journal.EARLIER + 5
    counting = (
        'n=$(cat /run/tries 2>/dev/null || echo 0); n=$((n + 1)); echo $n > /run/tries; echo "try $n server_args="\n'
    )
    loop = f"{counting}[ $n -lt {tries} ] && sleep 0.2 && exit 1; sleep 100000"  # journald is slow to see whose it is
    printing(machine, "looping", start_lines(1000).splitlines()[0] + "\n" + refusal, loop, Restart="always")
    machine.write("/etc/systemd/system/looping.service.d/limit.conf", "[Unit]\nStartLimitIntervalSec=0\n")
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "looping")
    machine.until("sh", "-c", f"test $(cat /run/tries) -ge {tries}; ")
    machine.until("sh", "-c", f"journalctl --sync; journalctl -u looping.service | grep -q 'try {tries} '")
    now, before = log_of(machine, "looping.service"), log_of(machine, "looping.service", history=True)
    assert re.findall(r"try (\d+)", texts(now)) == [str(tries)]
    assert re.findall(r"try (\d+)", texts(before)) == [str(n) for n in range(tries - journal.EARLIER, tries + 1)]


def test_start_up_lines_that_were_vacuumed(own_machine: Machine) -> None:
    after = f"until test -e /run/go; do sleep 0.1; done; echo '{BATCH}'; sleep 100000"
    printing(own_machine, "old", start_lines(1000), after)
    own_machine.systemctl("start", "old")
    assert log_of(own_machine, "old.service").gaps == ()
    own_machine.run("sh", "-c", "journalctl --sync; journalctl --rotate; sleep 1.1; journalctl --vacuum-time=1s")
    (empty,) = items(own_machine, "old.service")
    assert isinstance(empty.content, Log)
    assert empty.content.lines == ()
    assert empty.content.gaps[0].startswith("no line of this start is left: the journal goes back to 2")
    own_machine.run("touch", "/run/go")
    own_machine.until("sh", "-c", "journalctl --sync; journalctl -u old.service | grep -q 'Decode batch'")
    log = log_of(own_machine, "old.service", history=True)
    assert [line.text for line in log.lines] == [BATCH]
    assert re.match(r"lines of this start before .* UTC are gone: the journal goes back to .* UTC only$", log.gaps[0])
    assert "no earlier start is in the journal" in log.gaps


def test_a_journal_in_memory_forgets_earlier_starts_at_a_reboot(own_machine: Machine) -> None:
    own_machine.run("rm", "-rf", "/var/log/journal")
    own_machine.reboot()
    printing(own_machine, "memory", start_lines(1000))
    own_machine.systemctl("start", "memory")
    assert log_of(own_machine, "memory.service").gaps == ()
    own_machine.reboot()
    own_machine.systemctl("start", "memory")
    log = log_of(own_machine, "memory.service", history=True)
    assert texts(log).count("server_args=") == 1
    assert log.gaps == ("no earlier start is in the journal: it is kept in memory (there is no /var/log/journal)",)
    own_machine.run("sh", "-c", "journalctl --sync; journalctl --rotate; sleep 1.1; journalctl --vacuum-time=1s")
    assert log_of(own_machine, "memory.service").gaps[0].endswith("(there is no /var/log/journal)")


@pytest.mark.parametrize("end", ["reboot", "power cut"])
def test_after_a_reboot_the_start_before_it_is_history(own_machine: Machine, end: str) -> None:
    printing(own_machine, "kept", start_lines(1111))
    own_machine.systemctl("start", "kept")
    log_of(own_machine, "kept.service")
    own_machine.reboot() if end == "reboot" else own_machine.cut_and_boot()
    printing(own_machine, "kept", start_lines(2222))
    own_machine.systemctl("start", "kept")
    now, before = log_of(own_machine, "kept.service"), items(own_machine, "kept.service", history=True)
    assert "max_total_num_tokens=1111" not in texts(now)
    assert now.gaps == ()
    server = server_of(before)
    assert server.figure("max_total_num_tokens").value == 2222
    assert [start.figures["max_total_num_tokens"].value for start in server.earlier] == [1111]


def test_a_server_that_runs_and_never_serves(machine: Machine) -> None:
    printing(machine, "hanging", "".join(start_lines(1000).splitlines(keepends=True)[:2]))
    machine.systemctl("start", "hanging")
    log = log_of(machine, "hanging.service")
    assert "Load weight begin" in texts(log)
    assert "ready to roll" not in texts(log)
    assert machine.show("hanging.service", "SubState") == "running"


# Without a machine


def own_reading(monkeypatch: pytest.MonkeyPatch, path: Path, script: str = "") -> list[Evidence]:
    """With a journalctl that is this script, or none."""
    if script:
        program = path / "journalctl"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin" if script else str(path))
    scan = LogScan(tuple(LogWords(*markers) for markers in log_markers()))
    return journal.read_journal(UnitName("a.service"), "0" * 32, (), scan, Masker(), history=False)


def test_no_journalctl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (item,) = own_reading(monkeypatch, tmp_path)
    assert isinstance(item.content, Failure)
    assert item.content.status == "missing"


def test_no_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (item,) = own_reading(monkeypatch, tmp_path, "echo 'No journal files were found.' >&2; exit 1")
    assert isinstance(item.content, Failure)
    assert item.content.status == "empty"


def test_a_journalctl_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(journal, "TIMEOUT_S", 0.5)
    line = '{"MESSAGE":"max_total_num_tokens=1, a","_PID":"7","__REALTIME_TIMESTAMP":"1","__CURSOR":"c"}'
    script = f"echo $$ >> {tmp_path}/pids; echo '{line}'; exec sleep 1000"
    (item,) = own_reading(monkeypatch, tmp_path, script)
    assert isinstance(item.content, Log)
    assert [line.text for line in item.content.lines] == ["max_total_num_tokens=1, a"]
    assert "the journal gave no more within 0.5 s" in item.content.gaps
    for pid in (tmp_path / "pids").read_text().split():
        assert not os.path.exists(f"/proc/{pid}")


def test_what_journalctl_complains_of_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = '{"MESSAGE":"Started a.","MESSAGE_ID":"39f53479d3a045ac8e11786248231fbf","SYSLOG_IDENTIFIER":"systemd"}'
    broken = "Journal file /var/log/journal/x/system.journal is truncated, ignoring file."
    (item,) = own_reading(monkeypatch, tmp_path, f"echo '{started}'; echo '{broken}' >&2")
    assert isinstance(item.content, Log)
    assert item.content.gaps == (f"journalctl: {broken}",)
