"""What is to run: which processes, on which ports, with which words."""

from __future__ import annotations

import sys
from typing import NamedTuple

from ...errors import UsageError

LOOPBACK = "127.0.0.1"
ROUTER = "router"
SMOLLM2 = "smollm2"
KEY_VARIABLE = "ULLAGE_TANK_API_KEY"  # how a key reaches workers and router: never on a command line


class Wish(NamedTuple):
    """What was asked for. Flags are handed on as they are: to every worker, to those of one role, to the router."""

    prefill: int = 1
    decode: int = 1
    unified: int = 0
    model: str = SMOLLM2
    host: str = LOOPBACK  # of the router; workers stay on loopback
    port: int = 8000
    base_port: int = 30000
    bootstrap_port: int = 8998
    metrics_port: int = 29000
    key_env: str | None = None
    flags: tuple[str, ...] = ()
    prefill_flags: tuple[str, ...] = ()
    decode_flags: tuple[str, ...] = ()
    router_flags: tuple[str, ...] = ()


class Part(NamedTuple):
    """One process. `ports`: all that it listens on."""

    name: str
    role: str  # prefill | decode | unified | router
    url: str
    argv: tuple[str, ...]
    ports: tuple[int, ...]
    host: str = LOOPBACK


def parts(wish: Wish) -> tuple[Part, ...]:
    """The workers, then the router."""
    workers = _workers(wish)
    plan = (*workers, _router(wish, workers))
    _require_own_ports(plan)
    return plan


def _workers(wish: Wish) -> tuple[Part, ...]:
    if wish.unified:
        return tuple(_worker(wish, "unified", i, wish.unified, i) for i in range(wish.unified))
    if not (wish.prefill and wish.decode):
        raise UsageError("prefill and decode need a worker each", "or --unified 1 for workers that do both")
    prefill = (_worker(wish, "prefill", i, wish.prefill, i) for i in range(wish.prefill))
    decode = (_worker(wish, "decode", i, wish.decode, wish.prefill + i) for i in range(wish.decode))
    return (*prefill, *decode)


_MODE = ("--disaggregation-mode",)


def _worker(wish: Wish, role: str, index: int, of: int, place: int) -> Part:
    port, bootstrap = wish.base_port + place, wish.bootstrap_port + index
    own = {
        "prefill": (*_MODE, "prefill", "--disaggregation-bootstrap-port", str(bootstrap), *wish.prefill_flags),
        "decode": (*_MODE, "decode", *wish.decode_flags),
        "unified": (),
    }[role]
    argv: tuple[str, ...] = (sys.executable, "-m", "ullage.tank.worker", "--model-path", wish.model)
    argv += ("--host", LOOPBACK, "--port", str(port), *_named(wish), *wish.flags, *own)
    name = role if of == 1 else f"{role}-{index + 1}"
    return Part(name, role, f"http://{LOOPBACK}:{port}", argv, (port, bootstrap) if role == "prefill" else (port,))


def _router(wish: Wish, workers: tuple[Part, ...]) -> Part:
    """The real router. With a key through a door of ours, which takes the key from the environment."""
    module = "ullage.tank.up.keyed_router" if wish.key_env else "sglang_router.launch_router"
    argv: tuple[str, ...] = (sys.executable, "-m", module, "--host", wish.host, "--port", str(wish.port))
    argv += ("--prometheus-host", wish.host, "--prometheus-port", str(wish.metrics_port))
    argv += (*_routes(workers), *_SOON_BACK, *wish.router_flags)
    return Part(ROUTER, ROUTER, reach(wish.host, wish.port), argv, (wish.port, wish.metrics_port), wish.host)


# A worker that was started again is found within seconds, not within the router's minutes.
_SOON_BACK = (
    "--worker-startup-check-interval 1 --health-check-interval-secs 1 --health-success-threshold 1 "
    "--cb-timeout-duration-secs 1 --cb-success-threshold 1 --shutdown-grace-period-secs 1"
).split()


def _routes(workers: tuple[Part, ...]) -> tuple[str, ...]:
    if workers[0].role == "unified":
        return ("--worker-urls", *(worker.url for worker in workers))
    words: tuple[str, ...] = ("--pd-disaggregation",)
    for worker in workers:
        bootstrap = map(str, worker.ports[1:])
        words += (f"--{worker.role}", worker.url, *bootstrap)
    return words


def _named(wish: Wish) -> tuple[str, ...]:
    """The file's own name is of a kind that nobody would type."""
    return ("--served-model-name", SMOLLM2) if wish.model == SMOLLM2 else ()


def reach(host: str, port: int) -> str:
    """The URL by which this machine reaches what listens there."""
    own = {"0.0.0.0": LOOPBACK, "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{own}:{port}"


def _require_own_ports(plan: tuple[Part, ...]) -> None:
    """No port twice, and none beyond the last."""
    taken: dict[int, str] = {}
    for part in plan:
        for port in part.ports:
            if not 0 < port < 65536:
                raise UsageError(f"{part.name} would need port {port}", "ports go up to 65535")
            if port in taken:
                raise UsageError(f"{taken[port]} and {part.name} would both need port {port}", "name other ports")
            taken[port] = part.name
