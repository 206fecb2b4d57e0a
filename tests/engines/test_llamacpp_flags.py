"""llama-server's flags and environment: how many slots there are, and whether they share the context."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest

from tests.evidence import argv, document
from ullage.capacity.request import Shape
from ullage.deployment import reach_of, server_limits, total_context
from ullage.engines.llamacpp.flags import is_llama_server
from ullage.engines.server import Role, Server
from ullage.evidence import Argv
from ullage.masking import Masker
from ullage.observe.files import argv_of

from .llamacpp import all_of, pool_sizes, server_of, values

M = "llama-server -m /models/small.gguf"


def asked(flags: str, environment: Mapping[str, str] | None = None) -> Server:
    item = argv(f"{M} {flags}")
    assert isinstance(item.content, Argv)
    return server_of(item._replace(content=item.content._replace(environment=environment or {})))


@pytest.mark.parametrize(
    ("flags", "slots", "each", "total"),
    [
        ("-c 1024 -np 2", 2, 512, 1024),
        ("-c 1024 -np 3", 3, 512, 1536),
        ("-c 1024", 4, 1024, 1024),
        ("-c 1000 -np -1", 4, 1024, 1024),
        ("-c 1024 -np 4 -kvu", 4, 1024, 1024),
        ("--ctx-size 1024 --parallel 4 --kv-unified", 4, 1024, 1024),
        ("-kvu -c 1024 -np 4 -no-kvu", 4, 256, 1024),
        ("--kv-unified-per-slot 256", 4, 256, 1024),
        ("--kv-unified-per-slot 256 -np 2", 2, 256, 512),
        ("-c 1024 --kv-unified-per-slot 512", 4, 512, 1024),
        ("-c 16384 -np 1", 1, 16384, 16384),
    ],
)
def test_slots_and_context(flags: str, slots: int, each: int, total: int) -> None:
    server = asked(flags)
    stated = [s.effective.value for s in server.settings if s.label in ("slots", "context of a slot")]
    assert stated == [slots, each]
    assert total_context(server).value == total
    assert reach_of(server).tokens.value == each - 1


@pytest.mark.parametrize("flag", ["-fa", "-fa on", "--flash-attn", "--flash-attn auto"])
@pytest.mark.parametrize("order", ["{} -np 2 -c 8192", "-np 2 {} -c 8192", "-np 2 -c 8192 {}"])
def test_flash_attention_takes_no_other_flag_for_its_value(flag: str, order: str) -> None:
    """It had no value until August 2025, and may have one since."""
    assert pool_sizes(asked(order.format(flag))) == {"slots": (2, 1), "KV pool": (4096, 2)}


@pytest.mark.parametrize("flag", ["-m", "--model", "-hf"])
def test_a_model_that_a_shell_variable_names_makes_no_router(flag: str) -> None:
    server = server_of(argv(f"llama-server {flag} $MODEL -c 8192 -np 2"))
    assert (server.role, pool_sizes(server)["slots"]) == (Role.UNIFIED, (2, 1))


def test_an_underscore_in_a_long_flag_is_a_hyphen() -> None:
    assert pool_sizes(asked("--ctx_size 8192 --parallel 2 --kv_unified"))["KV pool"] == (8192, 1)


SERVED = "-m /models/small.gguf -c 8192 -np 2"


@pytest.mark.parametrize(
    "command",
    [
        f"llama serve {SERVED}",
        f"/usr/local/bin/llama serve {SERVED}",
        f"docker run --gpus all ghcr.io/ggml-org/llama.cpp:full-cuda --server {SERVED}",
        f"docker run ghcr.io/ggml-org/llama.cpp:full -s {SERVED}",
        f"docker run ghcr.io/ggml-org/llama.cpp:server-cuda@sha256:0123 {SERVED}",
        "docker run -e LLAMA_ARG_CTX_SIZE=8192 --env=LLAMA_ARG_N_PARALLEL=2 -eLLAMA_ARG_MODEL=/models/small.gguf"
        " ghcr.io/ggml-org/llama.cpp:server",
        f"env LLAMA_ARG_CTX_SIZE=4096 LLAMA_ARG_N_PARALLEL=4 llama-server {SERVED}",
        f"C:\\llama\\llama-server.exe {SERVED}",
        f".\\build\\bin\\llama-server {SERVED}",
    ],
)
def test_every_way_to_launch_it(command: str) -> None:
    [server] = all_of([argv_of(command, Masker())])
    assert pool_sizes(server) == {"slots": (2, 1), "KV pool": (4096, 2)}
    assert server.figures["model_path"].value == "/models/small.gguf"


@pytest.mark.parametrize("command", ["ollama serve -m small", "docker run ghcr.io/ggml-org/llama.cpp:full --run -m a"])
def test_what_starts_no_llama_server(command: str) -> None:
    assert not is_llama_server(command.split())


def test_the_environment_counts_where_no_flag_does() -> None:
    environment = {"LLAMA_ARG_CTX_SIZE": "2048", "LLAMA_ARG_N_PARALLEL": "2", "LLAMA_ARG_KV_UNIFIED": "1"}
    assert pool_sizes(asked("", environment))["KV pool"] == (2048, 1)
    assert pool_sizes(asked("-c 4096", environment))["KV pool"] == (4096, 1)
    environment["LLAMA_ARG_NO_KV_UNIFIED"] = "1"
    assert pool_sizes(asked("", environment))["KV pool"] == (1024, 2)


def test_without_a_context_the_pool_is_not_known_and_says_why() -> None:
    for flags, why in (("-np 2", "--fit"), ("-c 0 -np 2", "training context")):
        server = asked(flags)
        found = server_limits(server, Shape(4096))
        assert found.admits.value == 2
        assert found.at_most
        assert why in reach_of(server).tokens.note


def test_what_is_no_value_is_said() -> None:
    server = asked("-c $CTX -np many")
    assert "-c is $CTX, a shell variable" in server.notes
    assert "-np is many, no value of it" in server.notes
    assert "requested_n_ctx" not in server.figures


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("/opt/llama.cpp/build/bin/llama-server -m x", True),
        (r"C:\\bin\\llama-server.exe -m x", True),
        ("numactl -N 0 llama-server -m x", True),
        ("docker run -m 8g ghcr.io/ggml-org/llama.cpp:server-cuda -m x", True),
        ("llama-cli -m x", False),
        ("docker run llama.cpp:light -m x", False),
    ],
)
def test_which_commands_are_llama_servers(command: str, is_one: bool) -> None:
    assert is_llama_server(shlex.split(command)) is is_one


def test_flags_before_the_program_are_not_its_own() -> None:
    server = server_of(argv("docker run -c 512 -m 8g ghcr.io/ggml-org/llama.cpp:server -m /models/a.gguf -c 2048"))
    assert (server.says("model_path"), server.says("requested_n_ctx")) == ("/models/a.gguf", 2048)


def test_a_command_without_a_model_is_a_routers() -> None:
    server = server_of(argv("llama-server --models-dir /models --models-max 2 -c 8192"))
    assert (server.role, server.pools) == (Role.ROUTER, ())
    assert any("router mode" in note for note in server.notes)
    for model in ("-hf org/model:Q4", "--model-url http://a/b.gguf", "--gpt-oss-20b-default"):
        assert server_of(argv(f"llama-server {model}")).role is Role.UNIFIED


def test_flags_settle_what_props_leaves_open() -> None:
    props = {"default_generation_settings": {"n_ctx": 1024}, "total_slots": 4, "model_path": "/models/small.gguf"}
    url = "http://127.0.0.1:8080"
    item = document(url, "props", props)
    open_ = server_limits(server_of(item), Shape(500, 500)).safe
    assert (open_.least, open_.most) == (1, 4)
    assert server_limits(server_of(item, argv(f"{M} -c 1024")), Shape(500, 500)).safe.value == 1
    divided = server_limits(server_of(item, argv(f"{M} -c 4096 -np 4")), Shape(500, 500)).safe
    assert (divided.value, divided.low) == (4, None)


def test_host_memory_as_asked_for_or_by_default() -> None:
    figures = values(asked("-c 1024 --cache-ram 512 --ctx-checkpoints 4").figures)
    assert (figures["cache_ram_mib"], figures["ctx_checkpoints"]) == (512, 4)
    assert values(asked("-c 1024").figures)["cache_ram_mib"] == 8192
    [unbounded] = [s for s in asked("-c 1024 --cache-ram -1").settings if s.label.startswith("saved prompts")]
    assert "no limit" in unbounded.effective.note
