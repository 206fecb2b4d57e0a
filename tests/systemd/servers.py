"""Units for the tests: the tank as a server, and a shell script that prints what a server prints at its start."""

from __future__ import annotations

from itertools import count

from tests.systemd.machine import PYTHON, Machine

_PORTS = count(30000)  # the machine has a network of its own
_STAYS = "sleep 100000"
TANK = f"{PYTHON} -m ullage.tank.worker --model tiny --memory 64MiB --context-length 2048 --threads 1"

ARGS = (
    "[2026-11-30 09:00:00] server_args=ServerArgs(model_path='/m', tp_size=1, port=30000, disaggregation_mode='null', "
    "api_key='{secret}', mem_fraction_static={fraction}{padding})"
)
START = (
    ARGS,
    "[2026-11-30 09:00:01] Load weight begin. avail mem=90.00 GB",
    "[2026-11-30 09:00:10] Load weight end. type=X, dtype=torch.bfloat16, avail mem=60.00 GB, mem usage=30.00 GB.",
    "[2026-11-30 09:00:11] KV Cache is allocated. #tokens: {tokens}, K size: 10.00 GB, V size: 10.00 GB",
    "[2026-11-30 09:00:12] max_total_num_tokens={tokens}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
    "max_running_requests=256, context_len=524288, available_gpu_mem=12.00 GB",
    "[2026-11-30 09:00:13] The server is fired up and ready to roll!",
)
BATCH = "[2026-11-30 09:10:00] Decode batch, #running-req: 3, #token: 999, token usage: 0.10, #queue-req: 0"


def new_port() -> int:
    return next(_PORTS)


def start_lines(tokens: int, *, fraction: float = 0.8, secret: str = "", padding: int = 0) -> str:
    more = "".join(f", field_{number}='{number:08d}'" for number in range(padding))
    return "".join(f"{line}\n".format(tokens=tokens, fraction=fraction, secret=secret, padding=more) for line in START)


def printing(machine: Machine, name: str, lines: str, after: str = _STAYS, **service: str) -> None:
    """A unit that prints the lines, and goes on as the shell commands say. Not started. One that stays has started when
    its lines are printed.
    """
    machine.write(f"/srv/{name}.log", lines)
    done = f"/tmp/{name}.printed"
    machine.write(f"/srv/{name}.sh", f"#!/bin/sh\ncat /srv/{name}.log\ntouch {done}\n{after}\n", 0o755)
    waits = f"for n in $(seq 500); do test -e {done} && exit; sleep 0.02; done"
    started = f"ExecStartPre=rm -f {done}\nExecStartPost=sh -c '{waits}'\n" if after == _STAYS else ""
    settings = "".join(f"{key}={value}\n" for key, value in service.items())
    machine.unit(f"{name}.service", f"[Service]\nExecStart=/srv/{name}.sh\n{started}RestartSec=0\n{settings}")


def start_tank(machine: Machine, name: str, port: int, flags: str, **where: str) -> None:
    machine.unit(name, f"[Service]\nExecStart={TANK} --port {port} {flags}\n", **where)
    restart_tank(machine, name, port, **where)


def restart_tank(machine: Machine, name: str, port: int, **where: str) -> None:
    """Returns when it serves."""
    machine.systemctl("restart", name, **where)
    asks = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/health', timeout=1)"
    machine.until(PYTHON, "-c", asks)
