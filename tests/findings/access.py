from __future__ import annotations

from tests.evidence import URL, argv, document, failed, gauges, log, metrics, on_host, start, vllm_start
from ullage.evidence import Evidence, Process
from ullage.findings.base import Severity

from .scenario import Items, Scenario, Scenarios

INFO = {"model_path": "/models/small", "mem_fraction_static": 0.8, "host": "127.0.0.1"}
LAUNCH = "python -m sglang.launch_server --model-path /models/small --host"
ROUTER = "python -m sglang_router.launch_router --worker-urls http://10.0.0.1:30000 --host"

METRICS = (
    Scenario(
        fires=(log("start.log", *start(100_000, enable_metrics=False)),),
        silent=(log("start.log", *start(100_000, enable_metrics=True)),),
        says=("no metrics", "queues"),
        advice="--enable-metrics",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(document(URL, "server_info", INFO), failed(URL, "metrics", "404")),
        silent=(document(URL, "server_info", INFO), failed(URL, "metrics", "timeout")),
        says=("no metrics",),
        advice="--enable-metrics",
        severity=Severity.INFO,
    ),
)
OPEN = (
    Scenario(
        fires=(document(URL, "server_info", INFO | {"host": "0.0.0.0", "api_key": None}),),
        silent=(document(URL, "server_info", INFO | {"host": "0.0.0.0", "api_key": "k3y-of-nobody"}),),
        says=("0.0.0.0", "without a key"),
        advice="a YAML file for --config",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(argv(f"{LAUNCH} ::"),),
        silent=(argv(f"{LAUNCH} :: --api-key k3y-of-nobody"),),
        says=("::",),
        advice="--host 127.0.0.1",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(argv(f"{ROUTER} 0.0.0.0"),),
        silent=(argv(f"{ROUTER} 127.0.0.1"),),
        says=("0.0.0.0",),
        advice="--api-key",
        severity=Severity.WARNING,
    ),
    Scenario(  # without its arguments nobody knows that a server has no key
        fires=(log("start.log", *start(100_000, host="0.0.0.0")),),
        silent=(
            log("start.log", *start(100_000)[1:], "INFO:     Uvicorn running on http://0.0.0.0:30000"),
            document(URL, "model_info", {"model_path": "/models/small", "is_generation": True}),
        ),
        says=("0.0.0.0",),
        advice="a YAML file for --config",
        severity=Severity.WARNING,
    ),
)
LLAMA = ("srv  load_model: loading model '/models/small.gguf'", "srv  llama_server: model loaded")
SECURITY = "0.00.005.573 W srv  llama_server: security: no API key is set and CORS allows all origins (see PR 25655)"
BROWSERS = (
    Scenario(
        fires=(log("a.log", SECURITY, *LLAMA),),
        silent=(log("a.log", *LLAMA),),
        says=("cross-origin",),
        advice="--api-key-file",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(
            log("a.log", "srv  llama_server: CORS is set to allow all origins ('*') and no API key is set", *LLAMA),
        ),
        silent=(log("a.log", "srv  llama_server: CORS is set to allow all origins ('*')", *LLAMA),),
        says=("no key",),
        advice="--cors-origins",
        severity=Severity.WARNING,
    ),
)
LLAMA_URL = "http://127.0.0.1:8080"
PROPS = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 2, "model_path": "/models/small.gguf"}
LLAMA_METRICS = (
    Scenario(
        fires=(document(LLAMA_URL, "props", PROPS), failed(LLAMA_URL, "metrics", "501")),
        silent=(document(LLAMA_URL, "props", PROPS), failed(LLAMA_URL, "metrics", "401")),
        says=("no metrics", "how many requests wait for a slot"),
        advice="restart with --metrics",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(argv("llama-server -m /models/small.gguf --host 127.0.0.1"),),
        silent=(argv("llama-server -m /models/small.gguf --host 127.0.0.1 --metrics"),),
        says=("no metrics",),
        advice="restart with --metrics",
        severity=Severity.INFO,
    ),
)


def in_a_container(url: str | None) -> Items:
    """On all addresses of a network of its own; `url`: where its port is published, if it is."""
    items = on_host("vllm serve small --host 0.0.0.0 --port 8000", listens=("0.0.0.0:8000",), url=url or "pid 4242")
    assert isinstance(items[0].content, Process)
    return (items[0]._replace(content=items[0].content._replace(network="network namespace 5")), *items[1:])


OPEN_BY_SOCKETS = (
    Scenario(
        fires=in_a_container("http://127.0.0.1:8000"),
        silent=in_a_container(None),
        says=("0.0.0.0 without a key, in a network of its own: to whom its port is published is not read",),
        advice="--host 127.0.0.1",
        severity=Severity.WARNING,
    ),
    Scenario(  # what the process table says of its sockets outranks what the engine would take
        fires=on_host("vllm serve small --port 8000", listens=("0.0.0.0:8000", "127.0.0.1:9000")),
        silent=on_host("vllm serve small --port 8000", listens=("127.0.0.1:8000",)),
        says=("0.0.0.0 without a key",),
        advice="--host 127.0.0.1",
        severity=Severity.WARNING,
    ),
    Scenario(  # as far as they are seen
        fires=on_host("vllm serve small --port 8000", listens=("0.0.0.0:8000",), hidden=True),
        silent=on_host("vllm serve small --port 8000", listens=("127.0.0.1:8000",), hidden=True),
        says=("0.0.0.0 without a key",),
        advice="--host 127.0.0.1",
        severity=Severity.WARNING,
    ),
)
LLAMA_OPEN = (
    Scenario(
        fires=(argv("llama-server -m /models/small.gguf --host 0.0.0.0"),),
        silent=(argv("llama-server -m /models/small.gguf --host 0.0.0.0 --api-key-file /etc/keys"),),
        says=("0.0.0.0", "without a key"),
        advice="--api-key-file, or LLAMA_API_KEY in its environment",
        severity=Severity.WARNING,
    ),
)
MODELS = {"object": "list", "data": [{"id": "small", "owned_by": "vllm", "max_model_len": 8192}]}
NO_PAGE_OF_VLLM = Scenario(
    fires=(document(URL, "models", MODELS), failed(URL, "metrics", "404")),
    silent=(document(URL, "models", MODELS), failed(URL, "metrics", "timeout")),
    says=("no metrics",),
    advice="without --disable-log-stats",
    severity=Severity.INFO,
)
OPEN_BY_VLLM = (
    Scenario(  # it listens on all addresses where none is named
        fires=(argv("vllm serve small --port 8000"),),
        silent=(argv("vllm serve small --port 8000 --api-key k3y-of-nobody"),),
        says=("0.0.0.0 without a key",),
        advice="--host 127.0.0.1",
        severity=Severity.WARNING,
    ),
    Scenario(  # a log does not show the environment, in which the key may stand
        fires=(log("vllm.log", *vllm_start(64_000, 7.81, host="0.0.0.0")),),
        silent=(log("vllm.log", *vllm_start(64_000, 7.81, host="127.0.0.1")),),
        says=("0.0.0.0 without a key, unless VLLM_API_KEY is in its environment",),
        advice="a key: VLLM_API_KEY",
        severity=Severity.WARNING,
    ),
)


def again(item: Evidence) -> Evidence:
    """Asked once more."""
    return item._replace(again=True)


def seeded(seed: int, url: str = URL, **stated: object) -> Evidence:
    return document(url, "server_info", INFO | {"random_seed": seed, "max_total_num_tokens": 90_000} | stated)


def page(running: int, done: int, pool: int = 90_000, started: float = 1764400000.12) -> Evidence:
    counted = gauges(num_running_reqs=running, num_requests_total=done, max_total_num_tokens=pool)
    return metrics(URL, *counted, f"process_start_time_seconds {started}")


ROUTES = document("http://127.0.0.1:8000", "workers", {"workers": [{"url": URL, "worker_type": "regular"}]})
SEVERAL = (
    Scenario(
        fires=(seeded(1), again(seeded(1)), again(seeded(2))),
        silent=(seeded(1), again(seeded(1)), again(seeded(1))),
        says=("at least 2 servers answer at this URL", "random_seed: 1 and 2"),
        advice="each server's own URL",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(seeded(1), again(seeded(2)), again(seeded(3))),
        silent=(seeded(1, last_gen_throughput=0.0), again(seeded(1, last_gen_throughput=90.5))),
        says=("at least 3 servers",),
        advice="each server's own URL",
        severity=Severity.WARNING,
    ),
    Scenario(  # the seed was given, and is the same
        fires=(seeded(1), again(seeded(1, max_total_num_tokens=80_000))),
        silent=(seeded(1), seeded(2, "http://127.0.0.1:30001")),
        says=("max_total_num_tokens: 90000 and 80000",),
        advice="each server's own URL",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(page(3, 100), again(page(3, 100, started=1764400000.5))),
        silent=(page(3, 100), again(page(9, 101))),
        says=("process_start_time_seconds",),
        advice="each server's own URL",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(page(3, 100), again(page(3, 40))),
        silent=(page(3, 100), again(page(0, 100))),
        says=("num_requests_total", "100 and 40"),
        advice="each server's own URL",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(page(3, 100), again(page(3, 100, pool=80_000))),
        # a router hands /server_info on to its workers in turn
        silent=(ROUTES, seeded(1, "http://127.0.0.1:8000"), again(seeded(2, "http://127.0.0.1:8000")), seeded(1)),
        says=("max_total_num_tokens",),
        advice="each server's own URL",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "open-to-browsers": BROWSERS,
    "metrics-disabled": (*METRICS, NO_PAGE_OF_VLLM, *LLAMA_METRICS),
    "open-to-the-network": (*OPEN, *OPEN_BY_VLLM, *OPEN_BY_SOCKETS, *LLAMA_OPEN),
    "several-servers-behind-one-url": SEVERAL,
}
