"""The tank's forward pass beside a llama-server on the same model and cores: tokens/s of prefill and of decode.

    ULLAGE_LLAMA_SERVER=/path/to/llama-server python benchmarks/tank_speed.py [ROUNDS]

Both take turns, so that a busy machine slows both. The tank computes in float32, with all cores; llama-server computes
with the weights as they are in the file (4 bits), and the better of one thread and all cores counts. Its times are
those it states itself, without HTTP. Prefill: one prompt of 800 tokens (the tank: in pieces of 512, as its engine
would). Decode: 8 sequences of 32 tokens grow by 128 together.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from ullage.tank.model.download import fetch_smollm2
from ullage.tank.model.forward import Model, Step
from ullage.tank.model.load import load_model

PARALLEL, PROMPT, OUTPUT = 8, 32, 128
LONG, PIECE, PAGE = 800, 512, 16
_UP_S = 60.0
_PAUSE_S = 1.0  # until the threads of whoever was last have come to rest


class Speed(NamedTuple):
    """tokens/s"""

    prefill: float
    decode: float


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    binary = os.environ.get("ULLAGE_LLAMA_SERVER")
    cores = len(os.sched_getaffinity(0))
    pool = Pool(load_model("smollm2").model)
    with contextlib.ExitStack() as stack:
        servers = {t: stack.enter_context(_llama_server(binary, t)) for t in {1, cores}} if binary else {}
        found: dict[str, list[Speed]] = defaultdict(list)
        for turn in range(rounds):
            time.sleep(_PAUSE_S)
            found["tank"].append(tank(pool))
            for threads, url in servers.items():
                time.sleep(_PAUSE_S)
                found[f"llama-server -t {threads}"].append(llama(url, turn))
            print(f"round {turn + 1} of {rounds}", file=sys.stderr)
    _print(found)


def tank(pool: Pool) -> Speed:
    prompt = [list(range(100, 100 + LONG))]
    begin = time.perf_counter()
    for start in range(0, LONG, PIECE):
        pool.forward([ids[start : start + PIECE] for ids in prompt], start)
    prefill = LONG / (time.perf_counter() - begin)
    last = pool.forward([[100 * n + at for at in range(PROMPT)] for n in range(PARALLEL)], 0)
    begin = time.perf_counter()
    for at in range(PROMPT, PROMPT + OUTPUT):
        last = pool.forward([[token] for token in last], at)
    return Speed(prefill, PARALLEL * OUTPUT / (time.perf_counter() - begin))


class Pool:
    """Sequences of one length, each in pages of its own that lie scattered."""

    def __init__(self, model: Model) -> None:
        self._model = model
        pages = -(-max(LONG, PROMPT + OUTPUT) // PAGE)
        self._tables = np.random.default_rng(0).permutation(PARALLEL * pages).astype(np.int32).reshape(PARALLEL, -1)
        c = model.config
        self._kv = np.zeros((c.layers, 2, self._tables.size * PAGE, c.kv_heads, c.head_dim), np.float32)

    def forward(self, pieces: list[list[int]], start: int) -> list[int]:
        """Greedy next tokens."""
        count = len(pieces)
        positions = np.tile(np.arange(start, start + len(pieces[0])), (count, 1))
        slots = (
            np.take_along_axis(self._tables[:count].astype(np.int64), positions // PAGE, 1) * PAGE + positions % PAGE
        )
        starts = np.arange(count + 1, dtype=np.int32) * len(pieces[0])
        ids: NDArray[np.int64] = np.array(pieces, np.int64)
        width = -(-(start + len(pieces[0])) // PAGE)
        tables = self._tables[:count, :width]
        step = Step(ids.ravel(), positions.ravel(), slots.ravel(), starts, tables, PAGE)
        chosen: list[int] = self._model.forward(step, self._kv).argmax(axis=1).tolist()
        return chosen


def llama(url: str, turn: int) -> Speed:
    """Token ids that differ from turn to turn, so that nothing is in its cache."""
    prefill = _complete(url, [1000 + turn + at for at in range(LONG)], 1)["prompt_per_second"]
    prompts = [[2000 + turn + 100 * n + at for at in range(PROMPT)] for n in range(PARALLEL)]
    with ThreadPoolExecutor(PARALLEL) as pool:
        timings = list(pool.map(lambda prompt: _complete(url, prompt, OUTPUT), prompts))
    slowest_ms = max(timing["predicted_ms"] for timing in timings)
    return Speed(prefill, sum(timing["predicted_n"] for timing in timings) / slowest_ms * 1000)


def _complete(url: str, prompt: list[int], output: int) -> dict[str, float]:
    wanted = {"prompt": prompt, "n_predict": output, "ignore_eos": True, "cache_prompt": False, "temperature": 0}
    request = Request(f"{url}/completion", json.dumps(wanted).encode(), {"Content-Type": "application/json"})
    answer: dict[str, Any] = json.load(urlopen(request, timeout=1800))
    timings: dict[str, float] = answer["timings"]
    return timings


@contextlib.contextmanager
def _llama_server(binary: str, threads: int) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sizes = ["-c", str(PARALLEL * 1024), "-np", str(PARALLEL), "-t", str(threads), "-tb", str(threads)]
    command = [binary, "-m", str(fetch_smollm2()), "--port", str(port), *sizes]
    libraries = os.pathsep.join(filter(None, [str(Path(binary).parent), os.environ.get("LD_LIBRARY_PATH")]))
    environment, nowhere = {**os.environ, "LD_LIBRARY_PATH": libraries}, subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    try:
        _wait(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _UP_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"llama-server ended with {process.returncode}")
        with contextlib.suppress(URLError, OSError), urlopen(f"{url}/health", timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise SystemExit("llama-server is not up in time")


def _print(found: dict[str, list[Speed]]) -> None:
    for name, speeds in found.items():
        for kind in Speed._fields:
            values = [getattr(speed, kind) for speed in speeds]
            print(f"{name:20} {kind:8} median {statistics.median(values):6.1f} tok/s  {_spread(values, '6.1f')}")
    others = [name for name in found if name != "tank"]
    for kind in Speed._fields if others else ():
        best = max(others, key=lambda name: statistics.median(getattr(speed, kind) for speed in found[name]))
        ratios = [getattr(a, kind) / getattr(b, kind) for a, b in zip(found["tank"], found[best], strict=True)]
        print(
            f"{kind}: tank / {best}, round by round: median {statistics.median(ratios):.2f} x  {_spread(ratios, '.2f')}"
        )


def _spread(values: list[float], form: str) -> str:
    return f"({min(values):{form}} to {max(values):{form}})"


if __name__ == "__main__":
    main()
