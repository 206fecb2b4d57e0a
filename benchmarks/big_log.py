"""Whole-process time and memory of `ullage limits` on a log of 1 GB whose last start stands near its end, or its begin.

    python benchmarks/big_log.py [GIGABYTES] [ROUNDS]

Writes the logs into a temporary folder (of the size given) and takes them away again.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_ULLAGE = str(Path(sys.executable).with_name("ullage"))
_START = """\
[2026-06-02 10:00:00] server_args=ServerArgs(model_path='/m/a', port=30000, tp_size=4, page_size=64)
[2026-06-02 10:01:00 TP0] Load weight begin. avail mem=93.70 GB
[2026-06-02 10:04:00 TP0] Load weight end. type=LlamaForCausalLM, avail mem=52.30 GB, mem usage=41.40 GB.
[2026-06-02 10:04:01 TP0] KV Cache is allocated. #tokens: 454784, K size: 13.88 GB, V size: 13.88 GB
[2026-06-02 10:04:01 TP0] Memory pool end. avail mem=15.90 GB
[2026-06-02 10:05:00 TP0] max_total_num_tokens=454784, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=256, context_len=131072, available_gpu_mem=14.10 GB
[2026-06-02 10:05:00] The server is fired up and ready to roll!
"""
_BATCH = (
    "[2026-06-02 11:{m:02}:{s:02} TP0] Decode batch, #running-req: 58, #token: 187264, token usage: 0.41, "
    "cuda graph: True, gen throughput (token/s): 1893.40, #queue-req: 0, \n"
)
_ACCESS = '[2026-06-02 11:{m:02}:{s:02}] INFO:     127.0.0.1:4336 - "POST /generate HTTP/1.1" 200 OK\n'


def main() -> None:
    size = int(float(sys.argv[1]) * 1e9) if len(sys.argv) > 1 else 10**9
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        for where in ("end", "begin"):
            path = Path(folder) / f"start-near-its-{where}.log"
            _write(path, size, where == "begin")
            found = [_measured(path) for _ in range(rounds)]
            seconds, peak = statistics.median(s for s, _ in found), max(kb for _, kb in found)
            print(
                f"{path.name:24} {path.stat().st_size / 1e9:.2f} GB  median {seconds:.2f} s  peak {peak / 1024:.0f} MiB"
            )
            path.unlink()


def _write(path: Path, size: int, start_first: bool) -> None:
    block = "".join(_run_lines()).encode()
    start = _START.encode()
    with path.open("wb") as log:
        log.write(start if start_first else start.replace(b"10:0", b"09:0"))
        for _ in range(size // len(block)):
            log.write(block)
        if not start_first:
            log.write(start + block)


def _run_lines() -> Iterator[str]:
    for n in range(600):
        moment = {"m": n // 60, "s": n % 60}
        yield _BATCH.format(**moment)
        yield _ACCESS.format(**moment) * 8


def _measured(path: Path) -> tuple[float, int]:
    """(seconds, peak kilobytes) of one whole process."""
    begin = time.perf_counter()
    process = subprocess.Popen([_ULLAGE, "limits", str(path)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"ullage limits {path} ended with {process.returncode}")
    return time.perf_counter() - begin, usage.ru_maxrss


if __name__ == "__main__":
    main()
