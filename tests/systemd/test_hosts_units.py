"""Units as they are found on hosts: how they wrap a server, and what became of their files since it started."""

from __future__ import annotations

import json
from itertools import count

import pytest

from tests.systemd.machine import Machine
from tests.systemd.servers import start_lines
from tests.systemd.test_bare_ullage import finding, report

_NAMES = count()
PROGRAM = "#!/usr/bin/python3\nimport time\nprint({!r}, flush=True)\ntime.sleep(1000)\n"

ENDS = """
import os, signal, sys
from ullage.cli import this_host

def while_it_is_read(*words, **named):
    os.kill(int(sys.argv[1]), signal.SIGKILL)
    while os.path.exists(f"/proc/{sys.argv[1]}"):
        pass
    return read_journal(*words, **named)

read_journal, this_host.read_journal = this_host.read_journal, while_it_is_read
from ullage.cli.limits import limits
sys.exit(limits(["--json"], standalone_mode=False))
"""


def program(machine: Machine, tokens: int = 100_000) -> str:
    """A program that is SGLang by its name, and prints what one prints at its start."""
    path = f"/srv/{next(_NAMES)}/sglang"
    machine.write(path, PROGRAM.format(start_lines(tokens)), 0o755)
    return path


def start(machine: Machine, unit: str, text: str) -> None:
    machine.unit(unit, f"[Service]\n{text}\n")
    machine.systemctl("start", unit)
    machine.until("sh", "-c", f"journalctl --unit={unit} --output=cat | grep fired")


def of_unit(machine: Machine, unit: str) -> list[dict[str, object]]:
    return [s for s in report(machine)["servers"] if s["figures"].get("unit", {}).get("value") == unit]


@pytest.fixture(scope="module")
def machine(quiet_machine: Machine) -> Machine:
    return quiet_machine


def test_a_command_behind_others_is_still_the_units(machine: Machine) -> None:
    path = program(machine)
    line = f"ulimit -n 1024; exec env CUDA_VISIBLE_DEVICES=3 nice -n 5 {path} serve --model-path /m --port 31000"
    text = f'ExecStart=/bin/bash -c "{line}"'
    start(machine, "wrapped.service", text)
    assert finding(report(machine), "unit-differs") is None
    machine.unit("wrapped.service", f'[Service]\n{text[:-1]} --context-length 4096"\n')
    pending = finding(report(machine), "restart-pending")
    machine.systemctl("stop", "wrapped.service")
    assert "context_length is 4,096 in /etc/systemd/system/wrapped.service" in pending["says"]


def test_the_settings_of_a_file_are_the_units_too(machine: Machine) -> None:
    machine.write("/srv/settings.yaml", "context-length: 8192\nport: 31001\n")
    start(
        machine, "settings.service", f"ExecStart={program(machine)} serve --model-path /m --config /srv/settings.yaml"
    )
    before = report(machine)
    machine.write("/srv/settings.yaml", "context-length: 4096\nport: 31001\n")
    after = report(machine)
    machine.systemctl("stop", "settings.service")
    assert finding(before, "unit-differs") is None
    assert finding(before, "restart-pending") is None
    changed = finding(after, "restart-pending")
    assert "/srv/settings.yaml" in changed["says"]
    assert "8,192" not in changed["says"]
    assert "not set" not in changed["says"]


def test_a_server_whose_unit_has_lost_its_file(machine: Machine) -> None:
    start(machine, "gone.service", f"ExecStart={program(machine, 123_456)} serve --model-path /m --port 31002")
    machine.run("rm", "/etc/systemd/system/gone.service")
    machine.systemctl("daemon-reload")
    pools = [s["figures"].get("max_total_num_tokens", {}).get("value") for s in report(machine)["servers"]]
    machine.systemctl("stop", "gone.service")
    assert 123_456 in pools


def test_a_server_that_outlived_a_restart_of_its_unit(machine: Machine) -> None:
    """Its figures are those of its own start, not those of the start that systemd counts as the current one."""
    path = program(machine, 222_222)
    lines = f"ExecStart={path} serve --model-path /m --port 31003\nKillMode=none"
    start(machine, "outlived.service", lines)
    machine.write(path, PROGRAM.format(start_lines(333_333)), 0o755)
    machine.systemctl("restart", "outlived.service")
    machine.until("sh", "-c", "journalctl --unit=outlived --output=cat | grep 333333")
    found = of_unit(machine, "outlived.service")
    machine.run("systemctl", "kill", "--signal=KILL", "outlived.service")
    machine.run("systemctl", "stop", "outlived.service")
    pools = {s["figures"]["pid"]["value"]: s["figures"]["max_total_num_tokens"]["value"] for s in found}  # type: ignore[index]
    assert list(dict(sorted(pools.items())).values()) == [222_222, 333_333]


def test_of_two_servers_in_a_unit_each_has_its_own_command_or_none(machine: Machine) -> None:
    path = program(machine)
    first, second = (f"{path} serve --model-path /m --port {port} &" for port in ("31004", "$((31004+1))"))
    script = f"#!/bin/bash\n{first}\n{second}\nwait\n"
    machine.write("/srv/two.sh", script, 0o755)
    start(machine, "two.service", "ExecStart=/srv/two.sh")
    machine.until("sh", "-c", "test $(journalctl --unit=two --output=cat | grep -c fired) = 2")
    data = report(machine)
    machine.systemctl("stop", "two.service")
    assert finding(data, "unit-differs") is None


def test_a_server_that_ends_while_it_is_read(machine: Machine) -> None:
    """It is no server any more, and its unit is told."""
    text = f"Restart=always\nRestartSec=100\nExecStart={program(machine)} serve --model-path /m --port 31006"
    start(machine, "short.service", text)
    pid = machine.show("short.service", "MainPID")
    data = json.loads(machine.python(ENDS, pid))
    machine.systemctl("stop", "short.service")
    assert int(pid) not in [s["figures"]["pid"]["value"] for s in data["servers"]]
    assert finding(data, "not-serving") is None
    assert finding(data, "does-not-stay-up")["where"] == "short.service"


def test_a_variable_of_the_manager_is_not_one_that_is_not_set(machine: Machine) -> None:
    machine.run("systemctl", "set-environment", "FRACTION=0.55")
    line = f"ExecStart={program(machine)} serve --model-path /m --port 31007 --mem-fraction-static $FRACTION"
    start(machine, "inherits.service", line)
    machine.run("systemctl", "unset-environment", "FRACTION")
    data = report(machine)
    machine.systemctl("stop", "inherits.service")
    assert finding(data, "unit-differs") is None


def test_a_variable_that_was_taken_out_of_a_file_is_told(machine: Machine) -> None:
    machine.write("/etc/taken.env", "FRACTION=0.55\n")
    line = f"ExecStart={program(machine)} serve --model-path /m --port 31008 --mem-fraction-static $FRACTION"
    start(machine, "taken.service", f"EnvironmentFile=/etc/taken.env\n{line}")
    machine.run("sleep", "0.1")
    machine.write("/etc/taken.env", "\n")
    pending = finding(report(machine), "restart-pending")
    machine.systemctl("stop", "taken.service")
    assert "mem_fraction_static is not set in its files, running since before the edit with 0.55" in pending["says"]
