from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.observe.prefixes import clean, continues, join, records, strip

ENGINE_LINES = [
    "[2026-02-27 14:33:22 TP1] Load weight begin. avail mem=77.48 GB",
    "[11:19:46 TP0] Decode batch. #running-req: 36, #token: 14473",
    "[2026-02-09 13:22:49] server_args=ServerArgs(model_path='a|b', host=None)",
    "2026-11-29 20:59:37  INFO smg::server: src/server.rs:794: Starting router on 127.0.0.1:31000 | mode: Regular",
    "2026-11-29T20:59:37.123456Z  INFO sglang_router_rs::server: src/server.rs:794: Starting router",
    "2026-11-29T20:59:37.123456Z ERROR sglang_router_rs::server: src/server.rs:794: No",
    "(APIServer pid=1288829) INFO 06-16 14:13:11 [api_server.py:1896] vLLM API server version 0.10.2",
    "INFO 10-29 21:46:42 [loggers.py:127] Engine 000: Avg prompt throughput: 2800.7 tokens/s",
    'INFO:     127.0.0.1:34824 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "INFO:vllm_mlx.server:Default max tokens: 32768",
    "0.00.007.258 I cmn  common_param: common_params_print_info: verbosity = 3",
    "system_info: n_threads = 4 (n_threads_batch = 4) / 10 | MTL : EMBED_LIBRARY = 1 | CPU : NEON = 1",
    "[2026-01-21T04:20:06.145Z] [ERROR] load_backend: loaded BLAS backend",
    "[1784621081.896649] [pod-prefill-0:537  :1]       srd_iface.c:221  UCX  ERROR send completion[0]",
    "node3:3828976:3828976 [0] NCCL INFO CC Off, workFifoBytes 1048576",
    "Traceback (most recent call last):",
    '  File "/opt/venv/x.py", line 3, in <module>',
    "| Processes:                                |",
    "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:01<00:00,  2.1it/s]",
    '{"t": 0.0, "worker": "prefill", "path": "/health"}',
    "\tindented: ünïcode, 中文 — 73%|███",
]
JOURNAL_TIMES = [
    "Nov 29 20:59:37",
    "Nov  9 20:59:37",
    "Nov 29 20:59:37.123456",
    "Okt 05 16:41:38",
    "Mär 18 11:23:41",
    "févr. 22 00:53:22",
    "дек 12 01:02:03",
    "11月 29 20:59:37",
    "2026-11-29T20:59:37+0000",
    "2026-11-29T20:59:37.123456+02:00",
    "Sun 2026-11-29 20:59:37 UTC",
    "Sun 2026-11-29 20:59:37.123456 CET",
    "[   12.345678]",
    "1764449977.123456",
]
STAMPS = ["2026-11-29T20:59:37.123456789Z", "2026-11-29T20:59:37Z", "2026-11-29T20:59:37.1+02:00"]

lines = st.sampled_from(ENGINE_LINES)
words = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,6}){0,2}", fullmatch=True)
pids = st.integers(2, 4_194_304)


def parts(line: str) -> tuple[str, int | None, str, str]:
    """Stream, process, time and the rest."""
    return strip(line)[:4]


@pytest.mark.parametrize("line", ENGINE_LINES)
def test_an_engines_own_line_stays(line: str) -> None:
    assert parts(line) == ("", None, "", line)


@given(st.sampled_from(JOURNAL_TIMES), st.sampled_from(["", "host-a ", "gpu01.example.org "]), words, pids, lines)
def test_journald(time: str, host: str, tag: str, pid: int, line: str) -> None:
    assert parts(f"{time} {host}{tag}[{pid}]: {line}") == (tag, pid, time, line)


@given(words, st.integers(1, 12), lines)
def test_compose(name: str, spaces: int, line: str) -> None:
    assert parts(f"{name}{' ' * spaces}| {line}") == (name, None, "", line)
    assert parts(f"\x1b[36m{name}{' ' * spaces}| \x1b[0m{line}") == (name, None, "", line)


@given(st.sampled_from(STAMPS), lines)
def test_times_of_docker_and_kubectl(stamp: str, line: str) -> None:
    assert parts(f"{stamp} {line}") == ("", None, stamp, line)
    assert parts(f"{stamp} stdout F {line}") == ("", None, stamp, line)


@given(words, words, st.sampled_from(STAMPS), lines)
def test_kubectl_prefix_with_and_without_times(pod: str, container: str, stamp: str, line: str) -> None:
    assert parts(f"[pod/{pod}/{container}] {line}") == (f"pod/{pod}/{container}", None, "", line)
    assert parts(f"[pod/{pod}/{container}] {stamp} {line}") == (f"pod/{pod}/{container}", None, stamp, line)


@given(words, st.sampled_from(STAMPS), lines)
def test_compose_with_times(name: str, stamp: str, line: str) -> None:
    assert parts(f"{name}  | {stamp} {line}") == (name, None, stamp, line)


@given(lines)
def test_dockers_json_file(line: str) -> None:
    record = {"log": f"{line}\n", "stream": "stderr", "time": "2026-11-29T20:59:37.1Z"}
    assert parts(json.dumps(record)) == ("", None, "2026-11-29T20:59:37.1Z", line)


@given(words, pids, lines, st.booleans())
def test_journald_as_json(unit: str, pid: int, line: str, as_bytes: bool) -> None:
    message = list(line.encode()) if as_bytes else line
    record = {
        "MESSAGE": message,
        "_PID": str(pid),
        "_SYSTEMD_UNIT": f"{unit}.service",
        "SYSLOG_IDENTIFIER": "env",
        "__REALTIME_TIMESTAMP": "1764449977000000",
        "_SYSTEMD_INVOCATION_ID": "0f" * 16,
    }
    assert parts(json.dumps(record)) == (unit, pid, "2025-11-29T20:59:37+00:00", line)


def test_the_time_of_journald_as_json_is_the_one_that_its_other_forms_print() -> None:
    record = {
        "MESSAGE": "x",
        "_SOURCE_REALTIME_TIMESTAMP": "1764449977000001",
        "__REALTIME_TIMESTAMP": "1764449977000009",
    }
    assert strip(json.dumps(record)).time == "2025-11-29T20:59:37.000001+00:00"


def test_systemd_as_json_is_systemd_and_not_the_unit() -> None:
    record = {
        "MESSAGE": "Started x.",
        "_PID": "1",
        "UNIT": "x.service",
        "SYSLOG_IDENTIFIER": "systemd",
        "_SYSTEMD_UNIT": "init.scope",
    }
    assert strip(json.dumps(record))[:2] == ("systemd", 1)


MESSAGES, TIMES = ["message", "msg", "text", "log", "textPayload"], ["time", "timestamp", "ts"]


@given(st.sampled_from(MESSAGES), st.sampled_from(TIMES), lines)
def test_structured_loggers(message: str, time: str, line: str) -> None:
    record = {time: "20:59", "level": "INFO", message: line, "container_name": "decode-1"}
    assert parts(json.dumps(record)) == ("decode-1", None, "20:59", line)


@given(lines)
def test_colours_and_controls(line: str) -> None:
    assert clean(f"\x1b[2m\x1b[32m{line}\x1b[0m\x07\x1b]0;title\x07\x00") == line
    assert clean(f"#033[32m{line}#033[0m") == line


@pytest.mark.parametrize("manager", ["init.scope", "user@1001.service/init.scope"])
def test_a_manager_by_its_unit_is_systemd(manager: str) -> None:
    line = f"Mon 2026-11-30 13:01:59 UTC host-b {manager}[110]: Started x.service - X."
    assert strip(line) == ("systemd", 110, "Mon 2026-11-30 13:01:59 UTC", "Started x.service - X.", False)


def test_the_symbol_of_systemd_goes() -> None:
    line = "Okt 05 16:43:01 host-b systemd[1]: [🡕] llama.service: Main process exited, code=killed"
    assert strip(line).rest == "llama.service: Main process exited, code=killed"


def test_a_boot_line_stays() -> None:
    line = "-- Boot 0123456789abcdef0123456789abcdef --"
    assert strip(line).rest == line


def test_a_progress_bar_and_the_record_glued_to_it_are_two() -> None:
    glued = " 10%|█ | 1/9\r100%|██| 9/9 [00:01]\x1b[A[2026-02-27 14:33:48 TP0] Entering[2026-02-27 14:33:49 TP1] x"
    assert [record.rest for record in records(f"decode-1  | {glued}\n")] == [
        " 10%|█ | 1/9",
        "100%|██| 9/9 [00:01]",
        "[2026-02-27 14:33:48 TP0] Entering",
        "[2026-02-27 14:33:49 TP1] x",
    ]


def test_a_message_of_several_lines_is_several_records() -> None:
    message = "Traceback:\n  File x\nValueError: y"
    assert [record.rest for record in records(json.dumps({"MESSAGE": message}))] == message.split("\n")


def test_an_indented_line_continues_one_that_ends_with_a_comma() -> None:
    first, second = "[22:54:04 DP28] Decode batch, token usage: 1.00,", "                pre-allocated usage: 0.88"
    assert continues(strip(first), second)
    joined = join(strip(first), strip(second)).rest
    assert joined == "[22:54:04 DP28] Decode batch, token usage: 1.00, pre-allocated usage: 0.88"
    assert not continues(strip(first), "[22:54:05 DP28] Decode batch")
    assert not continues(strip("no comma"), second)


@given(st.text(st.characters(exclude_categories=("C", "Z")), min_size=2, max_size=60), st.integers(1, 59))
def test_a_record_that_the_runtime_cut_comes_back_whole(text: str, at: int) -> None:
    """Container runtimes cut long records, inside a word too, and mark all but the last part with a P."""
    stamp = "2026-01-02T03:04:05.123456789Z"
    parts = [strip(f"{stamp} stdout {flag} {part}") for flag, part in (("P", text[:at]), ("F", text[at:]))]
    assert continues(parts[0], parts[1].rest)
    assert join(*parts).rest == text
    assert not continues(join(*parts), "another")


@pytest.mark.parametrize(
    ("line", "time", "message"),
    [
        (
            'level=INFO ts=2026-01-02T03:04:05Z msg="KV cache size: 5 tokens"',
            "2026-01-02T03:04:05Z",
            "KV cache size: 5 tokens",
        ),
        (
            'time="2026-01-02 03:04:05" level=info msg="say \\"hi\\" {\'a\': 1}"',
            "2026-01-02 03:04:05",
            """say "hi" {'a': 1}""",
        ),
        ('level=INFO logger="a b" message="x"', "", "x"),
    ],
)
def test_a_record_of_key_and_value_gives_its_message(line: str, time: str, message: str) -> None:
    found = strip(line)
    assert (found.time, found.rest) == (time, message)


@pytest.mark.parametrize("line", ["level=3 of the game", "time=5 msg=bare", "levels are fine", 'model="x" msg="y"'])
def test_words_that_only_look_like_it_stay(line: str) -> None:
    assert strip(line).rest == line


@given(st.text(max_size=80))
def test_no_text_makes_it_crash(text: str) -> None:
    records(text)
