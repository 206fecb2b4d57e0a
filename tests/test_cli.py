"""The command as a process: what it prints, where, with which exit code; whatever it is given, never a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ullage
import ullage.findings.catalogue  # enters the rules
from tests import replayed
from tests.replayed import Replay
from ullage.findings.base import CATALOGUE

SCHEMA = json.loads(Path(ullage.__file__).with_name("report").joinpath("limits.schema.json").read_text())
START = "[2026-06-02 10:05:00 TP0] max_total_num_tokens=20000, max_running_requests=64, context_len=32768\n"


def run(*words: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "ULLAGE_DEBUG")}
    done = subprocess.run(
        [sys.executable, "-m", "ullage", *words],
        input=stdin,
        capture_output=True,
        env={**clean, **environment},
        timeout=60,
    )
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def deployment() -> Iterator[tuple[Replay, Replay, Replay]]:
    with replayed.deployment() as servers:
        yield servers


def data(*words: str) -> Any:
    return json.loads(run("limits", "--json", *words).stdout)


def test_a_router_is_followed_to_its_workers(deployment: tuple[Replay, ...]) -> None:
    alone, followed = data(deployment[0].url), data(deployment[0].url, "--follow")
    assert [s["role"] for s in alone["servers"]] == ["router"]
    assert [s["role"] for s in followed["servers"]] == ["prefill", "decode", "router"]
    assert {row["label"]: row["admits"]["value"] for row in followed["chain"]}["full"] == 4


def test_a_metrics_page_that_was_named_is_not_looked_for_elsewhere(deployment: tuple[Replay, ...]) -> None:
    router, prefill, _ = deployment
    followed = data(router.url, "--follow", "--metrics", f"{router.url}={prefill.url}/metrics")
    assert [line["place"] for line in followed["not_read"] if "29000" in line["place"]] == []
    assert any("29000" in line["place"] for line in data(router.url, "--follow")["not_read"])


def test_closed_standard_output() -> None:
    command = f"exec {sys.executable} -m ullage limits - >&-"
    done = subprocess.run(["sh", "-c", command], input=START, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "ullage: standard output is closed; nothing can be printed there\n")


def test_a_plot_that_was_asked_for_and_shows_nothing_says_why() -> None:
    flat = "[2026-06-02 10:05:00 TP0] max_total_num_tokens=900000, max_running_requests=1, context_len=32768\n"
    out = run("limits", "-", "--plot", stdin=flat.encode(), LANG="C.UTF-8").stdout
    assert "no plot: one number holds at all lengths" in " ".join(out.split())


def test_lengths_of_which_nothing_is_known_are_one_row() -> None:
    out = run("limits", "--flags", "sglang serve --model-path m --port 1").stdout
    assert out.count("not known  not known") == 1
    assert "any  not known" in out


def test_the_json_is_what_its_schema_says(deployment: tuple[Replay, ...]) -> None:
    jsonschema.validate(data(deployment[0].url, "--follow", "--at", "32000", "--request", "prompt=3000"), SCHEMA)


def test_the_schema_refuses_a_figure_without_its_source(deployment: tuple[Replay, ...]) -> None:
    report = data(deployment[2].url)
    del report["servers"][0]["figures"]["max_total_num_tokens"]["source"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, SCHEMA)


def test_a_pipe_gets_80_columns_and_no_colours(deployment: tuple[Replay, ...]) -> None:
    out = run("limits", deployment[0].url, "--follow").stdout
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert not any(line.endswith(" ") for line in out.splitlines())


def on_a_terminal(*words: str, **environment: str) -> str:
    """What a terminal of 80 columns gets."""
    ours, theirs = os.openpty()
    clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "ullage", *words],
        stdout=theirs,
        stdin=subprocess.DEVNULL,
        env={**clean, "COLUMNS": "80", "TERM": "xterm", **environment},
    )
    os.close(theirs)
    out = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes any more
        while chunk := os.read(ours, 65536):
            out += chunk
    os.close(ours)
    assert process.wait(60) == 0
    return out.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_and_the_same_words(tmp_path: Path) -> None:
    flags = "--max-running-requests 100 --host 0.0.0.0"
    (tmp_path / "s.log").write_text(START)
    words = ("limits", str(tmp_path / "s.log"), "--flags", f"python -m sglang.launch_server --model-path m {flags}")
    coloured, plain = on_a_terminal(*words), on_a_terminal(*words, NO_COLOR="1")
    assert "\x1b[33m<- " in coloured
    assert "\x1b[2min effect\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain == run(*words, "--plot").stdout
    assert "█" not in run(*words).stdout


@pytest.mark.parametrize(("columns", "plotted"), [("59", False), ("60", True), ("200", True)])
def test_a_terminal_that_is_wide_enough_gets_the_plot(columns: str, plotted: bool, tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(START)
    words = ("limits", str(tmp_path / "s.log"))
    assert ("█" in on_a_terminal(*words, COLUMNS=columns)) == plotted
    assert "█" not in on_a_terminal(*words, "--no-plot", COLUMNS=columns)
    assert "█" not in on_a_terminal(*words, COLUMNS=columns, PYTHONIOENCODING="ascii")


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_a_narrow_or_wide_terminal_is_kept_to(columns: int, tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(START)
    out = run("limits", str(tmp_path / "s.log"), COLUMNS=str(columns)).stdout
    assert max(map(len, out.splitlines())) <= columns


def test_sources_show_what_every_number_was_computed_from(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(START)
    out = run("limits", str(tmp_path / "s.log"), "--sources").stdout
    tree = " ".join(out[out.index("Sources") :].split())
    assert "admits = " in tree
    assert "s.log line 1: [2026-06-02 10:05:00 TP0] max_total_num_tokens=20000" in tree
    assert "schedule_conservativeness = 1" in tree
    assert "one more enters while over" in tree


def test_a_page_is_written_beside_the_screen(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(START)
    page, words = tmp_path / "a page.html", ("limits", str(tmp_path / "s.log"))
    done = run(*words, "--html", str(page))
    assert (done.stdout, done.stderr, done.returncode) == (run(*words).stdout, "", 0)
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert page.read_text("utf-8").endswith("</html>\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a page.html", "s.log"]
    assert page.stat().st_mode & 0o777 == (tmp_path / "s.log").stat().st_mode & 0o777
    assert json.loads(run(*words, "--json", "--html", str(page)).stdout)["schema"] == "ullage.limits/1"
    assert run(*words, "--html", "-").stdout.startswith("<!DOCTYPE html>")


def test_a_page_that_was_there_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(START)
    (tmp_path / "held.html").write_text("before" * 200_000)
    (tmp_path / "held.html").chmod(0o640)
    (tmp_path / "page.html").symlink_to("held.html")
    assert run("limits", str(tmp_path / "s.log"), "--html", str(tmp_path / "page.html")).returncode == 0
    assert (tmp_path / "page.html").is_symlink()
    assert (tmp_path / "held.html").stat().st_mode & 0o777 == 0o640
    assert "before" * 9 not in (tmp_path / "held.html").read_text("utf-8")


def test_no_page_is_written_where_nothing_was_read(tmp_path: Path) -> None:
    done = run("limits", "-", "--html", str(tmp_path / "page.html"))
    assert done.returncode == 3
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_echoed(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(START)
    assert "4k read as 4,096 tokens" in run("limits", str(tmp_path / "s.log"), "--at", "4k").stdout


def test_standard_input_is_a_target() -> None:
    done = run("limits", "-", stdin=START.encode())
    assert done.returncode == 0
    assert "20,000" in done.stdout


def test_findings_set_the_exit_code_when_asked(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(START)
    path = str(tmp_path / "s.log")  # its pool is below its context: a warning
    assert [
        run("limits", path, *more).returncode for more in ((), ("--fail-on", "error"), ("--fail-on", "warning"))
    ] == [0, 0, 1]


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_finding_is_explained(name: str) -> None:
    done = run("explain", name)
    assert done.returncode == 0
    assert name in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "words", [("in", "use", "now"), ("token budget a step",), ("inferred",), ("first_num_queue_reqs",)]
)
def test_a_word_of_the_page_is_explained(words: tuple[str, ...]) -> None:
    done = run("explain", *words)
    assert done.returncode == 0
    assert done.stdout.startswith(" ".join(words))


BAD = {
    "history of a file": (["limits", "-", "--history"], START.encode(), 2, "--history is of the servers on this host"),
    "a Prometheus without a selector": (["limits", "--prometheus", "http://127.0.0.1:1"], b"", 2, "go together"),
    "a command mistyped": (["memroy"], b"", 2, "no such command: memroy; did you mean memory?"),
    "another": (["limit", "http://127.0.0.1:1"], b"", 2, "did you mean limits?"),
    "no such file": (["limits", "/no/such.log"], b"", 2, "no such file"),
    "a scheme that is none": (["limits", "htp://host"], b"", 2, "only http and https"),
    "nothing listens": (["limits", "http://127.0.0.1:1"], b"", 3, "nothing listens"),
    "a word that is no URL": (["limits", "http://"], b"", 2, "URL"),
    "a size that is none": (["limits", "-", "--at", "much"], START.encode(), 2, "not a size"),
    "a size below nothing": (["limits", "-", "--at", "-5"], START.encode(), 2, "it is negative"),
    "half a token": (["limits", "-", "--at", "0.3"], START.encode(), 2, "whole number"),
    "a request without a prompt": (["limits", "-", "--request", "output=3"], START.encode(), 2, "prompt"),
    "an unknown option": (["limits", "-", "--att", "3"], b"", 2, "No such option"),
    "a page where no folder is": (["limits", "-", "--html", "/no/such/x.html"], START.encode(), 2, "cannot write"),
    "a page in the place of a folder": (["limits", "-", "--html", "/"], START.encode(), 2, "cannot write"),
    "a page and JSON at once": (["limits", "-", "--html", "-", "--json"], START.encode(), 2, "--html -"),
    "quotes that do not pair": (["limits", "--flags", "sglang serve 'x"], b"", 2, "--flags"),
    "another engine's command": (["limits", "--flags", "trtllm-serve x"], b"", 3, "not the command line"),
    "a key on the command line": (["limits", "http://127.0.0.1:1", "--api-key-env", "sk-abc.def"], b"", 2, "the name"),
    "a variable that is not set": (["limits", "http://127.0.0.1:1", "--api-key-env", "NO_SUCH"], b"", 2, "not set"),
    "an unknown word to explain": (["explain", "pool-below-contex"], b"", 2, "did you mean pool-below-context"),
    "nothing on stdin": (["limits", "-"], b"", 3, "nothing in it"),
    "noise": (["limits", "-"], bytes(range(256)) * 40, 3, "not a text"),
    "a web page": (["limits", "-"], b"<!DOCTYPE html><title>Log in</title>", 3, "web page"),
    "half a JSON": (["limits", "-"], b'{"model_path": "x", ', 3, "JSON"),
    "a JSON of something else": (["limits", "-"], b'{"a": [1, 2]}', 3, "not the answer of"),
    "a log of something else": (["limits", "-"], b"Jun 02 10:00:00 box sshd[1]: hello\n" * 9, 3, "no line of it"),
    "another engine's metrics": (
        ["limits", "-"],
        b'trtllm_num_requests_running{model_name="m"} 1.0\n',
        3,
        "TensorRT-LLM",
    ),
}


@pytest.mark.parametrize(("words", "stdin", "code", "says"), BAD.values(), ids=BAD.keys())
def test_bad_input_gets_one_line(words: list[str], stdin: bytes, code: int, says: str) -> None:
    done = run(*words, stdin=stdin)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith("ullage: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


ABSURD = (
    '{"model_path": "m", "mem_fraction_static": NaN, "max_total_num_tokens": -5, "internal_states": null}',
    '{"model_path": "m", "mem_fraction_static": 1e999, "max_total_num_tokens": 1e300, "internal_states": [3, {}]}',
    '{"model_path": ["m"], "mem_fraction_static": "x", "max_total_num_tokens": "many", "internal_states": {"a": 1}}',
    'sglang:max_total_num_tokens{model_name="m"} NaN\nsglang:token_usage{model_name="m"} +Inf\n',
    "max_total_num_tokens=99999999999999999999999999, context_len=8192\n",
    "max_total_num_tokens=0, max_running_requests=0, context_len=0\n",
)


@pytest.mark.parametrize("text", ABSURD)
def test_absurd_figures_are_not_known(text: str) -> None:
    done = run("limits", "-", "--json", stdin=text.encode())
    assert done.stderr == ""
    report = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    server = report["servers"][0]
    assert not server["figures"].get("max_total_num_tokens", {}).get("value")
    assert not server["figures"].get("max_running_requests", {}).get("value")
    assert '"many"' in text or any(note.endswith("not used") for note in server["notes"])


def test_a_page_of_two_engines_names_what_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("sglang:num_running_reqs 2\nvllm:num_requests_running 1\n")
    server = data(str(tmp_path / "m.txt"))["servers"][0]
    assert server["usage"]["num_running_reqs"]["value"] == 2
    assert "the page also holds series of vllm, which are not read" in server["notes"]


@pytest.mark.parametrize(("flags", "value"), [("", None), ("--model-path m", "unbounded")])
def test_an_output_bound_is_not_known_before_the_arguments_are(flags: str, value: str | None, tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(START)
    words = ("--flags", f"python -m sglang.launch_server {flags}") if flags else ()
    output = data(str(tmp_path / "s.log"), *words)["servers"][0]["default_output"]
    assert output["value"] == value
    assert value or "--preferred-sampling-params" in output["note"]


def test_a_setting_that_is_off_is_not_absurd(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text("max_total_num_tokens=20000, chunked_prefill_size=-1, context_len=8192\n")
    assert not any("not used" in note for note in data(str(tmp_path / "s.log"))["servers"][0]["notes"])


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text(START)
    process = subprocess.Popen(
        [sys.executable, "-m", "ullage", "limits", str(tmp_path / "s.log"), "--sources"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() in (0, 1)  # click's own end of a closed pipe is 1


def test_a_key_of_one_target_is_not_sent_to_what_a_router_names() -> None:
    from ullage.cli.gather import Options, _access
    from ullage.spec import Target

    router = Target("http://router:8000", True, "ROUTERS")
    of_one = _access({router.where: router}, {"ROUTERS": "k1"}, Options())
    assert (of_one("http://router:8000/workers").api_key, of_one("http://worker:30000").api_key) == ("k1", None)
    of_all = _access({router.where: router}, {"ROUTERS": "k1", "ALL": "k2"}, Options(key_envs=("ALL",)))
    assert of_all("http://worker:30000").api_key == "k2"
