"""Canaries: secrets put into every kind of evidence must not come out of the command, whatever it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

import pytest

from tests.evidence import DAY, start
from tests.observe.servers import free_port
from ullage.cli import main as cli

CANARIES: list[str] = []
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def canary(shape: str = "{}") -> str:
    """A secret that no other test has: 24 letters and digits, in the shape of a well-known kind of key."""
    number = len(CANARIES)
    CANARIES.append(f"cNry{number:02}Wq7LwT2vK9{number:02}mZx4Rb8")
    return shape.format(CANARIES[-1])


KEY = canary("live+{}/=")  # what --api-key-env names
HF = "hf_{}"
CHAIN = "http://operator:{}@10.0.0.1:30000"


def run(*arguments: str, key: str = KEY, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`ullage limits`, with the key in the environment and a token that is none of its business."""
    environment = {**os.environ, "ENGINE_KEY": key, "HF_TOKEN": canary(HF), "COLUMNS": "110"}
    command = [sys.executable, "-m", "ullage", "limits", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, input=stdin)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The same in this process, for what ends before anything is read."""

    def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["ullage", "limits", *arguments])
        monkeypatch.setenv("ENGINE_KEY", KEY)
        with pytest.raises(SystemExit) as ended:
            cli.run()
        code = ended.value.code
        return subprocess.CompletedProcess(arguments, code if isinstance(code, int) else 1, *capsys.readouterr())

    return run_here


def assert_hidden(done: subprocess.CompletedProcess[str]) -> None:
    """Neither the canaries nor halves of them are printed, be they wrapped over lines or in capitals."""
    printed = "".join((done.stdout + done.stderr).split()).lower()
    assert "traceback" not in printed, done.stderr
    assert printed
    leaked = [secret for secret in CANARIES for half in (secret[:14], secret[-10:]) if half.lower() in printed]
    assert not leaked, (leaked, done.stdout, done.stderr)


def transfer_failed(why: str) -> str:
    """A line whose words are printed: as a finding, and as a quote of the log."""
    failed = "Prefill transfer failed for request rank=0 req.rid='1' req.bootstrap_room=7 with exception"
    return f"[{DAY} 11:00:09 TP0] {failed} {why}"


def secrets_in_words() -> tuple[str, ...]:
    """What an engine, a client or a library may put into a line."""
    return (
        f"KVTransferError: Authorization: Bearer {canary()}",
        f"KVTransferError: --api-key {canary()} --port 1",
        f"KVTransferError: --admin-api-key={canary()}",
        f"KVTransferError: {canary(CHAIN)} is dead",
        f"KVTransferError: GET /x?api_key={canary()}&a=1",
        f"KVTransferError: {canary(HF)} was refused",
        f"KVTransferError: {json.dumps({'api_key': canary('a,{}'), 'b': 1})}",
        f"KVTransferError: {json.dumps(json.dumps({'admin_api_key': canary()}))}",
        f"KVTransferError: HF_TOKEN={canary('{};tail')}",
        f"KVTransferError: {{'ssl_keyfile_password': {canary()!r}, 'headers': [('cookie', {canary()!r})]}}",
    )


def server_log() -> str:
    secret_arguments = {
        "api_key": canary(),
        "admin_api_key": canary("{}, with 'quotes'"),
        "ssl_keyfile_password": canary(),
        "served_model_name": canary(HF),
        "dist_init_addr": canary("tcp://user:{}@10.0.0.1:5000"),
        "preferred_sampling_params": json.dumps({"api_key": canary(), "max_new_tokens": 64}),
    }
    lines = start(100_000, disaggregation_mode="prefill", **secret_arguments)
    return "\n".join((*lines, *(transfer_failed(words) for words in secrets_in_words()))) + "\n"


def journal() -> str:
    began = f"Nov 29 09:59:59 gpu-1 systemd[1]: Started SGLang --api-key {canary()} ({canary(CHAIN)})."
    lines = (f"Nov 29 10:00:00 gpu-1 sglang[4711]: {line}" for line in server_log().splitlines())
    return "\n".join((began, *lines))


def records() -> str:
    """A container's log, whose last record is cut within a secret."""
    lines = [
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": f"{DAY}T10:00:00Z"})
        for line in server_log().splitlines()
    ]
    cut = json.dumps({"log": transfer_failed(f"HTTPError: api_key='{canary()}'\n"), "stream": "stderr", "time": ""})
    return "\n".join((*lines, cut[: cut.index("HTTPError") + 35]))


def server_info() -> dict[str, object]:
    state = {"memory_usage": {"token_capacity": 90_000}, "api_key": canary(), "admin_api_key": canary()}
    return {
        "model_path": canary("https://user:{}@hub.example/model?token=") + canary(),
        "served_model_name": canary(HF),
        "api_key": canary(),
        "admin_api_key": canary(),
        "ssl_keyfile_password": canary(),
        "host": "0.0.0.0",
        "preferred_sampling_params": {"headers": {"authorization": canary("Token {}")}},
        "internal_states": [state, state | {"memory_usage": {"token_capacity": 80_000}}],
        "version": canary("0.5.9+https://ci:{}@git.example"),
    }


def metrics_page() -> str:
    labels = f'model_name="{canary(HF)}",api_key="{canary()}",url="{canary(CHAIN)}",dp_rank="0"'
    broken = f'sglang:odd{{model_name="small",note="of a model that has a long name",api_key="{canary()}'
    return f"sglang:num_running_reqs{{{labels}}} 3\nsglang:max_total_num_tokens{{{labels}}} 90000\n{broken}\n"


def workers() -> dict[str, object]:
    urls = (canary(CHAIN), canary("http://10.0.0.2:30001?api_key={}"))
    listed = [{"url": url, "worker_type": "decode", "is_healthy": False, "api_key": canary()} for url in urls]
    return {"workers": listed, "total": 2}


def router_log() -> str:
    urls = f'prefill_urls: [("{canary(CHAIN)}", Some(8998))], decode_urls: ["{canary(CHAIN)}"]'
    line = f"Starting router on 0.0.0.0:31000 | mode: PrefillDecode {{ {urls} }}"
    return f"{DAY} 20:59:37  INFO smg::server: src/server.rs:794: {line}\n"


def router_command() -> str:
    urls = f"--prefill {canary(CHAIN)},8998 --decode {canary(CHAIN)}"
    keys = f"--api-key {canary()} --control-plane-api-keys a:b:{canary()} c:d:{canary()}"
    return f"API_KEY={canary('x;{}')} python -m sglang_router.launch_router --pd-disaggregation {urls} {keys}".replace(
        ";", "\\;"
    )


def command() -> str:
    keys = f"--api-key={canary()} --admin-api-key '{canary('a b {}')}' --ssl-keyfile-password {canary()}"
    rest = f"--model-path {canary('https://user:{}@hub.example/model')} --page-size {canary(HF)}"
    return f"HF_TOKEN={canary(HF)} WANDB_API_KEY={canary()} python -m sglang.launch_server {keys} {rest}"


def written(folder: Path) -> list[str]:
    """Every kind of file."""
    files = {
        "sglang.log": server_log(),
        "journal.log": journal(),
        "container.log": records(),
        "server_info.json": json.dumps(server_info()),
        "server_info.txt": repr(server_info()),
        "metrics.txt": metrics_page(),
        "workers.json": json.dumps(workers()),
        "router.log": router_log(),
        "router.sh": f"export API_KEY={canary()}\n{router_command()}\n",
        "unit.service": f"[Service]\nEnvironment=HF_TOKEN={canary(HF)}\nExecStart={command()}\n",
        "argv.json": json.dumps(
            {"argv": ["python", "-m", "sglang.launch_server", "--api-key", canary()], "env": {"A_TOKEN": canary()}}
        ),
        "half.json": json.dumps(server_info())[:150],
        "other.json": json.dumps({"detail": canary(HF), "api_key": canary()}),
        "words.txt": f"no metrics, no log: api_key={canary()} " + canary(HF),
    }
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return [str(folder / name) for name in files]


MODES: tuple[tuple[str, ...], ...] = ((), ("--json",), ("--sources",))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_files_and_flags(tmp_path: Path, mode: tuple[str, ...]) -> None:
    flags = [word for text in (command(), router_command()) for word in ("--flags", text)]
    done = run(*written(tmp_path), *flags, *mode)
    assert done.returncode == 0, done.stderr
    assert "***" in done.stdout
    assert_hidden(done)


@pytest.mark.parametrize("text", [server_log, journal, records, metrics_page], ids=lambda make: make.__name__)
def test_standard_input(text: Callable[[], str]) -> None:
    done = run("-", "--sources", stdin=text())
    assert done.returncode == 0, done.stderr
    assert_hidden(done)


Page = tuple[int, str]
Answer = Callable[[str, Mapping[str, str]], Page]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A server on loopback; `answer` gets the path and the headers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answer(self.path, dict(self.headers.items()))
            self.send_response(status)
            if status == 307:
                self.send_header("Location", text)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def sound(path: str, headers: Mapping[str, str]) -> Page:
    """A server that tells everything, and echoes what it is asked with."""
    pages = {
        "/server_info": json.dumps(server_info() | {"served_model_name": headers.get("Authorization", "")}),
        "/v1/loads": json.dumps({"loads": [{"dp_rank": 0, "num_running_reqs": 1, "api_key": canary()}]}),
        "/v1/models": json.dumps({"data": [{"id": canary(HF), "owned_by": "sglang", "max_model_len": 32768}]}),
        "/metrics": metrics_page(),
    }
    return (200, pages[path]) if path in pages else (404, json.dumps({"detail": f"no {path}", "key": canary()}))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_server_that_echoes_its_key(mode: tuple[str, ...]) -> None:
    with serving(sound) as address:
        done = run(f"http://{address}", "--api-key-env", "ENGINE_KEY", *mode)
        assert done.returncode == 0, done.stderr
        assert_hidden(done)


def guarded(path: str, headers: Mapping[str, str]) -> Page:
    """Open are the metrics; all else is refused, with what was sent."""
    return sound(path, headers) if path == "/metrics" else (401, echoed(headers))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_server_that_refuses_the_key(mode: tuple[str, ...]) -> None:
    with serving(guarded) as address:
        done = run(f"http://{address}", "--api-key-env", f"{address}=ENGINE_KEY", *mode)
        assert done.returncode == 0, done.stderr
        assert "refused the key" in " ".join(done.stdout.split())
        assert_hidden(done)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_metrics_page_elsewhere_that_has_a_password(mode: tuple[str, ...]) -> None:
    with serving(sound) as address, serving(guarded) as other:
        pages = (
            canary("http://operator:{}@") + other,
            f"http://{canary('operator:{}')}@127.0.0.1:{free_port()}/metrics",
        )
        for page in pages:
            done = run(f"http://{address}", "--metrics", page, "--api-key-env", "ENGINE_KEY", *mode)
            assert done.returncode == 0, done.stderr
            assert_hidden(done)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_servers_that_differ_in_a_secret(mode: tuple[str, ...]) -> None:
    """What differs from call to call is quoted."""

    def another(path: str, headers: Mapping[str, str]) -> Page:
        told = {
            "served_model_name": canary(HF),
            "dist_init_addr": canary(CHAIN),
            "version": headers.get("Authorization"),
        }
        return (200, json.dumps(server_info() | told)) if path == "/server_info" else sound(path, headers)

    with serving(another) as address:
        done = run(f"http://{address}", "--api-key-env", "ENGINE_KEY", *mode)
        assert done.returncode == 0, done.stderr
        assert_hidden(done)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_router_whose_workers_have_passwords(mode: tuple[str, ...]) -> None:
    def router(path: str, _: Mapping[str, str]) -> Page:
        return (200, json.dumps(workers())) if path == "/workers" else (404, "")

    with serving(router) as address:
        done = run(f"http://{address}", "--flags", router_command(), *mode)
        assert done.returncode == 0, done.stderr
        assert_hidden(done)


def echoed(headers: Mapping[str, str]) -> str:
    return json.dumps({"error": f"bad key {KEY}", "you sent": dict(headers), "api_key": canary(), "url": canary(CHAIN)})


TROUBLES: dict[str, Answer] = {
    "401": lambda _, headers: (401, echoed(headers)),
    "403 in words": lambda _, headers: (
        403,
        f"no: {headers.get('Authorization')}; Incorrect API key: {KEY}, {canary(HF)}",
    ),
    "500": lambda _, headers: (500, f"failed: {echoed(headers)!r}"),
    "half JSON": lambda _, headers: (200, echoed(headers)[:-1]),
    "words": lambda *_: (200, f"I am a teapot, and to tell you the truth I do not know what to do with {KEY}"),
    "redirect": lambda *_: (307, canary("http://elsewhere.example:1/x?token={}&a=1")),
    "redirect to a user": lambda *_: (307, canary("http://user:{}@elsewhere.example:1/")),
    "broken metrics": lambda *_: (200, metrics_page() + f"nonsense {KEY} api_key: {canary()} is no metric\n" * 3),
}


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_answers_that_are_trouble(mode: tuple[str, ...]) -> None:
    """Each is asked with the key, and again with a password in its URL."""
    user = canary("operator:pa%20ss{}")
    CANARIES.append(b64encode(unquote(user).encode()).decode())
    with ExitStack() as servers:
        addresses = [servers.enter_context(serving(answer)) for answer in (*TROUBLES.values(), *TROUBLES.values())]
        plain, guarded = addresses[: len(TROUBLES)], addresses[len(TROUBLES) :]
        urls = [*(f"http://{address}" for address in plain), *(f"http://{user}@{address}" for address in guarded)]
        assert_hidden(run(*urls, "--api-key-env", "ENGINE_KEY", *mode))


def unreachable(user: str) -> tuple[str, ...]:
    return (
        f"http://{user}@127.0.0.1:{free_port()}",  # refused
        f"{user}@127.0.0.1:{free_port()}",  # no scheme
        f"ftp://{user}@127.0.0.1:1",
        f"http://{user}@127.0.0.1:99999",
        f"http://{user}@127.0.0.1:1/?token={user}",
        f"http://{user} x@127.0.0.1:1",
        f"http://operator:a/{user.partition(':')[2]}@127.0.0.1:1",
        f"http://{user}@[::1",
    )


@pytest.mark.parametrize("case", range(8))
def test_targets_that_cannot_be_reached(case: int, here: Run) -> None:
    done = here(unreachable(canary("operator:{}"))[case], "--timeout", "1")
    assert done.returncode in (2, 3)
    assert_hidden(done)


def test_tls_with_a_server_that_speaks_none(here: Run) -> None:
    with serving(sound) as address:
        done = here(f"https://{canary('operator:{}')}@{address}", "--api-key-env", "ENGINE_KEY")
        assert done.returncode == 3
        assert_hidden(done)


def words_that_are_off() -> tuple[tuple[str, ...], ...]:
    return (
        ("--flags", f"python -m sglang.launch_server --api-key '{canary()}"),
        ("--flags", f"something else --api-key {canary()} {canary(HF)}"),
        ("http://127.0.0.1:1", "--api-key", canary()),
        ("http://127.0.0.1:1", f"--api-key={canary()}"),
        ("http://127.0.0.1:1", "--api-key-env", canary("sk-{}")),
        ("http://127.0.0.1:1", "--api-key-env", canary()),
        ("--api-key-env", f"http://{canary('operator:{}')}@127.0.0.1:1=NOT_SET_ANYWHERE", "http://127.0.0.1:1"),
    )


@pytest.mark.parametrize("case", range(7))
def test_words_that_are_off(case: int, here: Run) -> None:
    done = here(*words_that_are_off()[case], "--timeout", "1")
    assert done.returncode in (2, 3)
    assert_hidden(done)


def test_a_key_goes_to_no_other_port_that_begins_alike(here: Run) -> None:
    port = str(free_port())
    named = f"http://127.0.0.1:{port[:-1]}=NOT_SET_ANYWHERE"
    assert here(f"http://127.0.0.1:{port}", "--api-key-env", named).returncode == 3
    assert here(f"http://127.0.0.1:{port[:-1]}", "--api-key-env", named).returncode == 2


def specs() -> tuple[str, ...]:
    return (
        f'[[target]]\nurl = "http://127.0.0.1:1"\napi_key = "{canary()}"\n',
        f'[[target]]\nurl = "http://127.0.0.1:1\napi_key_env = "{canary()}"\n',
        f'[[target]]\nurl = "ftp://{canary("operator:{}")}@127.0.0.1:1"\n',
        f'[[target]]\nurl = "http://{canary("operator:{}")}@127.0.0.1:1"\napi_key_env = "{canary("sk-{}")}"\n',
        f'[[target]]\nurl = ["http://{canary("operator:{}")}@127.0.0.1:1"]\n',
        f"[[target]]\nfile = 5\ncacert = 6\n# {canary()}\n",
        f'target = "{canary()}"\n',
        f'[[target]]\n"{canary(HF)}" = 1\n',
        f'[[target]]\nurl = "http://127.0.0.1:1"\nflags = "--api-key {canary()}"\n',
        f'[[target]]\nurl = "http://127.0.0.1:1"\nflags = "--api-key {canary()} \\"no end"\n',
    )


@pytest.mark.parametrize("case", range(10))
def test_a_spec_that_is_off(tmp_path: Path, case: int, here: Run) -> None:
    spec = tmp_path / "ullage.toml"
    spec.write_text(specs()[case], "utf-8")
    done = here(str(spec), "--timeout", "1")
    assert done.returncode in (2, 3)
    assert_hidden(done)
