from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import UsageError
from ullage.evidence import Argv, Content, Document, Evidence, Failure, Gpus, Log, Samples
from ullage.masking import Masker
from ullage.observe.files import argv_of, read_file
from ullage.observe.log_choice import LogWords
from ullage.observe.log_file import LogScan

SCAN = LogScan((LogWords((b"args=",), re.compile(rb"args=|pool=")),))
COMMANDS = re.compile(r"sglang\.launch_server|vllm serve|llama-server")
COMMAND = "python -m sglang.launch_server --model-path /m --api-key hunter2-hunter2"


def read(path: Path | str) -> list[Evidence]:
    return read_file(str(path), SCAN, Masker(), COMMANDS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "captured"


def one(path: Path, data: str | bytes) -> Content:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    (found,) = read(path)
    assert found.place == found.origin.target == str(path)
    return found.content


def argv(path: Path, text: str | bytes) -> Argv:
    content = one(path, text)
    assert isinstance(content, Argv), content
    return content


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"a": 1}', {"a": 1}),
        ('\n\n{\n  "a": [1,\n 2]}\n', {"a": [1, 2]}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ("{'a': None}", {"a": None}),
        ("[{'a': 1}]", [{"a": 1}]),
        ("[]", []),
        ('HTTP/1.1 200 OK\r\nserver: uvicorn\r\n\r\n{"a": 1}', {"a": 1}),
        ('{"message": "not a log by itself", "type": "x"}', {"message": "not a log by itself", "type": "x"}),
        ('{"token": "hunter2hunter2"}', {"token": "***"}),
        (json.dumps({"a": "x" * 100_000}), {"a": "x" * 100_000}),
    ],
)
def test_documents(path: Path, text: str, data: Any) -> None:
    assert one(path, text) == Document(data)


def test_a_document_in_utf_16(path: Path) -> None:
    assert one(path, '{"ä": 1}'.encode("utf-16")) == Document({"ä": 1})


def test_metrics(path: Path) -> None:
    content = one(path, "# TYPE a gauge\na 1\n" + "".join(f"m{n} 1\n" for n in range(20_000)))
    assert isinstance(content, Samples)
    assert len(content.samples) == 20_001


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (bytes(range(256)) * 40, "binary"),
        (b"\x7fELF\x02\x01\x01" + bytes(60), "binary"),
        (b"\0" * 1000, "binary"),
        ("a b c d e".encode("utf-16-le"), "binary"),
        (b"\x1f\x8b\x08\0abc", "packed"),
        (b"<!DOCTYPE html><html></html>", "html"),
        (b'{"a": [1, 2', "not json"),
        (b"{'a': [1, 2", "not json"),
        (b"[" * 100_000, "not json"),
    ],
)
def test_nothing_to_read(path: Path, data: bytes, status: str) -> None:
    content = one(path, data)
    assert isinstance(content, Failure), content
    assert content.status == status
    assert "\n" not in content.reason


def test_no_file_no_permission_and_a_directory(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.write_text("x")
    closed.chmod(0)
    expected = {tmp_path / "none": "missing", tmp_path: "directory", closed / "below": "unreadable"}
    expected[Path("a\0b")] = "missing"
    if os.geteuid():
        expected[closed] = "unreadable"
    for path, status in expected.items():
        (found,) = read(path)
        assert isinstance(found.content, Failure)
        assert found.content.status == status


@pytest.mark.parametrize(
    "text",
    [
        COMMAND,
        f"$ {COMMAND}\n",
        f"# {COMMAND}\n",
        f"me@gpu01:~$ {COMMAND}",
        "# x\n\npython -m sglang.launch_server \\\n  --model-path /m \\\r\n --api-key hunter2-hunter2 >x 2>&1 &\n",
        f"#!/bin/bash\nset -e\nsource venv/bin/activate\n# {COMMAND} --old\ncd /srv && {COMMAND} | tee log # now\n",
        f"[Unit]\nDescription=X\n[Service]\nExecStart={COMMAND}\n",
        json.dumps(COMMAND.split()),
        json.dumps({"argv": COMMAND.split(), "env": {}}),
        COMMAND.replace(" ", "\0") + "\0",
        f"USER PID\nme 3285 1.5 3.1 11374464 1034396 ? Ssl 06:35 0:08 {COMMAND}\nme 9 1 2 3 4 ? S 6:35 0:00 grep x\n",
        f"me 3285 1 0 06:35 pts/0 00:00:08 {COMMAND}\nme 9 1 0 06:35 ? 00:00:00 grep sglang.launch_server\n",
        f" 3285 {COMMAND}\n",
    ],
)
def test_command_lines(path: Path, text: str) -> None:
    found = argv(path, text)
    assert found.words == ("python", "-m", "sglang.launch_server", "--model-path", "/m", "--api-key", "***")
    assert found.environment == {}


def test_the_environment_of_a_command(path: Path) -> None:
    text = "export A=1 HF_TOKEN=hunter2hunter2\nB='x y' nohup vllm serve /m"
    found = argv(path, text)
    assert found.words == ("nohup", "vllm", "serve", "/m")
    assert found.environment == {"A": "1", "HF_TOKEN": "***", "B": "x y"}
    found = argv(path, json.dumps({"argv": ["vllm", "serve"], "env": {"A": 1}}))
    assert found.environment == {"A": "1"}


@pytest.mark.parametrize("key", ["argv", "argv_with_variables", "Cmd", "cmdline", "command_line", "command"])
def test_a_command_in_a_document_by_whatever_key(path: Path, key: str) -> None:
    assert argv(path, json.dumps({"note": "recorded", key: COMMAND.split()})).words[:3] == tuple(COMMAND.split()[:3])


@pytest.mark.parametrize("key", ["arguments", "commands_seen", "cmd"])
def test_words_that_are_no_command_line_are_none(path: Path, key: str) -> None:
    value = "python -m x" if key == "cmd" else COMMAND.split()
    assert isinstance(one(path, json.dumps({key: value})), Document)


TABLE = (Path(__file__).parents[1] / "data" / "gpu" / "r440.txt").read_text()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("begin", ["args=1\n", ""])
def test_the_gpus_that_a_job_prints_stand_beside_the_log_of_its_server(path: Path, begin: str, after: bool) -> None:
    """Before the server's first line only their size counts, for what was in use then is not what is in use now."""
    said = f"module load cuda\n{begin}pool=7\nready\n"
    path.write_text(said + TABLE if after else TABLE + said)
    gpus, log = read(path)
    assert isinstance(gpus.content, Gpus)
    assert isinstance(log.content, Log)
    assert [line.text for line in log.content.lines] == [*begin.split(), "pool=7"]
    (first, _) = gpus.content.gpus
    assert first.total_bytes == 16278 * 2**20
    assert (first.used_bytes is None, first.processes is None) == (not after, not after)
    assert bool(gpus.content.remark) is not after


@pytest.mark.parametrize("text", [TABLE, "pid, process_name, used_gpu_memory [MiB]\n77, x, 900 MiB\n"])
def test_a_process_called_like_a_line_of_a_log_makes_no_log(path: Path, text: str) -> None:
    content = one(path, text.replace("python", "pool=9").replace(", x,", ", pool=9,"))
    assert isinstance(content, Gpus)
    assert not content.remark


def test_gpus_without_a_log_are_what_they_were(path: Path) -> None:
    content = one(path, f"some job\n{TABLE}the end\n")
    assert isinstance(content, Gpus)
    assert (content.gpus[0].used_bytes, content.remark) == (11491 * 2**20, "")


def test_a_log_of_lines_without_a_time_may_begin_with_a_json_line(path: Path) -> None:
    content = one(path, '{"job": 7}\nloading\npool=9\n')
    assert isinstance(content, Log)
    assert [line.text for line in content.lines] == ["pool=9"]


@pytest.mark.parametrize("text", ['{"a": 1,\n "pool=9": "x",\n', '{"pool=9": 1, "b', '{\n  "a": [\n   {"pool=9": 1}\n'])
def test_a_document_that_was_cut_is_no_log(path: Path, text: str) -> None:
    content = one(path, text)
    assert isinstance(content, Failure)
    assert "cut off" in content.advice


PAGE = '# TYPE a gauge\na{x="{"} 1\nb 2\n'


@pytest.mark.parametrize("between", ["", "\n", "\n\n  \n"])
@pytest.mark.parametrize(
    ("texts", "kinds"),
    [
        (['{"a": 1}', '[{"b": 2}]'], [Document, Document]),
        (['{\n "a": 1\n}', PAGE], [Document, Samples]),
        ([PAGE, '{"a": 1}', "[]"], [Samples, Document, Document]),
        (['{"a": 1}', f"\n{PAGE}", '{"b": 2}'], [Document, Samples, Document]),
    ],
)
def test_several_answers_in_one_file(path: Path, texts: list[str], kinds: list[type], between: str) -> None:
    """As `for p in ...; do curl $URL/$p; done > file` leaves them."""
    path.write_text("".join(f"{text}{between}" if text.endswith("\n") else f"{text}\n{between}" for text in texts))
    found = read(path)
    assert [type(item.content) for item in found] == kinds
    assert {item.origin for item in found} == {found[0].origin}
    for item in found:
        assert not isinstance(item.content, Samples) or [s.value for s in item.content.samples] == [1, 2]


@pytest.mark.parametrize("text", ['{"a": 1}\n{"b": ', '{"a": 1}\nnothing known\n', '{"a": 1}\n' * 70])
def test_what_is_not_all_answers_is_refused(path: Path, text: str) -> None:
    assert isinstance(one(path, text), Failure)


def test_a_document_that_quotes_commands_is_no_command(path: Path) -> None:
    path.write_text(f"# How to serve\n\nStart it so:\n\n```sh\n{COMMAND}\n```\n")
    [item] = read(path)
    assert isinstance(item.content, Log)


@pytest.mark.parametrize(
    "said", ["llama_context: n_ctx         = 8192 args=1", "srv    load_model: args=1", "print_info: args=1"]
)
def test_a_command_line_with_its_log_under_it_is_both(path: Path, said: str) -> None:
    """What llama.cpp printed before 2026 has no time in it."""
    path.write_text(f"$ {COMMAND}\nloading\n{said}\n")
    command, printed = read(path)
    assert isinstance(command.content, Argv)
    assert isinstance(printed.content, Log)
    assert [line.text for line in printed.content.lines] == [said]
    path.write_text(f"{COMMAND}\n# {said}\n")
    assert [type(item.content) for item in read(path)] == [Argv]


@pytest.mark.parametrize("behind", [" # a comment", " > /tmp/x.log", " >> x.log 2>&1 &", " | tee x.log", "; # done"])
def test_what_stands_behind_a_command_is_none_of_its_words(path: Path, behind: str) -> None:
    assert argv(path, COMMAND + behind).words == argv(path, f"$ {COMMAND}{behind}").words == argv(path, COMMAND).words


def test_variables_that_a_script_sets_are_filled_in_and_others_stay(path: Path) -> None:
    found = argv(path, "A=8192\nexport B=/m\nvllm serve $B/x --one ${A} --two $A --three $C --four ${A:-1}\n")
    assert found.words == tuple("vllm serve /m/x --one 8192 --two 8192 --three $C --four ${A:-1}".split())


def test_a_secret_is_not_filled_in(path: Path) -> None:
    found = argv(path, "HF_TOKEN=hunter2hunter2\nvllm serve /m --some-header $HF_TOKEN")
    assert (found.words[-1], found.environment) == ("***", {"HF_TOKEN": "***"})


@pytest.mark.parametrize("program", ["C:\\vllm serve.exe", ".\\vllm serve", "..\\bin\\vllm serve"])
def test_the_backslashes_of_a_path_escape_nothing(path: Path, program: str) -> None:
    text = f"{program} C:\\models\\a --x 'a b'"
    assert argv(path, text).words == (*program.split(), "C:\\models\\a", "--x", "a b")


def test_two_commands_of_a_script_and_two_processes_of_ps_are_two_items(path: Path) -> None:
    path.write_text("vllm serve a\nvllm serve b\n")
    assert [item.origin.stream for item in read(path)] == ["command 1", "command 2"]
    path.write_text(" 11 vllm serve a\n 12 vllm serve a\n")
    assert [item.origin.pid for item in read(path)] == [11, 12]


@pytest.mark.parametrize(
    "text",
    [
        "[2026-02-27 14:33:22] args=1 vllm serve\npool=2\n",
        "INFO:     vllm serve\nargs=1\npool=2\n",
        "Feb 22 00:53:23 h env[3]: args=1\nFeb 22 00:53:23 h env[3]: pool=2\n",
        '{"log":"args=1\\n","stream":"stderr","time":"t"}\n{"log":"pool=2\\n","stream":"stderr","time":"t"}\n',
        '{"MESSAGE":"args=1"}\n{"MESSAGE":"pool=2"}\n',
        '{"msg":"args=1"}\n{"msg":"pool=2"}\n',
        "[11:19:46 TP0] args=1\n[11:19:47 TP0] pool=2",
        "words\nargs=1\npool=2\n",
        "llama-server  | args=1\n\nllama-server  | pool=2\n",
        "\0\0\0\0args=1\npool=2\n",
    ],
)
def test_logs(path: Path, text: str) -> None:
    content = one(path, text)
    assert isinstance(content, Log), content
    assert [re.sub(r".*(args=1|pool=2).*", r"\1", line.text) for line in content.lines] == ["args=1", "pool=2"]


@pytest.mark.parametrize(
    "text",
    [
        "( vllm serve a --port 1 & vllm serve b --port 2 ) >>both.log; sleep 3",
        "(vllm serve a --port 1 & vllm serve b --port 2)",
        "(cd /m && (vllm serve a --port 1)) & (vllm serve b --port 2 2>&1) | tee log",
    ],
)
def test_commands_in_a_group_of_a_shell_are_two(path: Path, text: str) -> None:
    path.write_text(text)
    found = [item.content.words for item in read(path) if isinstance(item.content, Argv)]
    assert [" ".join(words) for words in found] == ["vllm serve a --port 1", "vllm serve b --port 2"]


def test_a_pipe_behind_one_word_makes_no_log_of_a_script(path: Path) -> None:
    assert argv(path, f"env | sort\n{COMMAND}").words[0] == "python"


def test_one_record_of_a_collector_is_a_log(path: Path) -> None:
    assert isinstance(one(path, '{"log":"args=1\\n","stream":"stderr","time":"t"}\n'), Log)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    class Stdin:
        buffer = Pipe(b"x\nargs=1\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    (found,) = read("-")
    assert found.origin.target == "standard input"
    assert isinstance(found.content, Log)
    assert found.content.lines[0].number == 2


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc here")
def test_the_command_line_of_a_process() -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, "vllm serve", "/m"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (found,) = read(f"/proc/{process.pid}/cmdline")
        process.communicate()
    assert isinstance(found.content, Argv)
    assert found.content.words[-1] == "/m"


def test_flags() -> None:
    found = argv_of("--tp 4 --api-key hunter2-hunter2 --x '{\"a\": 1}'", Masker())
    assert found.origin.target == "--flags"
    assert isinstance(found.content, Argv)
    assert found.content.words == ("--tp", "4", "--api-key", "***", "--x", '{"a": 1}')


def test_flags_with_unbalanced_quotes() -> None:
    with pytest.raises(UsageError, match="no closing quotation"):
        argv_of("--x 'a", Masker())


LOG = b"words\nargs=1\npool=2\n"
PLAIN_FILES = {
    "log": LOG,
    "document": b'{"a": [1, 2]}',
    "metrics": b"# TYPE a gauge\na 1\n",
    "command": COMMAND.encode(),
}


@pytest.mark.parametrize("name", PLAIN_FILES)
@pytest.mark.parametrize("coding", ["utf-8", "utf-16"])
def test_a_file_packed_with_gzip_is_what_it_unpacks_to(tmp_path: Path, name: str, coding: str) -> None:
    data = PLAIN_FILES[name].decode().encode(coding)
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(data))
    [plain], [packed] = read(tmp_path / "plain"), read(tmp_path / "packed.gz")
    assert not plain.failed
    assert packed.content == plain.content
    assert packed.origin.target == str(tmp_path / "packed.gz")


def test_packed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(gzip.compress(LOG))

    monkeypatch.setattr(sys, "stdin", Stdin)
    (found,) = read("-")
    assert isinstance(found.content, Log)


def test_a_packed_log_of_many_parts_that_is_still_written(path: Path) -> None:
    parts = [b"".join(b"pool=%d\n" % n for n in range(begin, begin + 500)) for begin in (0, 500)]
    content = one(path, b"".join(map(gzip.compress, parts))[:-9])
    assert isinstance(content, Log)
    assert {line.text for line in content.lines} > {f"pool={n}" for n in range(900)}


@given(st.binary(min_size=1, max_size=2000), st.integers(0, 60))
def test_what_is_broken_in_a_packed_file_ends_it_and_nothing_else(noise: bytes, at: int) -> None:
    packed = bytearray(gzip.compress(LOG * 20))
    packed[at : at + len(noise)] = noise
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.gz")
        path.write_bytes(b"\x1f\x8b" + packed[2:])
        assert len(read(path)) >= 1


def test_a_bomb_is_not_unpacked(path: Path) -> None:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    parts = [packer.compress(bytes(2**24)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)]
    content = one(path, parts[0] + parts[1] * 63)
    assert isinstance(content, Failure)
    assert (content.status, content.reason) == ("too large", "it unpacks to more than 64 MiB, and is no log")
