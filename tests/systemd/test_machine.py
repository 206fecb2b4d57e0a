"""The machine itself: what the other tests rely on, and that nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.systemd.machine import PYTHON, ROOT, Machine

HOLDING = """
import sys, time
from pathlib import Path
from tests.systemd.machine import Machine
with Machine(Path(sys.argv[1])) as machine:
    print(machine.pid, flush=True)
    time.sleep(1000)
"""


def cgroups() -> set[str]:
    return {str(path) for path in Path("/sys/fs/cgroup").glob("**/machine-*")}


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.05)
    return not os.path.exists(f"/proc/{pid}")


def test_nothing_is_left_of_a_machine(machines: type[Machine], tmp_path: Path) -> None:
    with machines(tmp_path / "machine") as machine:
        own = {path for path in cgroups() if f"machine-{os.getpid()}-" in path}
        machine.unit("a.service", "[Service]\nExecStart=/bin/sleep 100000\nKillMode=none\n")
        machine.systemctl("start", "a")
        machine.write("/etc/written-inside", "x")
        assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
        pid = machine.pid
    left = {path for path in cgroups() if f"machine-{os.getpid()}-" in path}
    assert len(own - left) >= 1
    assert gone(pid)
    assert list((tmp_path / "machine").iterdir()) == []
    assert not Path("/etc/written-inside").exists()


def test_a_machine_ends_with_the_process_that_made_it_however_that_dies(
    machines: type[Machine], tmp_path: Path
) -> None:
    words = [sys.executable, "-c", HOLDING, str(tmp_path / "machine")]
    assert machines
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as maker:
        assert maker.stdout
        pid = int(maker.stdout.readline())
        assert Path(f"/proc/{pid}/comm").read_text() == "systemd\n"
        own = {path for path in cgroups() if f"machine-{maker.pid}-" in path}
        maker.send_signal(signal.SIGKILL)
    assert own
    assert gone(pid)
    until = time.monotonic() + 30
    while own & cgroups() and time.monotonic() < until:
        time.sleep(0.05)
    assert not own & cgroups()
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def test_two_machines_share_neither_units_nor_ports_nor_the_kernels_variables(
    machine: Machine, own_machine: Machine
) -> None:
    listen = "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 30999)); s.listen(); time.sleep(1000)"
    for one in (machine, own_machine):
        one.write("/srv/listen.py", listen)
        one.unit("listen.service", f"[Service]\nExecStart={PYTHON} /srv/listen.py\n")
        one.systemctl("start", "listen")
        one.until(PYTHON, "-c", "import socket; socket.create_connection(('127.0.0.1', 30999))")
        assert one.run("sh", "-c", "echo 1 > /proc/sys/kernel/sysrq", check=False).returncode
    ids = [
        one.run("cat", "/etc/machine-id", "/proc/sys/kernel/random/boot_id").stdout for one in (machine, own_machine)
    ]
    assert ids[0] != ids[1]


def test_this_python_runs_inside_as_root_and_as_a_user(machine: Machine) -> None:
    machine.run("useradd", "--create-home", "pythonist")
    for user in ("", "pythonist"):
        assert machine.python("import ullage; print(ullage.__file__)", user=user).strip().startswith(str(ROOT))


def test_files_and_the_journal_outlive_a_reboot_and_tmp_and_run_do_not(own_machine: Machine) -> None:
    for path in ("/srv/kept", "/tmp/lost", "/run/lost"):
        own_machine.write(path, "x")
    own_machine.run("logger", "before the reboot")
    before = own_machine.run("cat", "/proc/sys/kernel/random/boot_id").stdout
    own_machine.reboot()
    assert own_machine.run("ls", "/srv/kept", "/tmp/lost", "/run/lost", check=False).stdout == "/srv/kept\n"
    assert before != own_machine.run("cat", "/proc/sys/kernel/random/boot_id").stdout
    assert "before the reboot" in own_machine.run("journalctl", "--boot=-1").stdout
