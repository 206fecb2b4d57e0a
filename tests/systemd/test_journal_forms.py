"""Forms of a real journal that are no log of a server: they are refused, with the form that is one."""

from __future__ import annotations

import pytest

from tests.systemd.machine import PYTHON, Machine
from tests.systemd.servers import TANK, new_port

_WAIT_S = 1.1  # the times of a plain journal are whole seconds


@pytest.fixture(scope="module")
def twice(machine: Machine) -> Machine:
    """A worker that was started twice, with another fraction."""
    for number, fraction in enumerate(("0.7", "0.8"), 1):
        command = f"ExecStart={TANK} --port {new_port()} --mem-fraction-static {fraction}"
        machine.unit("forms.service", f"[Service]\n{command}\nExecStopPost=/bin/sleep {_WAIT_S}\n")
        machine.systemctl("start", "forms.service")
        machine.until("sh", "-c", f"test $(journalctl --unit=forms --output=cat | grep -c 'fired up') = {number}")
        machine.systemctl("stop", "forms.service")
    return machine


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("-o export", "all fields of a journal (journalctl -o export or verbose); capture it with -o short-iso"),
        ("-o verbose", "all fields of a journal (journalctl -o export or verbose); capture it with -o short-iso"),
        ("-r", "its newest line stands first (journalctl -r); capture it without -r, or turn it: tac"),
        ("-r -o short-iso", "its newest line stands first (journalctl -r)"),
        ("-r -o json", "its newest line stands first (journalctl -r)"),
    ],
)
def test_a_form_that_is_no_log_is_refused_with_what_to_do(twice: Machine, form: str, said: str) -> None:
    pipe = f"journalctl --unit=forms {form} | {PYTHON} -m ullage limits -"
    done = twice.run("sh", "-c", pipe, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert said in done.stderr


@pytest.mark.parametrize("form", ["", "-o short-iso", "-o json", "-r | tac"])
def test_the_others_tell_of_the_last_start(twice: Machine, form: str) -> None:
    done = twice.run("sh", "-c", f"journalctl --unit=forms {form} | {PYTHON} -m ullage limits - --json")
    assert '"mem_fraction_static"' in done.stdout
    assert '"value": 0.8,' in done.stdout
