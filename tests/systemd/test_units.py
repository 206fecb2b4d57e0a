"""Units as their managers have them loaded: of the system, of users, that fail, that nobody may ask about."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime, timezone

import pytest

from tests.systemd.inside import call
from tests.systemd.machine import PYTHON, Machine
from tests.systemd.servers import printing, start_lines
from ullage.evidence import Evidence, Failure, Unit
from ullage.masking import Masker
from ullage.observe.host import units
from ullage.observe.host.units import Clocks, Said, UnitName, clock_moved, read_units, unit_of, units_naming

HEX = "3f2a9c0b" * 8


def unit(machine: Machine, name: str, uid: int | None = None, user: str = "") -> Unit:
    found: dict[UnitName, Evidence] = call(machine, "units", [(name, uid)], user=user)
    content = found[UnitName(name, uid)].content
    assert isinstance(content, Unit), content
    return content


@pytest.mark.parametrize(
    ("cgroup", "found"),
    [
        ("/system.slice/sglang.service", UnitName("sglang.service")),
        ("/system.slice/system-sglang.slice/sglang@decode.service", UnitName("sglang@decode.service")),
        ("/llm.slice/llm-gpu.slice/vllm.service", UnitName("vllm.service")),
        ("/system.slice/ray.service/worker/3", UnitName("ray.service")),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", UnitName("x.service", 1000)),
        ("/user.slice/user-1000.slice/user@1000.service/x.service", UnitName("x.service", 1000)),
        (
            "/user.slice/user-7.slice/user@7.service/app.slice/app-llm.slice/llm@1.service/a",
            UnitName("llm@1.service", 7),
        ),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", None),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-kitty-12.scope", None),
        ("/user.slice/user-1000.slice/session-3.scope", None),
        (f"/system.slice/docker-{HEX}.scope", None),
        (f"/system.slice/docker-{HEX}.scope/system.slice/sglang.service", None),
        (f"/docker/{HEX}", None),
        (f"/system.slice/containerd.service/kubepods-pod1:cri-containerd:{HEX}", None),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{HEX}.scope/container", None),
        ("/machine.slice/systemd-nspawn@box.service/payload/system.slice/sglang.service", None),
        ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope", None),
        ("/init.scope", None),
        ("/../../other", None),
        ("/", None),
        ("", None),
        ("/system.slice", None),
        ("/system.slice/_cpu.service", UnitName("cpu.service")),
    ],
)
def test_which_unit_a_control_group_is_of(cgroup: str, found: UnitName | None) -> None:
    assert unit_of(cgroup) == found


def main_pid(machine: Machine, name: str, user: str = "") -> int:
    return int(machine.show(name, "MainPID", user=user))


def test_a_running_unit(machine: Machine) -> None:
    before = datetime.now(timezone.utc)
    printing(machine, "plain", start_lines(1000))
    machine.systemctl("start", "plain")
    found = unit(machine, "plain.service")
    assert (found.name, found.manager, found.state) == ("plain.service", "system", "active (running)")
    assert found.invocation == machine.show("plain.service", "InvocationID")
    assert (found.restarts, found.result, found.reload_pending) == (0, "success", False)
    assert found.since is not None
    assert -1 <= (found.since - before).total_seconds() <= 60
    assert found.clock_moved_s == 0.0
    (file,) = found.files
    assert file.path == "/etc/systemd/system/plain.service"
    assert file.changed_at is not None
    assert abs((file.changed_at - before).total_seconds()) <= 60
    assert call(machine, "unit_of", main_pid(machine, "plain.service")) == UnitName("plain.service")


def test_a_template_with_a_drop_in_and_environment_files(machine: Machine) -> None:
    machine.write("/etc/llm/a b.env", "TP=4\n")
    machine.unit("llm@.service", "[Service]\nExecStart=/bin/sleep 100000\nEnvironmentFile=/etc/llm/a b.env\n")
    machine.unit("llm@.service.d/10-more.conf", "[Service]\nEnvironmentFile=-/etc/llm/%i.env\n")
    machine.systemctl("start", "llm@decode")
    found = unit(machine, "llm@decode.service")
    assert [file.path for file in found.files] == [
        "/etc/systemd/system/llm@.service",
        "/etc/systemd/system/llm@.service.d/10-more.conf",
        "/etc/llm/a b.env",
        "/etc/llm/decode.env",
    ]
    assert [file.changed_at is not None for file in found.files] == [True, True, True, False]
    name = call(machine, "unit_of", main_pid(machine, "llm@decode.service"))
    assert name == UnitName("llm@decode.service")


def test_a_control_group_below_a_unit_that_delegates(machine: Machine) -> None:
    script = "mkdir /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup | tail -1)/worker; sleep 100000"
    machine.unit("delegating.service", f"[Service]\nDelegate=yes\nExecStart=/bin/sh -c '{script}'\n")
    machine.systemctl("start", "delegating")
    folder = f"/sys/fs/cgroup{machine.show('delegating.service', 'ControlGroup')}/worker"
    machine.until("test", "-d", folder)
    pid = main_pid(machine, "delegating.service")
    machine.write(f"{folder}/cgroup.procs", str(pid))
    assert machine.run("tail", "-1", f"/proc/{pid}/cgroup").stdout.strip().endswith("delegating.service/worker")
    assert call(machine, "unit_of", pid) == UnitName("delegating.service")


def test_a_unit_that_runs_on_without_its_file(machine: Machine) -> None:
    printing(machine, "orphan", start_lines(1000))
    machine.systemctl("start", "orphan")
    assert not unit(machine, "orphan.service").gone
    machine.run("rm", "/etc/systemd/system/orphan.service")
    assert unit(machine, "orphan.service").gone
    machine.systemctl("daemon-reload")
    found = unit(machine, "orphan.service")
    assert (found.gone, found.state) == (True, "active (running)")
    assert found.invocation == machine.show("orphan.service", "InvocationID")
    machine.systemctl("stop", "orphan")
    assert call(machine, "units", [("orphan.service", None)]) == {}


def test_files_that_changed_after_the_start_are_pending_until_they_are_read(machine: Machine) -> None:
    printing(machine, "changing", start_lines(1000))
    machine.systemctl("start", "changing")
    before = unit(machine, "changing.service")
    machine.write("/etc/systemd/system/changing.service", "[Service]\nExecStart=/bin/sleep 5\n")
    machine.run("touch", "--date=2100-01-02 03:04:05 UTC", "/etc/systemd/system/changing.service")
    edited = unit(machine, "changing.service")
    machine.systemctl("daemon-reload")
    reloaded = unit(machine, "changing.service")
    assert [before.reload_pending, edited.reload_pending, reloaded.reload_pending] == [False, True, False]
    assert edited.files[0].changed_at == datetime(2100, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    assert edited.invocation == reloaded.invocation == before.invocation


def test_output_that_is_not_in_the_journal_is_told(machine: Machine) -> None:
    printing(machine, "filed", start_lines(1000), StandardOutput="append:/var/log/filed.log")
    machine.systemctl("start", "filed")
    (item,) = call(machine, "units", [("filed.service", None)]).values()
    assert item.remark == "its output does not go to the journal (append)"


def test_several_units_are_one_question_and_one_that_is_not_there_has_no_answer(machine: Machine) -> None:
    for name in ("one", "two"):
        printing(machine, name, start_lines(1000))
        machine.systemctl("start", name)
    asked = [("one.service", None), ("nosuch.service", None), ("two.service", None)]
    found = call(machine, "units", asked)
    assert {name.name: item.content.name for name, item in found.items()} == {
        "one.service": "one.service",
        "two.service": "two.service",
    }


def test_no_secret_of_a_unit_is_in_what_is_returned(machine: Machine) -> None:
    secret = "q8Zt-unit-51cd"
    command = f"/bin/sh -c 'sleep 100000' sglang.launch_server --api-key {secret}"
    machine.unit("secret.service", f"[Service]\nEnvironment=HF_TOKEN={secret}\nExecStart={command}\n")
    machine.systemctl("start", "secret")
    found = [call(machine, "units", [("secret.service", None)]), call(machine, "files", "secret.service", None)]
    assert "secret.service" in repr(found)
    assert secret not in repr(found)
    assert secret in machine.systemctl("show", "secret.service")


def test_restarts_and_a_result(machine: Machine) -> None:
    printing(machine, "ends", start_lines(1000), "exit 3", Restart="on-failure")
    machine.write("/etc/systemd/system/ends.service.d/x.conf", "[Unit]\nStartLimitBurst=3\nStartLimitIntervalSec=100\n")
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "ends")
    machine.until("systemctl", "is-failed", "ends.service")
    found = unit(machine, "ends.service")
    assert (found.state, found.result, found.restarts) == ("failed (failed)", "exit-code", 3)


def test_a_server_that_ends_at_once_is_found_by_its_unit(machine: Machine) -> None:
    flags = "sglang.launch_server --model-path /m"
    machine.write("/srv/launch.sh", f"#!/bin/bash\nset -e\n{PYTHON} -m {flags} --mem-fraction-static 0.99\n", 0o755)
    restart = "Restart=always\nRestartSec=1000\n"
    machine.unit("dies.service", f"[Service]\nExecStart=/bin/false {flags}\n{restart}")
    machine.unit("dies-by-script.service", f"[Service]\nExecStart=/srv/launch.sh\n{restart}")
    machine.unit("other-dies.service", f"[Service]\nExecStart=/bin/false\n{restart}")
    machine.unit("starts.service", f"[Service]\nExecStartPre=/bin/sleep 100000\nExecStart=/bin/false {flags}\n")
    machine.unit("fine.service", f"[Service]\nExecStart=/bin/sh -c 'sleep 100000' {flags}\n")
    for name in ("dies", "dies-by-script", "other-dies", "fine"):
        machine.systemctl("start", name)
    machine.systemctl("start", "--no-block", "starts")
    for name in ("dies", "dies-by-script", "other-dies"):
        machine.until("sh", "-c", f"systemctl show --value -p SubState {name} | grep -q auto-restart")
    found = {name.name: item.content.state for name, item in call(machine, "naming", []).items()}
    assert {
        name: state for name, state in found.items() if "dies" in name or name in ("starts.service", "fine.service")
    } == {
        "dies.service": "activating (auto-restart)",
        "dies-by-script.service": "activating (auto-restart)",
        "starts.service": "activating (start-pre)",
    }


@pytest.fixture(scope="module")
def keeper(machine: Machine) -> int:
    """A user with a unit in his own manager, and another that fails there."""
    uid = machine.user("keeper")
    machine.unit("mine.service", "[Service]\nExecStart=/bin/sleep 100000\n", user="keeper")
    machine.unit("broken.service", "[Service]\nExecStart=/bin/false vllm serve m\n", user="keeper")
    machine.systemctl("start", "mine", user="keeper")
    machine.run("systemctl", "--user", "start", "broken", user="keeper", check=False)
    return uid


@pytest.mark.parametrize("user", ["", "keeper"])
def test_a_unit_of_a_user_manager(machine: Machine, keeper: int, user: str) -> None:
    found = unit(machine, "mine.service", keeper, user=user)
    assert (found.name, found.manager, found.state) == ("mine.service", "user keeper", "active (running)")
    assert found.invocation == machine.show("mine.service", "InvocationID", user="keeper")
    assert found.files[0].path == "/home/keeper/.config/systemd/user/mine.service"
    pid = main_pid(machine, "mine.service", user="keeper")
    assert call(machine, "unit_of", pid, user=user) == UnitName("mine.service", keeper)
    assert keeper in call(machine, "managers", user=user)
    assert UnitName("broken.service", keeper) in call(machine, "naming", [keeper], user=user)


def test_anybody_may_ask_about_units_of_the_system(machine: Machine) -> None:
    printing(machine, "public", start_lines(1000))
    machine.systemctl("start", "public")
    machine.run("useradd", "--create-home", "visitor")
    found = unit(machine, "public.service", user="visitor")
    assert found.state == "active (running)"
    assert found.invocation == machine.show("public.service", "InvocationID")


def test_another_users_manager_is_not_to_be_asked(machine: Machine, keeper: int) -> None:
    machine.run("useradd", "--create-home", "stranger")
    (item,) = call(machine, "units", [("mine.service", keeper)], user="stranger").values()
    assert isinstance(item.content, Failure)
    assert item.content.status == "no rights"
    assert "keeper" in item.content.reason
    assert item.content.advice.startswith("sudo /")
    assert keeper not in call(machine, "managers", user="stranger")


def test_a_user_without_a_manager(machine: Machine) -> None:
    machine.run("useradd", "--create-home", "loggedout")
    uid = machine.uid("loggedout")
    (item,) = call(machine, "units", [("mine.service", uid)], user="loggedout").values()
    assert isinstance(item.content, Failure)
    assert item.content.status == "unreachable"


# Without a machine

# As systemd 252 printed it (`TZ=UTC LC_ALL=C systemctl show`).
SHOWN = """Result=success
NRestarts=2
StandardOutput=journal
EnvironmentFiles=/etc/a (1).env (ignore_errors=yes)
EnvironmentFiles=/etc/b.env (ignore_errors=no)
Id=sglang.service
LoadState=loaded
ActiveState=active
SubState=running
FragmentPath=/etc/systemd/system/sglang.service
DropInPaths=/run/systemd/system/sglang.service.d/a.conf /etc/systemd/system/sglang.service.d/b.conf
StateChangeTimestamp=Mon 2026-11-30 09:54:37 UTC
StateChangeTimestampMonotonic=39885588237
ActiveEnterTimestamp=Mon 2026-11-30 09:54:37 UTC
ActiveEnterTimestampMonotonic=39885588237
NeedDaemonReload=yes
InvocationID=7c90c87b3e2b47eba6da1609b0ea758c
"""
STARTED, MONOTONIC = datetime(2026, 11, 30, 9, 54, 37, tzinfo=timezone.utc), 39885.588237


def answer(text: str, status: int = 0) -> units.Run:
    def run(words: Sequence[str], uid: int | None) -> Said:
        assert words[0] == ("show" if uid is None else "--user")
        return Said(status, text, "Failed to connect to bus: No medium found\n" if status else "")

    return run


def test_what_systemctl_prints() -> None:
    (item,) = read_units([UnitName("sglang.service")], Masker(), answer(SHOWN)).values()
    content = item.content
    assert isinstance(content, Unit)
    assert (content.state, content.restarts, content.since) == ("active (running)", 2, STARTED)
    assert content.reload_pending
    assert [file.path for file in content.files] == [
        "/etc/systemd/system/sglang.service",
        "/run/systemd/system/sglang.service.d/a.conf",
        "/etc/systemd/system/sglang.service.d/b.conf",
        "/etc/a (1).env",
        "/etc/b.env",
    ]


@pytest.mark.parametrize("set_by", [-86_400.0, -3.0, 0.0, 0.4, 3.0, 3600.0])
@pytest.mark.parametrize("ran_for", [0.0, 12.3, 5e6])
def test_a_clock_that_was_set_since(set_by: float, ran_for: float) -> None:
    now = Clocks(STARTED.timestamp() + ran_for + set_by, MONOTONIC + ran_for, MONOTONIC + ran_for)
    moved = clock_moved(STARTED, "39885588237", now)
    assert moved is not None
    assert abs(moved - set_by) <= 0.6
    assert moved == 0.0 or abs(set_by) >= 2.0


@pytest.mark.parametrize(
    ("passed", "moved"), [(0.0, 0.0), (3600.0, 0.0), (7200.0, 0.0), (8200.0, 1000.0), (-100.0, -100.0)]
)
def test_a_host_that_slept_is_no_clock_that_was_set(passed: float, moved: float) -> None:
    """It slept two hours since its boot, some of them perhaps since the start."""
    now = Clocks(STARTED.timestamp() + 60 + passed, MONOTONIC + 60, MONOTONIC + 60 + 7200)
    found = clock_moved(STARTED, "39885588237", now)
    assert found is not None
    assert abs(found - moved) <= 0.6


@pytest.mark.parametrize(("since", "stamp"), [(None, "39885588237"), (STARTED, ""), (STARTED, "0")])
def test_a_moment_that_systemd_did_not_stamp(since: datetime | None, stamp: str) -> None:
    assert clock_moved(since, stamp, Clocks(0, 0, 0)) is None


def test_no_systemd_runs() -> None:
    assert read_units([UnitName("a.service")], Masker(), answer("", 1)) == {}
    assert units_naming(re.compile("x"), Masker(), run=answer("", 1)) == {}


def test_no_systemctl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(os.path, "isdir", lambda _: True)
    assert read_units([UnitName("a.service")], Masker()) == {}


def test_a_manager_that_does_not_answer() -> None:
    def run(*_: object) -> Said:
        raise TimeoutError

    (item,) = read_units([UnitName("a.service")], Masker(), run).values()
    assert isinstance(item.content, Failure)
    assert item.content.status == "timeout"
