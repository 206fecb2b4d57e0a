"""`journalctl -u X | ullage limits -`: which start is the current one, wherever systemd wrote that it started X."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.systemd.machine import PYTHON, Machine
from tests.systemd.servers import start_lines

FORMS = ("short", "short-iso", "short-precise", "short-full", "short-monotonic", "short-unix", "with-unit", "json")
READY = "systemd-notify --ready"
UP = "fired up and ready to roll"
# How a unit comes to be "started": at once, when it says so itself, when a command after its start has ended.
KINDS = {
    "simple": {"Type": "simple"},
    "notify": {"Type": "notify", "NotifyAccess": "all"},
    "post": {"ExecStartPost": "sh -c 'until test -e /run/%N.printed; do sleep 0.02; done'"},
}


def serving(machine: Machine, name: str, kind: str, tokens: int, ends: str = "", user: str = "", **more: str) -> None:
    """Makes a unit whose server prints the lines of a start, all of them in its own name. Not started. `ends`: what it
    does then.
    """
    machine.write(f"/srv/{name}.log", start_lines(tokens))
    done = READY if kind == "notify" else f"touch /run/{name}.printed"
    prints = f'while read -r line; do echo "$line"; done < /srv/{name}.log'
    machine.write(f"/srv/{name}.sh", f"#!/bin/sh\n{prints}\n{done}\n{ends}\nexec sleep 100000\n", 0o755)
    pre = {} if kind == "notify" else {"ExecStartPre": f"rm -f /run/{name}.printed"}
    settings = {**(pre if kind == "post" else {}), **KINDS[kind], "RestartSec": "0.1", **more}
    stated = "".join(f"{key}={value}\n" for key, value in settings.items())
    text = f"[Unit]\nDescription=LLM server\n[Service]\nExecStart=/srv/{name}.sh\n{stated}"
    machine.unit(f"{name}.service", text, user=user)


def silent(machine: Machine, name: str) -> None:
    """The unit that it was, which prints nothing from its next start on."""
    machine.write(f"/srv/{name}.log", "")


def has_printed(machine: Machine, words: str, times: int, what: str = UP, user: str = "") -> None:
    counted = f"journalctl --sync; test $(journalctl {words} -o cat | grep -c {shlex.quote(what)}) -ge {times}"
    machine.until("sh", "-c", counted, user=user)


def pools(machine: Machine, words: str, form: str = "short-iso", user: str = "") -> list[int | None]:
    """Of the earlier starts, and of the current one: None where nothing is known."""
    command = f"journalctl {words} -o {form} | {PYTHON} -m ullage limits - --json"
    document = json.loads(machine.run("sh", "-c", command, user=user).stdout)
    (server,) = document["servers"]
    starts = [*(start["figures"] for start in server["earlier_starts"]), server["figures"]]
    return [figures.get("max_total_num_tokens", {}).get("value") for figures in starts]


@pytest.mark.parametrize("kind", KINDS)
def test_each_start_of_a_unit_and_one_that_has_printed_nothing_yet(machine: Machine, kind: str) -> None:
    name, words = f"piped-{kind}", f"-u piped-{kind}"
    serving(machine, name, kind, 1111)
    machine.systemctl("start", name)
    has_printed(machine, words, 1)
    assert pools(machine, words) == [1111]
    serving(machine, name, kind, 2222)
    machine.systemctl("restart", name)
    has_printed(machine, words, 2)
    assert pools(machine, words) == [1111, 2222]
    silent(machine, name)
    machine.systemctl("restart", name)
    has_printed(machine, words, 3, f"Started {name}")
    assert pools(machine, words) == [1111, 2222, None]


@pytest.mark.parametrize("form", [*FORMS, "cat"])
@pytest.mark.parametrize("kind", ["simple", "notify"])
def test_in_every_form_of_the_journal(machine: Machine, form: str, kind: str) -> None:
    name = f"form-{kind}"
    if not machine.run("systemctl", "is-active", name, check=False).stdout.startswith("active"):
        for tokens in (1111, 2222):
            serving(machine, name, kind, tokens)
            machine.systemctl("restart", name)
        has_printed(machine, f"-u {name}", 2)
    assert pools(machine, f"-u {name}", form) == [1111, 2222]


@pytest.mark.parametrize("form", [*FORMS, "cat"])
def test_in_every_form_a_restart_is_seen_before_the_server_prints(machine: Machine, form: str) -> None:
    if not machine.run("systemctl", "is-active", "quiet", check=False).stdout.startswith("active"):
        serving(machine, "quiet", "notify", 1111)
        machine.systemctl("start", "quiet")
        has_printed(machine, "-u quiet", 1)
        silent(machine, "quiet")
        machine.systemctl("restart", "quiet")
        has_printed(machine, "-u quiet", 2, "Started quiet")
    assert pools(machine, "-u quiet", form) == [1111, None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_and_a_restart(machine: Machine, kind: str) -> None:
    name, words = f"crash-{kind}", f"-u crash-{kind}"
    once = f"test -e /run/{name}.crashed || {{ touch /run/{name}.crashed; sleep 0.5; exit 3; }}"
    serving(machine, name, kind, 1111, once, Restart="always")
    machine.systemctl("start", name)
    has_printed(machine, words, 2)
    has_printed(machine, words, 2, f"Started {name}")
    assert pools(machine, words) == [1111, 1111]
    silent(machine, name)
    machine.systemctl("kill", "--signal=KILL", name)
    has_printed(machine, words, 3, f"Started {name}")
    assert pools(machine, words) == [1111, 1111, None]


def test_a_unit_of_a_users_manager(machine: Machine) -> None:
    machine.user("piper")
    serving(machine, "own-piped", "notify", 1111, user="piper")
    machine.systemctl("start", "own-piped", user="piper")
    has_printed(machine, "--user -u own-piped", 1, user="piper")
    assert pools(machine, "--user -u own-piped", user="piper") == [1111]
    silent(machine, "own-piped")
    machine.systemctl("restart", "own-piped", user="piper")
    has_printed(machine, "--user -u own-piped", 2, "Started own-piped", user="piper")
    assert pools(machine, "--user -u own-piped", user="piper") == [1111, None]
    assert pools(machine, "--user -u own-piped", "with-unit", user="piper") == [1111, None]


@pytest.mark.parametrize("form", ["short-precise", "json"])
def test_other_units_in_the_same_journal(own_machine: Machine, form: str) -> None:
    words = "-t systemd -t among.sh"
    serving(own_machine, "among", "notify", 1111)
    own_machine.systemctl("start", "among")
    own_machine.unit("other.service", "[Service]\nExecStart=/bin/sleep 100000\n")
    for _ in range(3):
        own_machine.systemctl("restart", "other", "systemd-logind")
        own_machine.run("systemd-run", "--wait", "true")
    own_machine.run("journalctl", "--sync")
    assert pools(own_machine, words, form) == [1111]
    serving(own_machine, "among", "notify", 2222)
    own_machine.systemctl("restart", "among")
    own_machine.systemctl("restart", "other")
    has_printed(own_machine, words, 2)
    assert pools(own_machine, words, form) == [1111, 2222]
    silent(own_machine, "among")
    own_machine.systemctl("restart", "among")
    own_machine.systemctl("restart", "other")
    own_machine.run("journalctl", "--sync")
    assert pools(own_machine, words, form) == [1111, 2222, None]


@pytest.mark.parametrize("kind", ["simple", "notify"])
def test_after_a_power_cut(own_machine: Machine, kind: str) -> None:
    serving(own_machine, "cut", kind, 1111)
    own_machine.systemctl("start", "cut")
    has_printed(own_machine, "-u cut", 1)
    own_machine.cut_and_boot()
    assert pools(own_machine, "-u cut") == [1111]
    silent(own_machine, "cut")
    own_machine.systemctl("start", "cut")
    has_printed(own_machine, "-u cut", 2, "Started cut")
    for form in ("short-iso", "with-unit", "json", "cat"):
        assert pools(own_machine, "-u cut", form) == [1111, None]
