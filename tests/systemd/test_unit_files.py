"""What a unit's files say now, against what the real systemd and the real shell make of the same files."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from tests.systemd.inside import call
from tests.systemd.machine import PYTHON, Machine
from tests.systemd.servers import new_port, start_tank
from ullage.evidence import Argv, Evidence, Failure
from ullage.observe.host import unit_syntax

# Stands for a server: it writes down how it was called.
DUMP = "/srv/bin/sglang.launch_server"
DUMPING = f"""#!{PYTHON}
import json, os, sys
with open("/srv/out/" + os.environ["INVOCATION_ID"], "a") as file:
    file.write(json.dumps([sys.argv, dict(os.environ)]) + "\\n")
"""
SYSTEMDS = frozenset(
    "LANG PATH INVOCATION_ID JOURNAL_STREAM SYSTEMD_EXEC_PID HOME LOGNAME USER SHELL PWD SHLVL _".split()
)


@pytest.fixture(scope="module")
def host(machine: Machine) -> Machine:
    machine.write(DUMP, DUMPING, 0o755)
    machine.run("mkdir", "-p", "-m", "777", "/srv/out")
    return machine


def told(host: Machine, name: str, uid: int | None = None, user: str = "") -> Any:
    return call(host, "files", name, uid, user=user)


def argvs(host: Machine, name: str) -> list[tuple[str, Argv]]:
    """Of each server: the file that names it, and its command."""
    found: list[Evidence] = told(host, name).evidence
    assert {item.topic for item in found} == {"configured"}
    return [(item.place, item.content) for item in found if isinstance(item.content, Argv)]


def started(host: Machine, name: str) -> list[tuple[list[str], dict[str, str]]]:
    """How systemd called the servers of a unit: words and environment."""
    host.systemctl("start", name)
    text = host.run("cat", f"/srv/out/{host.show(name, 'InvocationID')}").stdout
    return [tuple(json.loads(line)) for line in text.splitlines()]


def same(host: Machine, name: str) -> None:
    """The readers say what systemd does."""
    really = started(host, name)
    assert really
    read = [content for _, content in argvs(host, name)]
    assert [list(argv.words) for argv in read] == [words for words, _ in really]
    for argv, (_, environment) in zip(read, really, strict=True):
        assert {name: value for name, value in argv.environment.items() if name not in SYSTEMDS} == {
            name: value for name, value in environment.items() if name not in SYSTEMDS
        }


def service(*lines: str) -> str:
    return "[Unit]\nDescription=x\n[Service]\nType=oneshot\nRemainAfterExit=yes\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "lines",
    [
        [f"ExecStart={DUMP} --model-path /m --tp 4 --mem-fraction-static 0.83"],
        [f"ExecStart = {DUMP}   --a   \"x y\"  --b 'it\"s' --c=q\"u o\"te '' \"\" end"],
        [f"ExecStart={DUMP} \\x41\\tb \\d \"a\\\"b\" 'c\\'d' \\u00e9 \\101 a\\sb \\\\"],
        [f"ExecStart={DUMP} --a 1 \\", "  --b 2 \\", "# a comment within", "; and another", "  --c 3"],
        [f"ExecStart={DUMP} %n %N %p %i %% %j 100%% %H %t %S %u %U %h"],
        ["Environment=A=one B=\"two words\" 'C=three  more' \"D=\"", f"ExecStart={DUMP} $A $B ${{B}} x$A x${{B}}y"],
        ["Environment=A=one", f"ExecStart={DUMP} $$A $UNSET ${{UNSET}} \"$A\" '${{A}}' $ $1 ${{A}}${{A}} end"],
        ["Environment=\"Q=a 'b c' d\"", f"ExecStart={DUMP} $Q ${{Q}}"],
        ["Environment=A=1 B=2", "Environment=", "Environment=C=3", f"ExecStart={DUMP} ${{A}} ${{C}}"],
        ["Environment=A=1 B=2 C=3", "UnsetEnvironment=A C=other B=2", f"ExecStart={DUMP} ${{A}} ${{B}} ${{C}}"],
        ["Environment=A=%n", f"ExecStart={DUMP} ${{A}}"],
        ["ExecStart=/bin/false", "ExecStart=", f"ExecStart={DUMP} --after-reset"],
        [f"ExecStart=-{DUMP} --one", f"ExecStart=+{DUMP} --two", f"ExecStart=-!{DUMP} --three"],
        ["Environment=A=one", f"ExecStart=:{DUMP} ${{A}} $A"],
        [f"ExecStart={DUMP} --one ; {DUMP} --two \\; still"],
        ["User=nobody", f"ExecStart={DUMP} %u %h"],
        [f"ExecStart=@{DUMP} another-name --tp 2", f"ExecStart=-@{DUMP} another-name"],
    ],
)  # fmt: skip
def test_a_command_line_is_read_as_systemd_reads_it(host: Machine, lines: list[str]) -> None:
    name = f"line{abs(hash(tuple(lines)))}.service"
    host.unit(name, service(*lines))
    same(host, name)


def test_random_command_lines_are_read_as_systemd_reads_them(host: Machine) -> None:
    host.write(
        "/srv/bin/each", '#!/bin/sh\nprintf "%s\\0" "$@" >> /srv/out/each; printf "\\1\\0" >> /srv/out/each\n', 0o755
    )
    pick = random.Random(5).choice
    pieces = [
        *"abc=,:/-$%\"' ",
        "  ",
        "\\",
        "\\\\",
        '\\"',
        "\\'",
        "\\n",
        "\\x41",
        "\\q",
        "${A}",
        "$A ",
        " $A ",
        "$$",
        "%%",
    ]
    pieces += ["%n", "%i", "'q r'", '"s t"', "#", "\\;", " \\; ", "é", "\t", "${B}", "$B "]
    values = ["".join(pick(pieces) for _ in range(9)).rstrip("\\") for _ in range(400)]
    lines = [f"/srv/bin/each :{number}: {value}" for number, value in enumerate(values)]
    host.unit("each@one.service", service("Environment=\"A=x  'y z' w\" B=", *(f"ExecStart=-{line}" for line in lines)))
    host.systemctl("start", "each@one.service")
    records = host.run("cat", "/srv/out/each").stdout.split("\0\1\0")
    really = {words[0]: words[1:] for record in records if (words := record.split("\0"))[0]}
    mine = {}
    specifiers, environment = unit_syntax.name_values("each@one.service"), {"A": "x  'y z' w", "B": ""}
    for line in lines:
        ((_, raw),) = unit_syntax.commands(line.strip())
        words = unit_syntax.expanded([unit_syntax.specifiers(word, specifiers) for word in raw], environment)
        if not any(re.search("%[^%ni]", word.replace("%%", "")) for word in raw):  # %a, %q and so on: of the host
            mine[words[1]] = words[2:]
    both = really.keys() & mine.keys()
    assert len(both) > 150
    assert {name: mine[name] for name in both} == {name: really[name] for name in both}


def test_environment_files_are_read_as_systemd_reads_them(host: Machine) -> None:
    pick = random.Random(3).choice
    pieces = [*"ab=# $;'\"", "\\", "\\\\", '\\"', "\\'", "\\$", "'q r'", '"s t"', '"$A"', "  ", "é", "`", "\\\n"]
    values = ["".join(pick(pieces) for _ in range(6)) for _ in range(500)]
    plain = [value for value in values if all(value.count(quote) % 2 == 0 for quote in "\"'") and value[-1:] != "\\"]
    lines = [f"V{number}={value}" for number, value in enumerate(plain)]
    fixed = "# a comment\n; another\n\n  INDENTED = spaced \nexport NO=1\n1BAD=2\nTWICE=1\nTWICE=2\n"
    fixed += 'MULTI="a\nb"\nNOTHING=\nQUOTED="a" \'b\'c  \nEND= x\\ \n'
    host.write("/srv/random.env", fixed + "\n".join(lines) + "\n")
    host.unit("environment.service", service("EnvironmentFile=/srv/random.env", f"ExecStart={DUMP}"))
    ((_, really),) = started(host, "environment.service")
    mine = unit_syntax.environment_file(fixed + "\n".join(lines) + "\n")
    assert len(mine) > 100
    assert mine == {name: value for name, value in really.items() if name not in SYSTEMDS}


def test_environment_files_outrank_the_unit_and_may_be_absent(host: Machine) -> None:
    host.write("/etc/llm/base.env", "MODEL=/base\nTP=2\n")
    host.write("/etc/llm/more-1.env", "TP=8\n")
    host.unit(
        "files.service",
        service(
            "Environment=MODEL=/unit OWN=yes",
            "EnvironmentFile=/etc/llm/base.env",
            "EnvironmentFile=-/etc/llm/nosuch.env",
            "EnvironmentFile=/etc/llm/more-*.env",
            f"ExecStart={DUMP} --model ${{MODEL}} --tp $TP",
        ),
    )
    same(host, "files.service")
    ((place, argv),) = argvs(host, "files.service")
    assert argv.words[1:] == ("--model", "/base", "--tp", "8")
    assert place == "/etc/systemd/system/files.service"
    paths = [file.path for file in told(host, "files.service").files]
    assert paths == ["/etc/systemd/system/files.service", "/etc/llm/base.env", "/etc/llm/more-1.env"]


def test_drop_ins_count_in_the_order_that_systemd_gives_them(host: Machine) -> None:
    host.unit("a-b@x.service", service("Environment=V=unit", f"ExecStart={DUMP} --first"))
    for folder, base, value in [
        ("/etc/systemd/system/a-b@x.service.d", "20-x.conf", "instance"),
        ("/run/systemd/system/a-b@x.service.d", "20-x.conf", "hidden by the one in /etc"),
        ("/etc/systemd/system/a-b@.service.d", "30-x.conf", "template"),
        ("/usr/lib/systemd/system/a-.service.d", "40-x.conf", "prefix"),
        ("/etc/systemd/system/service.d", "15-x.conf", "type"),
        ("/etc/systemd/system/a-b@x.service.d", "10-x.conf", "first"),
    ]:
        key = re.sub(r"\W", "_", f"{folder}{base}")
        host.write(f"{folder}/{base}", f"[Service]\nEnvironment=V={value.split()[0]} {key}=1\n")
    host.write("/etc/systemd/system/a-b@.service.d/50-x.conf", f"[Service]\nExecStart=\nExecStart={DUMP} --v ${{V}}\n")
    host.run("ln", "-s", "/dev/null", "/etc/systemd/system/a-b@x.service.d/60-x.conf")
    host.systemctl("daemon-reload")
    same(host, "a-b@x.service")
    ((place, argv),) = argvs(host, "a-b@x.service")
    assert place == "/etc/systemd/system/a-b@.service.d/50-x.conf"
    assert argv.words[1:] == ("--v", "prefix")
    host.run("rm", "-r", "/etc/systemd/system/service.d")
    host.systemctl("daemon-reload")


SCRIPTS = {
    "plain": "#!/bin/bash\nset -euo pipefail\nexport CUDA_VISIBLE_DEVICES=0,1\nexec {dump} --tp 2 --port 30000\n",
    "continued": "#!/bin/sh\nexec {dump} \\\n  --tp 2 \\\n  --port 30000\n",
    "variables": '#!/bin/sh\nMODEL=/m/x\nTP=4\nMORE="--a 1 --b \'2\'"\nexec {dump} --model "$MODEL" --tp ${TP} $MORE\n',
    "defaults": '#!/bin/sh\nTP=${TP:-2}\nexec {dump} --tp $TP --port ${PORT:-30000} --frac "${FRACTION-0.8}"\n',
    "from the unit": '#!/bin/sh\nexec {dump} --model $FROM_UNIT --file "$FROM_FILE"\n',
    "array": '#!/bin/bash\nA=(\n  --tp 4 # its\n  --name "a b"\n)\nA+=(--b "$FROM_UNIT")\nexec {dump} "${A[@]}" end\n',
    "arguments": '#!/bin/bash\nexec {dump} "$@" --first "$1" --second $2\n',
    "no arguments": '#!/usr/bin/env bash\nshift 3\nexec {dump} --only "$@"\n',
    "sourced": "#!/bin/sh\n. /srv/llm/common.sh\n[ -f /srv/llm/x ] && true\nexec {dump} --common $COMMON\n",
    "in the foreground": "#!/bin/sh\n# isn't\necho \"it's starting\" # don't\n{dump} --tp 1 2>&1\necho over\n",
    "single quotes": '#!/bin/sh\nA=1\nexec {dump} \'$A\' "\\$A" "a\\"b" \'c d\'\n',
    "shifted": '#!/bin/sh\nA=$1; B="$2"\nshift 2\nexec {dump} "$@" --a $A --b "$B"\n',
    "a file that is there": "#!/bin/sh\nif [ -f {there} ]; then\n  . {there}\nfi\nexec {dump} $COMMON\n",
    "nested": "#!/bin/sh\nROOT=/srv\nMODELS=$ROOT/models\nexec {dump} --model ${MODELS}/x --cache $ROOT/cache\n",
}


@pytest.mark.parametrize("kind", SCRIPTS)
@pytest.mark.parametrize(
    "how", ["{path} a 'b c' d", "/bin/bash -e {path} a 'b c' d", "/usr/bin/env bash {path} a 'b c' d"]
)
def test_a_script_that_hides_the_flags_is_read_as_the_shell_runs_it(host: Machine, kind: str, how: str) -> None:
    if kind == "no arguments":
        how = how.replace("a 'b c' d", "")
        script = SCRIPTS[kind].replace("shift 3\n", "")
    else:
        script = SCRIPTS[kind]
    path = f"/srv/llm/{kind.replace(' ', '-')}.sh"
    host.write("/srv/llm/common.sh", "COMMON=shared\nexport VLLM_LOGGING_LEVEL=DEBUG\n")
    host.write("/srv/llm/unit.env", "FROM_FILE=a file's\n")
    host.write(path, script.replace("{dump}", DUMP).replace("{there}", "/srv/llm/common.sh"), 0o755)
    name = f"script-{abs(hash(kind + how))}.service"
    exec_start = f"ExecStart={how.format(path=path)}"
    host.unit(name, service("Environment=FROM_UNIT=u", "EnvironmentFile=/srv/llm/unit.env", exec_start))
    really = started(host, name)
    found = argvs(host, name)
    assert [list(argv.words[-len(words) :]) for (_, argv), (words, _) in zip(found, really, strict=True)] == [
        words for words, _ in really
    ]
    ((place, argv),) = found
    assert place == path
    assert argv.words[0] in ("exec", DUMP)
    exported = {name: value for name, value in really[0][1].items() if name not in SYSTEMDS}
    assert exported.items() <= argv.environment.items()
    assert path in [file.path for file in told(host, name).files]
    assert ("/srv/llm/common.sh" in [file.path for file in told(host, name).files]) == (
        kind in ("sourced", "a file that is there")
    )


BRANCHES = {
    "case": 'case "$1" in\n  a)\n    TP=4\n    ;;\n  b) TP=8;;\nesac\nexec {dump} --tp $TP --port 1\n',
    "if": "TP=2\nif [ -n $X ]\nthen TP=4\nelse\n  TP=8\nfi\nexec {dump} --tp $TP --port 1\n",
    "one line": 'TP=2\nif test -e /; then TP=4; fi\n[ -n "$X" ] || TP=8\nexec {dump} --tp ${TP:-1} --port 1\n',
    "array": 'A=(--port 1)\nif test -e /; then\n  A+=(--tp 4)\nfi\nexec {dump} "${A[@]}"\n',
    "loop": "while [ $# -gt 0 ]; do\n  TP=$1\n  shift\ndone\nexec {dump} --tp $TP --port 1 $@\n",
    "function": "TP=2\nchoose() {\n  TP=4\n}\nchoose\nexec {dump} --tp $TP --port 1\n",
    "asked": "TP=2\nTP=$(cat /srv/llm/tp)\nexec {dump} --tp $TP --port 1\n",
}


@pytest.mark.parametrize("kind", BRANCHES)
def test_what_a_script_decides_when_it_runs_is_not_guessed(host: Machine, kind: str) -> None:
    """What of the command is known is what it starts; what is not stays a variable."""
    path, name = f"/srv/llm/{kind.replace(' ', '-')}.sh", f"branch-{kind.replace(' ', '-')}.service"
    host.write("/srv/llm/tp", "4\n")
    host.write(path, f"#!/bin/bash\n{BRANCHES[kind].replace('{dump}', DUMP)}", 0o755)
    host.unit(name, service(f"ExecStart={path} a b"))
    ((words, _),) = started(host, name)
    ((_, argv),) = argvs(host, name)
    known = [word for word in argv.words if not word.startswith("$")]
    assert any(word.startswith("$") for word in argv.words)
    assert not {"2", "4", "8"}.intersection(known)
    assert set(known) - {"exec"} <= set(words)


def test_a_command_within_the_unit_for_a_shell(host: Machine) -> None:
    command = f"ExecStart=/bin/bash -lc 'cd /srv && exec {DUMP} --tp ${{TP}} --port $PORT > /dev/null'"
    host.unit("inline.service", service("Environment=TP=4 PORT=30001", command))
    ((words, _),) = started(host, "inline.service")
    ((place, argv),) = argvs(host, "inline.service")
    assert list(argv.words[-len(words) :]) == words
    assert place == "/etc/systemd/system/inline.service"


def test_secrets_in_environment_files_scripts_and_flags_are_masked(host: Machine) -> None:
    secrets = [f"w6Kp-{number}-{number}{number}xy" for number in range(5)]
    host.write("/srv/llm/secret.env", f"HF_TOKEN={secrets[0]}\nADMIN_API_KEY={secrets[1]}\n")
    script = f"#!/bin/bash\nexport API_KEY={secrets[2]}\nexec {DUMP} --api-key $API_KEY --name x$ADMIN_API_KEY\n"
    host.write("/srv/llm/secret.sh", script, 0o755)
    environment = ("EnvironmentFile=/srv/llm/secret.env", f"Environment=MY_PASSWORD={secrets[3]}")
    host.unit("hidden-a.service", service(*environment, "ExecStart=/srv/llm/secret.sh"))
    flags = f"--header ${{HF_TOKEN}} --api-key {secrets[4]} --other $MY_PASSWORD"
    host.unit("hidden-b.service", service(*environment, f"ExecStart={DUMP} {flags}"))
    for name, count in (("hidden-a.service", 3), ("hidden-b.service", 4)):
        really, found = started(host, name), told(host, name)
        assert sum(secret in repr(really) for secret in secrets) >= count
        assert not [secret for secret in secrets if secret in repr(found)]
        assert "--api-key" in repr(found)
        assert "***" in repr(found)


def test_a_unit_that_was_edited_says_what_the_next_start_would_have(host: Machine) -> None:
    port = new_port()
    start_tank(host, "tank.service", port, "--mem-fraction-static 0.7")
    pid = host.show("tank.service", "MainPID")
    running = host.run("cat", f"/proc/{pid}/cmdline").stdout.rstrip("\0").split("\0")
    ((_, before),) = argvs(host, "tank.service")
    assert list(before.words) == running
    text = host.run("cat", "/etc/systemd/system/tank.service").stdout
    host.write("/etc/systemd/system/tank.service", text.replace("0.7", "0.85"))
    host.write("/etc/systemd/system/tank.service.d/new.conf", "[Service]\nEnvironment=SGLANG_LOG_LEVEL=debug\n")
    assert host.show("tank.service", "NeedDaemonReload") == "yes"
    ((_, after),) = argvs(host, "tank.service")
    assert [word for word in after.words if word not in running] == ["0.85"]
    assert after.environment == {"SGLANG_LOG_LEVEL": "debug"}
    host.systemctl("daemon-reload")
    assert argvs(host, "tank.service")[0][1] == after
    paths = [file.path for file in told(host, "tank.service").files]
    assert paths == ["/etc/systemd/system/tank.service", "/etc/systemd/system/tank.service.d/new.conf"]
    host.systemctl("stop", "tank.service")


def test_config_files_that_the_command_names_decide_too(host: Machine) -> None:
    host.write("/etc/llm/conf.yaml", "tp: 4\n")
    host.unit("config.service", service("WorkingDirectory=/etc/llm", f"ExecStart={DUMP} --config conf.yaml"))
    host.unit("config2.service", service(f"ExecStart={DUMP} --config=/etc/llm/nosuch.yaml"))
    files = {
        file.path: file.changed_at is not None
        for name in ("config", "config2")
        for file in told(host, f"{name}.service").files
    }
    assert files["/etc/llm/conf.yaml"]
    assert files["/etc/llm/nosuch.yaml"] is False


def test_a_unit_of_a_user_manager(host: Machine) -> None:
    uid = host.user("writer")
    host.unit("own.service", service(f"ExecStart={DUMP} %h %u %t"), user="writer")
    host.systemctl("start", "own.service", user="writer")
    invocation = host.show("own.service", "InvocationID", user="writer")
    words = json.loads(host.run("cat", f"/srv/out/{invocation}").stdout)[0]
    for user in ("", "writer"):
        (item,) = told(host, "own.service", uid, user=user).evidence
        assert isinstance(item.content, Argv)
        assert list(item.content.words) == words


def failures(items: list[Evidence]) -> dict[str, Failure]:
    return {item.place: item.content for item in items if isinstance(item.content, Failure)}


def test_what_may_not_be_read_is_told_and_the_rest_is_there(host: Machine) -> None:
    host.run("useradd", "--create-home", "reader")
    host.write("/etc/llm/closed.env", "MODEL=/secret/model\n", 0o600)
    host.write("/srv/llm/closed.sh", f"#!/bin/sh\nexec {DUMP} --tp 2\n", 0o700)
    environment = "EnvironmentFile=/etc/llm/closed.env"
    host.unit(
        "closed-a.service", service(environment, "Environment=TP=2", f"ExecStart={DUMP} --model ${{MODEL}} --tp $TP")
    )
    host.unit("closed-b.service", service("ExecStart=/srv/llm/closed.sh"))
    found = told(host, "closed-a.service", user="reader").evidence
    (argv,) = [item.content for item in found if isinstance(item.content, Argv)]
    assert argv.words[1:] == ("--model", "${MODEL}", "--tp", "2")
    told_a, told_b = failures(found), failures(told(host, "closed-b.service", user="reader").evidence)
    assert told_a.keys() == {"/etc/llm/closed.env"}
    assert told_b.keys() == {"/srv/llm/closed.sh"}
    for failure in (*told_a.values(), *told_b.values()):
        assert failure.status == "no rights"
        assert failure.advice.startswith("sudo /")


@pytest.mark.parametrize(
    ("lines", "status", "reason"),
    [
        (["ExecStart=/usr/bin/python3 /srv/run.py"], "no server", "it starts /usr/bin/python3"),
        (["ExecStart=/bin/sh -c 'sleep 1'"], "no server", "the script names no server"),
        (["ExecStart=/bin/sh /srv/nosuch.sh"], "unreadable", "No such file"),
    ],
)
def test_a_unit_without_a_server_to_read(host: Machine, lines: list[str], status: str, reason: str) -> None:
    name = f"none{abs(hash(tuple(lines)))}.service"
    host.unit(name, service(*lines))
    (failure,) = failures(told(host, name).evidence).values()
    assert failure.status == status
    assert failure.reason.startswith(reason)


def test_a_unit_that_is_gone_or_masked(host: Machine) -> None:
    host.run("ln", "-s", "/dev/null", "/etc/systemd/system/masked.service")
    assert [f.status for f in failures(told(host, "masked.service").evidence).values()] == ["masked"]
    assert [f.status for f in failures(told(host, "gone.service").evidence).values()] == ["missing"]


def test_flags_that_a_script_only_hands_on_stand_in_the_unit(host: Machine) -> None:
    host.write("/srv/llm/run", '#!/bin/sh\nexec "$@"\n', 0o755)
    host.unit("handed.service", service(f"ExecStart=/srv/llm/run {DUMP} --tp 2"))
    ((words, _),) = started(host, "handed.service")
    ((place, argv),) = argvs(host, "handed.service")
    assert list(argv.words[-len(words) :]) == words
    assert place == "/etc/systemd/system/handed.service"
