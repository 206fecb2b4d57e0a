"""vLLM's arguments on a command line, in its log and in its development endpoint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence import argv, document
from ullage.engines.server import Role
from ullage.engines.vllm.arguments import NUMBERS, SWITCHES, printed
from ullage.engines.vllm.read import facts_of

URL = "http://127.0.0.1:8000"


def asked(command: str) -> dict[str, object]:
    [facts] = facts_of(argv(command))
    return {name: figure.value for name, figure in facts.args.items()}


@pytest.mark.parametrize(
    ("command", "values"),
    [
        ("vllm serve Qwen/Qwen3-8B", {"model": "Qwen/Qwen3-8B"}),
        ("vllm serve --port 8001 --model a/b", {"model": "a/b", "port": 8001}),
        ("python -m vllm.entrypoints.openai.api_server --model a/b -tp 4", {"model": "a/b", "tensor_parallel_size": 4}),
        ("vllm serve m -tp=2 -dp 3 -dcp 2 -pp 2", {"tensor_parallel_size": 2, "data_parallel_size": 3}),
        ("vllm serve m --max-model-len=32k", {"max_model_len": 32_000}),
        ("vllm serve m --max-model-len 32K", {"max_model_len": 32_768}),
        ("vllm serve m --max-model-len 25.6k", {"max_model_len": 25_600}),
        ("vllm serve m --max_num_seqs 8 --max-num-seqs 16", {"max_num_seqs": 16}),
        ("vllm serve m --no-enable-prefix-caching", {"enable_prefix_caching": False}),
        ("vllm serve m --kv-cache-memory 1073741824", {"kv_cache_memory_bytes": 1073741824}),
        (
            """vllm serve m --speculative-config '{"method":"mtp","num_speculative_tokens":3}'""",
            {"num_speculative_tokens": 3},
        ),
        (
            """vllm serve m --override-generation-config '{"max_new_tokens": 512}'""",
            {"default_max_new_tokens": 512},
        ),
    ],
)
def test_flags(command: str, values: dict[str, object]) -> None:
    found = asked(command)
    assert {name: found.get(name) for name in values} == values


@pytest.mark.parametrize("words", ["--max-model-len auto", "--max-model-len -1", "--max-num-seqs $SEQS", "--port high"])
def test_what_is_no_value_gives_none(words: str) -> None:
    assert not asked(f"vllm serve m {words}").keys() & {"max_model_len", "max_num_seqs", "port"}


@pytest.mark.parametrize(
    ("role", "expected"),
    [("kv_producer", Role.PREFILL), ("kv_consumer", Role.DECODE), ("kv_both", Role.UNKNOWN), (None, Role.UNIFIED)],
)
def test_the_role_of_a_connector(role: str | None, expected: Role) -> None:
    config = f"""--kv-transfer-config '{{"kv_connector":"NixlConnector","kv_role":"{role}"}}'""" if role else ""
    [facts] = facts_of(argv(f"vllm serve m {config}"))
    assert facts.role is expected
    assert ("kv_connector" in facts.args) == (role is not None)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.integers(1, 10**6) for name in sorted(NUMBERS - {"gpu_memory_utilization"})},
        **{name: st.booleans() for name in sorted(SWITCHES)},
        "model": st.sampled_from(["a/b", "/models/it's, here", 'say "x": 3']),
    },
)


@given(VALUES, st.integers(0, 40))
def test_printed_arguments_come_back_whole_or_cut(values: dict[str, object], cut: int) -> None:
    """As a dictionary and as a Namespace. Of a line that is cut, nothing is read that it does not state whole."""
    spaced = {**values, "compilation_config": {"level": 3, "sizes": [1, 2, 4]}, "lora": None}
    for text in (str(spaced), f"Namespace({', '.join(f'{n}={v!r}' for n, v in spaced.items())})"):
        found = printed(text)
        assert {name: found.get(name) for name in values} == values
        part = printed(text[: max(0, len(text) - cut)])
        whole = [name for name in values if name in part and part[name] == values[name]]
        assert len([name for name in values if name in part]) - len(whole) <= 1


def test_the_models_list_gives_the_base_model() -> None:
    models = [
        {"id": "adapter", "owned_by": "vllm", "parent": "base", "max_model_len": None},
        {"id": "base", "owned_by": "vllm", "parent": None, "root": "/models/base", "max_model_len": 4096},
    ]
    [facts] = facts_of(document(URL, "models", {"object": "list", "data": models}))
    assert facts.effective["max_model_len"].value == 4096
    assert facts.args["served_model_name"].value == "base"


@pytest.mark.parametrize(
    "config",
    [
        {"model_config": {"max_model_len": 4096, "model": "m"}, "scheduler_config": {"max_num_seqs": 64}},
        "model='m', max_model_len=4096, max_num_seqs=64, compilation_config={'level': 3}",
    ],
)
def test_the_development_endpoint_states_what_is_in_effect(config: object) -> None:
    [facts] = facts_of(document(URL, "server_info", {"vllm_config": config}))
    assert {n: f.value for n, f in facts.effective.items()} == {"max_model_len": 4096, "max_num_seqs": 64, "model": "m"}


def test_the_version() -> None:
    [facts] = facts_of(document(URL, "version", {"version": "0.32.0"}))
    assert facts.effective["version"].value == "0.32.0"
