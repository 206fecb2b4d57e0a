"""What a process is, by its command line: the server itself, never what only speaks of one."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.engines.llamacpp.flags import is_llama_server
from ullage.engines.programs import command_of, door_of, environment_of, launched, program_of, readable, title_of
from ullage.engines.router.flags import is_router
from ullage.engines.sglang.flags import is_sglang
from ullage.engines.vllm.arguments import is_vllm

SERVERS = {
    "python -m sglang.launch_server --model-path m --port 30000": "SGLang",
    "/venv/bin/python3.11 -m sglang.launch_server": "SGLang",
    "python3 -u -X faulthandler -W ignore -O -m sglang.launch_server": "SGLang",
    "python3 -Xdev -OO -um sglang.launch_server": "SGLang",
    "/usr/bin/python3.13t -msglang.launch_server": "SGLang",
    "python3 /opt/sglang/python/sglang/launch_server.py --tp 4": "SGLang",
    "python3 sglang/launch_server.py": "SGLang",
    "/venv/bin/python /venv/bin/sglang serve --model-path m": "SGLang",
    "sglang serve --model-path m": "SGLang",
    "python -m ullage.tank.worker --port 30001": "SGLang",
    "sglang::server": "SGLang",
    "python3 -m sglang_router.launch_router --port 8000": "sglang-router",
    "python3 -m sglang_router launch --port 8000": "sglang-router",
    "python3 -m sglang_router.launch_server --model-path m --dp-size 4": "sglang-router",
    "/venv/bin/python3.11 /venv/bin/smg launch --worker-urls http://a:1": "sglang-router",
    "smg --worker-urls http://a:1": "sglang-router",
    "sglang-router launch --worker-urls http://a:1": "sglang-router",
    "/venv/bin/python3 /venv/bin/sglang-router --worker-urls http://a:1": "sglang-router",
    "sgl-model-gateway --port 3001": "sglang-router",
    "python -m ullage.tank.up.keyed_router --port 8000": "sglang-router",
    "sglang::router": "sglang-router",
    "vllm serve Qwen/Qwen3-8B": "vLLM",
    "/venv/bin/python3.11 /venv/bin/vllm serve Qwen/Qwen3-8B --port 8000": "vLLM",
    "python -m vllm.entrypoints.openai.api_server --model m": "vLLM",
    "python /src/vllm/entrypoints/openai/api_server.py --model m": "vLLM",
    "python -m vllm.entrypoints.cli.main serve m": "vLLM",
    "llama-server -m model.gguf": "llama.cpp",
    "/opt/llama.cpp/build/bin/llama-server -m model.gguf --port 8081": "llama.cpp",
    "./llama-server-cuda -m model.gguf": "llama.cpp",
    "llama serve -m model.gguf": "llama.cpp",
    "C:\\\\bin\\\\llama-server.exe -m model.gguf": "llama.cpp",
}
OTHERS = """bash -c 'python -m sglang.launch_server --port 30000'
sh -c 'exec vllm serve m'
sudo -u llm python -m sglang.launch_server
env CUDA_VISIBLE_DEVICES=0 vllm serve m
nohup llama-server -m model.gguf
tmux new-session -d 'vllm serve m'
SCREEN -dmS llm vllm serve m
docker run --gpus all lmsysorg/sglang python3 -m sglang.launch_server
podman run vllm/vllm-openai serve m
ssh gpu1 vllm serve m
numactl --membind 0 python -m sglang.launch_server
taskset -c 0-7 vllm serve m
nice -n 5 llama-server -m model.gguf
timeout 3600 vllm serve m
uv run vllm serve m
watch 'ps aux | grep sglang.launch_server'
grep -r sglang.launch_server .
vim /opt/sglang/launch_server.py
tail -f /var/log/vllm/serve.log
less llama-server.log
python -c 'from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=9)' --multiprocessing-fork
python -c 'import sglang.launch_server'
python -m pytest tests/test_sglang.launch_server.py
python -m http.server sglang.launch_server
python3 bench.py -m sglang.launch_server
python -m sglang.bench_serving --backend sglang
python -m sglang.check_env
python -m sglang.launch_server_docs
vllm bench serve --model m
vllm chat --url http://localhost:8000/v1
python -m vllm.entrypoints.openai.run_batch -i in -o out
llama-cli -m llama-server.gguf
llama-server.sh
llama run model serve
llama-server --help
vllm serve --help
smg
smg status
python
python -m
python -X
llama-serverless
xsglang serve
systemd-run --unit llm vllm serve m
journalctl -u llama-server
sglang::scheduler_TP0""".splitlines()


@pytest.mark.parametrize("line", SERVERS)
def test_a_server_is_recognised(line: str) -> None:
    assert program_of(shlex.split(line)) == SERVERS[line]


@pytest.mark.parametrize("line", OTHERS)
def test_what_starts_or_mentions_a_server_is_none(line: str) -> None:
    assert program_of(shlex.split(line)) == ""


@pytest.mark.parametrize("line", [line for line in SERVERS if "::" not in line])
def test_the_engines_can_read_the_flags_of_what_is_recognised(line: str) -> None:
    words = readable(shlex.split(line))
    reads = {"SGLang": is_sglang, "vLLM": is_vllm, "llama.cpp": is_llama_server, "sglang-router": is_router}
    assert [program for program, is_its in reads.items() if is_its(words)] == [SERVERS[line]]


def test_the_readable_line_keeps_the_flags_and_the_model() -> None:
    line = "/venv/bin/python3 -u /venv/bin/vllm serve Qwen/Qwen3-8B --port 8000"
    assert readable(line.split()) == ("vllm", "serve", "Qwen/Qwen3-8B", "--port", "8000")
    assert readable("smg launch --port 1".split()) == ("sglang-router", "launch", "--port", "1")
    assert readable(["grep", "vllm"]) == ("grep", "vllm")


@pytest.mark.parametrize(
    ("title", "program"),
    [
        ("sglang::scheduler_TP0", "SGLang"),
        ("sglang::scheduler_DP0_TP1", "SGLang"),
        ("sglang::detokenizer", "SGLang"),
        ("sglang::data_parallel_controller", "SGLang"),
        ("sglang::tokenizer_worker:812", "SGLang"),
        ("sglang::schedul", "SGLang"),  # all that fits into /proc/PID/comm
        ("VLLM::EngineCore", "vLLM"),
        ("VLLM::EngineCore_DP0", "vLLM"),
        ("VLLM::Worker_TP0", "vLLM"),
        ("VLLM::APIServer_0", "vLLM"),
        ("VLLM::DPCoordinator", "vLLM"),
        ("team-a::EngineCore_DP1", "vLLM"),
        ("team-a::Worker_PP0_TP1", "vLLM"),
        ("ray::RayWorkerWrapper", ""),
        ("ray::Worker.run", ""),
        ("std::vector", ""),
        ("sglang", ""),
        ("vllm", ""),
        ("see sglang::scheduler", ""),
        ("", ""),
    ],
)
def test_titles(title: str, program: str) -> None:
    assert title_of(title) == program


@given(st.lists(st.text(max_size=12), max_size=8))
def test_no_words_raise(words: list[str]) -> None:
    program, head = command_of(words)
    assert 0 <= head <= len(words)
    assert bool(program) == bool(head)
    readable(words)
    title_of(" ".join(words))
    door_of(program or "vLLM", words, {})


INTERPRETED = st.sampled_from(
    ["-u", "-O", "-X", "-W", "-c", "-m", "-", "--", "-um", "-Xa", "--x", "vllm", "serve", "x"]
)


@given(st.lists(INTERPRETED, max_size=6))
def test_no_options_of_python_raise(words: list[str]) -> None:
    program, head = command_of(["python3", *words])
    assert program in ("", "vLLM")
    assert head <= len(words) + 1


@given(st.sampled_from(["vllm", "llama-server", "sglang-router", "smg"]), st.text("abcxyz09", min_size=1, max_size=5))
def test_a_name_inside_another_word_is_no_server(name: str, extra: str) -> None:
    assert program_of([extra + name, "serve"]) == ""
    assert program_of([name + extra, "serve"]) == ""


@given(st.sampled_from(sorted(SERVERS)), st.sampled_from(["bash", "-bash", "cat", "strace", "perf"]))
def test_a_server_behind_another_program_is_that_program(line: str, first: str) -> None:
    assert program_of([first, *shlex.split(line)]) == ""


@pytest.mark.parametrize(
    ("program", "line", "ports"),
    [
        ("SGLang", "sglang serve", (30000,)),
        ("SGLang", "sglang serve --port 1 --port=31000", (31000,)),
        ("vLLM", "vllm serve m", (8000,)),
        ("llama.cpp", "llama-server", (8080,)),
        ("sglang-router", "smg launch", (30000, 3001)),
        ("vLLM", "vllm serve m --port $PORT", (8000,)),
        ("vLLM", "vllm serve m --port 70000", (8000,)),
        ("vLLM", "vllm serve m --port", (8000,)),
    ],
)
def test_the_port_is_the_named_one_or_the_engines_own(program: str, line: str, ports: tuple[int, ...]) -> None:
    door = door_of(program, line.split(), {})
    assert door.ports == ports
    assert door.named == (ports[0] == 31000)


def test_llama_servers_variables_yield_to_its_flags() -> None:
    variables = {"LLAMA_ARG_PORT": "9001", "LLAMA_ARG_HOST": "0.0.0.0"}
    assert door_of("llama.cpp", ["llama-server"], variables)[:3] == ("0.0.0.0", (9001,), True)
    assert door_of("llama.cpp", ["llama-server", "--port", "9002"], variables).ports == (9002,)
    assert door_of("vLLM", ["vllm", "serve"], variables).ports == (8000,)


def test_sockets_tls_and_the_ports_beside() -> None:
    assert door_of("llama.cpp", "llama-server --host /run/llama.sock".split(), {}).socket == "/run/llama.sock"
    assert door_of("vLLM", "vllm serve m --uds /run/vllm.sock".split(), {}).socket == "/run/vllm.sock"
    assert door_of("SGLang", "sglang serve --ssl-certfile c --ssl-keyfile k".split(), {}).tls
    assert door_of("llama.cpp", "llama-server --ssl-key-file k --ssl-cert-file c".split(), {}).tls
    prefill = door_of("SGLang", "sglang serve --disaggregation-bootstrap-port 9000".split(), {})
    assert prefill.others == {9000, 8998}
    assert door_of("sglang-router", "smg launch --prometheus-port 9000".split(), {}).others == {9000, 29000}
    assert not prefill.tls


def test_only_variables_that_bear_on_a_server_are_kept() -> None:
    kept = "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES NCCL_DEBUG PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF".split()
    kept += "OMP_NUM_THREADS HF_HUB_OFFLINE HIP_VISIBLE_DEVICES".split()
    own = {"SGLang": "SGLANG_X", "vLLM": "VLLM_USE_V1", "llama.cpp": "LLAMA_ARG_CTX_SIZE", "sglang-router": "SGLANG_X"}
    for program, name in own.items():
        pattern = environment_of(program)
        assert all(pattern.match(variable) for variable in [*kept, name])
        unkept = "HOME PATH HF_TOKEN AWS_SECRET_ACCESS_KEY OPENAI_API_KEY MY_VLLM_KEY HF_HUB_OFFLINE_X".split()
        assert not any(pattern.match(variable) for variable in unkept)
        assert [p for p, n in own.items() if pattern.match(n) and n != name] == []


@pytest.mark.parametrize(
    ("line", "environment", "words"),
    [
        ("exec vllm serve m --port 1", {}, "vllm serve m --port 1"),
        ("setsid nohup vllm serve m", {}, "vllm serve m"),
        ("env -u X VLLM_A=1 B=x=y vllm serve m", {"VLLM_A": "1", "B": "x=y"}, "vllm serve m"),
        ("numactl --interleave=all /venv/bin/python -m sglang.launch_server --tp 2", {}, None),
        ("sudo -u llm -- llama-server -m m.gguf", {}, "llama-server -m m.gguf"),
        ("vllm serve m --served-model-name llama-server", {}, "vllm serve m --served-model-name llama-server"),
        ("/opt/start --port 1 A=1", {}, "/opt/start --port 1 A=1"),
        ("", {}, ""),
    ],
)
def test_what_stands_before_a_program_is_none_of_its_flags(
    line: str, environment: dict[str, str], words: str | None
) -> None:
    expected = "/venv/bin/python -m sglang.launch_server --tp 2" if words is None else words
    assert launched(shlex.split(line)) == (environment, tuple(shlex.split(expected)))
