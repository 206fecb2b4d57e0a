from __future__ import annotations

from tests.evidence import URL, argv, document, failed, log, start
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

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
        advice="--api-key",
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
        advice="--api-key",
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
        says=("no metrics",),
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
LLAMA_OPEN = (
    Scenario(
        fires=(argv("llama-server -m /models/small.gguf --host 0.0.0.0"),),
        silent=(argv("llama-server -m /models/small.gguf --host 0.0.0.0 --api-key-file /etc/keys"),),
        says=("0.0.0.0", "without a key"),
        advice="--api-key",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "metrics-disabled": METRICS + LLAMA_METRICS,
    "open-to-the-network": OPEN + LLAMA_OPEN,
    "open-to-browsers": BROWSERS,
}
