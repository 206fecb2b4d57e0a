"""Bare `ullage` on a machine with a real systemd, as its operators run it: no target, and the answer is there."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ullage as ullage_package
from tests.systemd.machine import PYTHON, Machine
from tests.systemd.servers import TANK, printing, restart_tank, start_lines, start_tank

SCHEMA = json.loads(Path(ullage_package.__file__).with_name("report").joinpath("limits.schema.json").read_text())
SECRET, TOKEN = "sesame-opens-42", "hf_abcdefgh12345678"
PREFILL, DECODE, ROUTER = "sglang-prefill.service", "sglang-decode.service", "sglang-router.service"
DECODE_UNIT = f"""
[Service]
Environment=CUDA_VISIBLE_DEVICES=4,5 HF_TOKEN={TOKEN}
EnvironmentFile=/etc/decode.env
ExecStart={TANK} --port 30001 --disaggregation-mode decode --disaggregation-bootstrap-port 8999 --api-key {SECRET} \\
    --mem-fraction-static ${{FRACTION}}
"""
ROUTER_UNIT = f"""
[Service]
ExecStart={PYTHON} -m sglang_router.launch_router --port 8000 --pd-disaggregation --policy random \\
    --prefill http://localhost:30000 8998 --decode http://127.0.0.1:30001 --decode http://10.9.8.7:30001 \\
    --prometheus-port 29000 --max-concurrent-requests 48 --api-key {SECRET} --disable-health-check
"""
# A server by its command line; what it does is in the unit.
FAKE = "#!/usr/bin/python3\nimport sys, time\n{}\n"


def ullage(machine: Machine, *words: str, user: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    stated = [f"{name}={value}" for name, value in variables.items()]
    return machine.run("env", *stated, PYTHON, "-m", "ullage", *words, user=user, check=False)


def told(machine: Machine, *words: str, user: str = "", code: int = 0, **variables: str) -> str:
    """What it prints, as one line: where lines break is nothing to look at here."""
    done = ullage(machine, *words, user=user, **variables)
    assert done.returncode == code, done.stdout + done.stderr
    assert not done.stderr
    return re.sub(r"\s+", " ", done.stdout)


def report(machine: Machine, *words: str, user: str = "", **variables: str) -> Any:
    done = ullage(machine, "--json", *words, user=user, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def server(data: Any, role: str) -> Any:
    return next(s for s in data["servers"] if s["role"] == role)


def finding(data: Any, name: str) -> Any:
    return next((f for f in data["findings"] if f["id"] == name), None)


@pytest.fixture(scope="module")
def deployed(machines: type[Machine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A prefill and a decode worker behind a router, all three as units, with a key."""
    with machines(tmp_path_factory.mktemp("deployed") / "machine") as machine:
        machine.write("/etc/decode.env", "FRACTION=0.8\n")
        flags = f"--disaggregation-mode prefill --disaggregation-bootstrap-port 8998 --api-key {SECRET}"
        start_tank(machine, PREFILL, 30000, flags)
        machine.unit(DECODE, DECODE_UNIT)
        restart_tank(machine, DECODE, 30001)
        machine.unit(ROUTER, ROUTER_UNIT)
        machine.systemctl("start", ROUTER)
        machine.until(PYTHON, "-c", "import socket; socket.create_connection(('127.0.0.1', 8000))")
        machine.until(PYTHON, "-c", "import socket; socket.create_connection(('127.0.0.1', 29000))")
        yield machine


@pytest.fixture(scope="module")
def machine(quiet_machine: Machine) -> Machine:
    return quiet_machine


def test_what_runs_and_who_routes_to_whom(deployed: Machine) -> None:
    text = told(deployed, "--api-key-env", "KEY", KEY=SECRET)
    pids = {name: deployed.show(name, "MainPID") for name in (ROUTER, PREFILL, DECODE)}
    assert (
        f"router sglang-router 3 workers http://127.0.0.1:8000 | pid {pids[ROUTER]}, {ROUTER}, as root in /, up" in text
    )
    assert re.search(
        rf"\|- prefill tiny tank \S+ http://127.0.0.1:30000 \| pid {pids[PREFILL]}, {PREFILL}, as root in /, up", text
    )
    assert re.search(
        rf"\|- decode tiny tank \S+ http://127.0.0.1:30001 \| pid {pids[DECODE]}, {DECODE}, as root in /, up", text
    )
    assert "| listens on 127.0.0.1:30001, writes to the journal `-" in text
    assert "`- http://10.9.8.7:30001 not read" in text
    assert "1 worker on another host not read: --follow reads it" in text
    assert "Parallel requests, prefill to decode" in text
    assert "environment CUDA_VISIBLE_DEVICES=4,5" in text


def test_all_kinds_of_evidence_are_joined(deployed: Machine) -> None:
    data = report(deployed, "--api-key-env", "KEY", KEY=SECRET)
    decode = server(data, "decode")
    places = {e["place"].split(",")[0].split(" of pid")[0] for e in decode["evidence"]}
    assert {
        "command line",
        f"journal of {DECODE}",
        f"systemctl show {DECODE}",
        "/etc/systemd/system/sglang-decode.service",
    } <= places
    assert {f"http://127.0.0.1:30001/{path}" for path in ("server_info", "v1/loads", "v1/models")} <= places
    assert decode["figures"]["pid"]["value"] == int(deployed.show(DECODE, "MainPID"))
    assert decode["figures"]["requested_mem_fraction_static"]["value"] == 0.8
    assert not [f for f in data["findings"] if f["subject"] in ("running", "starts")]
    assert server(data, "router")["figures"]["max_concurrent_requests"]["value"] == 48


def test_the_json_says_where_each_runs(deployed: Machine) -> None:
    data = report(deployed)
    jsonschema.validate(data, SCHEMA)
    decode = server(data, "decode")["host"]
    assert decode["pid"] == int(deployed.show(DECODE, "MainPID"))
    assert decode["listens"] == ["127.0.0.1:30001"]
    assert decode["environment"]["CUDA_VISIBLE_DEVICES"] == "4,5"
    assert decode["unit"]["name"] == DECODE
    assert {"/etc/systemd/system/sglang-decode.service", "/etc/decode.env"} <= {
        f["path"] for f in decode["unit"]["files"]
    }
    assert decode["configured"]["mem_fraction_static"]["value"] == 0.8
    assert decode["output"] == "the journal"


def test_without_the_key_the_journal_still_tells(deployed: Machine) -> None:
    decode = server(report(deployed), "decode")
    pool = decode["figures"]["max_total_num_tokens"]
    assert pool["source"]["evidence"].startswith(f"journal of {DECODE}")
    assert (
        pool["value"]
        == server(report(deployed, "--api-key-env", "KEY", KEY=SECRET), "decode")["total_context"]["value"]
    )


@pytest.mark.parametrize("words", [(), ("--json",), ("--sources",), ("--html", "-"), ("--history",)])
@pytest.mark.parametrize("user", ["", "reader"])
def test_no_secret_is_told(deployed: Machine, words: tuple[str, ...], user: str) -> None:
    if user and deployed.run("id", user, check=False).returncode:
        deployed.user(user)
    done = ullage(deployed, *words, user=user)
    assert done.returncode == 0
    assert SECRET not in done.stdout + done.stderr
    assert TOKEN not in done.stdout + done.stderr


def test_an_edit_waits_for_a_restart(deployed: Machine) -> None:
    before = server(report(deployed), "decode")["figures"]["max_total_num_tokens"]["value"]
    deployed.write("/etc/decode.env", "FRACTION=0.6\n")
    pending = finding(report(deployed), "restart-pending")
    assert "mem_fraction_static is 0.6 in /etc/systemd/system/sglang-decode.service" in pending["says"]
    assert "running since before the edit with 0.8 (/etc/decode.env): restart pending" in pending["says"]
    assert pending["advice"].startswith(f"systemctl restart {DECODE}")
    restart_tank(deployed, DECODE, 30001)
    data = report(deployed, "--history")
    decode = server(data, "decode")
    assert finding(data, "restart-pending") is None
    assert decode["figures"]["requested_mem_fraction_static"]["value"] == 0.6
    assert decode["figures"]["max_total_num_tokens"]["value"] < before
    earlier = decode["earlier_starts"][-1]["figures"]
    assert earlier["max_total_num_tokens"]["value"] == before
    assert "mem_fraction_static 0.8 (now 0.6)" in finding(data, "earlier-start-differs")["says"]
    assert server(report(deployed), "decode")["earlier_starts"] == []
    now = decode["figures"]["max_total_num_tokens"]["value"]
    text = told(deployed, "--history")
    assert "Starts of http://127.0.0.1:30001 start KV pool memory fraction context running requests" in text
    assert re.search(rf"\d\d:\d\d\S* {before:,} 0.8 2,048 64 .*current {now:,} 0.6 2,048 64", text)
    assert "Starts of http://127.0.0.1:30000 no earlier start is known" in text


def test_a_unit_file_that_systemd_has_not_read(deployed: Machine) -> None:
    path = f"/etc/systemd/system/{PREFILL}"
    deployed.run("sed", "-i", "s/--port 30000/--port 30000 --max-running-requests 7/", path)
    pending = finding(report(deployed), "restart-pending")
    deployed.run("sed", "-i", "s/ --max-running-requests 7//", path)
    deployed.systemctl("daemon-reload")
    assert "max_running_requests is 7 in" in pending["says"]
    assert pending["advice"].startswith(f"systemctl daemon-reload, then systemctl restart {PREFILL}")


def test_an_ordinary_user_gets_an_answer_and_the_lines_that_give_more(deployed: Machine) -> None:
    if deployed.run("id", "reader", check=False).returncode:
        deployed.user("reader")
    text = told(deployed, user="reader")
    for role, unit in (("prefill", PREFILL), ("decode", DECODE), ("router", ROUTER)):
        assert re.search(rf"{role} [^|]*\| pid \d+, {unit}, as root|{role} .*? pid \d+, {unit}, as root", text), text
    assert f"belongs to another user (root); sudo {PYTHON} -m ullage" in text
    assert "reader may not read the journal of the system" in text
    assert "systemd-journal" in text


def test_nothing_is_written_and_no_other_port_is_asked(deployed: Machine) -> None:
    listener = """
import socket
server = socket.create_server(("127.0.0.1", 9999))
print("up", flush=True)
server.accept()
print("asked", flush=True)
"""
    deployed.write("/srv/listener.py", listener)
    deployed.run("systemd-run", "--unit=listener", "--property=Type=exec", PYTHON, "-u", "/srv/listener.py")
    deployed.until(PYTHON, "-c", "import sys; sys.exit('0100007F:270F' not in open('/proc/net/tcp').read())")
    inside = [
        "systemd-run",
        "--wait",
        "--pipe",
        "--quiet",
        "--property=ReadOnlyPaths=/",
        "--property=WorkingDirectory=/",
    ]
    for words in ((), ("--history", "--json"), ("--follow", "--timeout", "0.5"), ("memory",)):
        done = deployed.run(*inside, PYTHON, "-m", "ullage", *words)
        assert "http://127.0.0.1:30001" in done.stdout
        assert not done.stderr
    assert "asked" not in deployed.run("journalctl", "--unit=listener", "--output=cat").stdout


def test_a_users_own_manager(machine: Machine) -> None:
    machine.user("op")
    start_tank(machine, "mine.service", 31000, "--mem-fraction-static 0.7", user="op")
    for user in ("op", ""):
        text = told(machine, user=user)
        assert "http://127.0.0.1:31000" in text
        assert "mine.service of user op, as op in /home/op, up" in text
        mine = server(report(machine, user=user), "unified")
        assert any(e["place"].startswith("journal of mine.service") for e in mine["evidence"])
    machine.systemctl("stop", "mine.service", user="op")


def test_active_and_not_serving(machine: Machine) -> None:
    machine.write("/srv/quiet/llama-server", FAKE.format("time.sleep(1000)"), 0o755)
    machine.unit("quiet.service", "[Service]\nExecStart=/srv/quiet/llama-server -m /srv/x.gguf --port 8099\n")
    machine.systemctl("start", "quiet.service")
    machine.until("sh", "-c", "pgrep -f /srv/quiet/llama-server")
    silent = finding(report(machine), "not-serving")
    assert re.search(r"has run for \d+ s and listens on nothing; quiet.service is active \(running\)", silent["says"])
    assert silent["severity"] == "info"
    machine.write("/srv/second/llama-server", FAKE.format("time.sleep(1000)"), 0o755)
    machine.run("systemd-run", "--unit=second", "/srv/second/llama-server", "-m", "/srv/x.gguf", "--port", "8099")
    machine.until("sh", "-c", "pgrep -f /srv/second/llama-server")
    assert "are both told to use port 8099: none of them listens yet" in finding(report(machine), "port-taken")["says"]
    machine.systemctl("stop", "quiet.service", "second.service")


def test_a_server_that_was_stopped(machine: Machine) -> None:
    machine.write("/srv/held/llama-server", FAKE.format("time.sleep(1000)"), 0o755)
    machine.run("systemd-run", "--unit=held", "/srv/held/llama-server", "-m", "/srv/x.gguf", "--port", "8097")
    machine.until("sh", "-c", "pgrep -f /srv/held/llama-server")
    pid = machine.show("held.service", "MainPID")
    machine.run("kill", "-STOP", pid)
    machine.until("grep", "-q", "State:.T", f"/proc/{pid}/status")
    stopped = finding(report(machine), "not-serving")
    machine.run("kill", "-CONT", pid)
    machine.systemctl("stop", "held.service")
    assert f"is stopped (pid {pid}: SIGSTOP" in stopped["says"]
    assert stopped["advice"] == f"let it go on: kill -CONT {pid}"


@pytest.mark.skipif(not Path("/proc/self/ns/time").exists(), reason="this kernel has no time namespaces")
def test_a_clock_that_was_set_back(machine: Machine) -> None:
    """By ten minutes since the start: told in a namespace whose other clocks went on for so long, as the wall's did
    not. What was edited before or after the start can no longer be told by its time.
    """
    machine.write("/srv/timed/llama-server", FAKE.format("time.sleep(1000)"), 0o755)
    path = machine.unit("timed.service", "[Service]\nExecStart=/srv/timed/llama-server -m /srv/x.gguf --port 8096\n")
    machine.systemctl("start", "timed.service")
    machine.until("sh", "-c", "pgrep -f /srv/timed/llama-server")
    machine.run("touch", "--date=+1 min", path)
    machine.systemctl("daemon-reload")
    later = ["unshare", "--time", "--monotonic=630", "--boottime=630", "--fork"]
    before, after = (
        json.loads(machine.run(*words, PYTHON, "-m", "ullage", "--json").stdout)["findings"] for words in ([], later)
    )
    machine.systemctl("stop", "timed.service")
    told = [[(f["id"], f["says"]) for f in found if f["subject"] == "units"] for found in (before, after)]
    (pending,) = [says for rule, says in told[0] if rule == "restart-pending" and "timed" in says]
    assert "changed since the start" in pending
    (moved,) = [says for rule, says in told[1] if "timed" in says]
    assert moved == "the clock was set back by 10 min since timed.service became active"


def test_a_unit_that_does_not_stay_up(machine: Machine) -> None:
    machine.write("/srv/broken/llama-server", FAKE.format("sys.exit('no model')"), 0o755)
    machine.unit(
        "broken.service",
        "[Service]\nExecStart=/srv/broken/llama-server -m /srv/x.gguf --port 8098\nRestart=always\nRestartSec=300\n",
    )
    machine.systemctl("start", "broken.service")
    machine.until("sh", "-c", "systemctl show -P Result broken.service | grep exit-code")
    data = report(machine)
    machine.systemctl("stop", "broken.service")
    told = [f["says"] for f in data["findings"] if f["id"] == "does-not-stay-up"]  # of units of other tests too
    (says,) = [says for says in told if "broken.service is activating (auto-restart)" in says]
    assert "the last end: exit-code" in says


def test_start_up_lines_that_are_gone(own_machine: Machine) -> None:
    """The pool is the server's own word then, and it is said that the log does not hold it."""
    start_tank(own_machine, "old.service", 30000, "")
    printing(own_machine, "noise", "x\n" * 2000)
    own_machine.systemctl("start", "noise.service")
    own_machine.run("journalctl", "--rotate", "--vacuum-size=1")
    data = report(own_machine)
    pool = server(data, "unified")["figures"]["max_total_num_tokens"]
    assert pool["source"]["evidence"] == "http://127.0.0.1:30000/server_info"
    (journal,) = [line for line in data["not_read"] if line["place"].startswith("journal of old.service")]
    assert "no line of this start is left: the journal goes back to" in journal["reason"]


def test_a_reboot_leaves_no_figure_behind(own_machine: Machine) -> None:
    printing(own_machine, "sglang", start_lines(111_104))
    own_machine.systemctl("start", "sglang.service")
    own_machine.until("sh", "-c", "journalctl -u sglang -o cat | grep fired")
    own_machine.reboot()
    done = ullage(own_machine)
    assert done.returncode == 3
    assert "111,104" not in done.stdout


def test_nothing_runs(own_machine: Machine) -> None:
    done = ullage(own_machine)
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(
        r"ullage: no server was found: this host: none of its \d+ processes is an LLM server; name a target: .*\n",
        done.stderr,
    )
    as_json = ullage(own_machine, "--json")
    document = json.loads(as_json.stdout)
    assert as_json.returncode == 3
    assert (document["servers"], [item["place"] for item in document["not_read"]]) == ([], ["this host"])


def test_the_same_on_a_narrow_terminal(deployed: Machine) -> None:
    done = ullage(deployed, COLUMNS="40")
    assert done.returncode == 0
    wide = [line for line in done.stdout.splitlines() if len(line) > 40 and " " in line.strip()]
    assert wide == []
