from __future__ import annotations

from tests.evidence import argv, document, log, metrics
from ullage.findings.base import Severity

from .scenario import Scenario, Scenarios

URL = "http://127.0.0.1:8080"
M = "llama-server -m /models/small.gguf"
START = (
    "0.00.5.1 I srv    load_model: loading model '/models/small.gguf'",
    "0.00.551.601 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = {each}, kv_unified = '{unified}'",
    "0.00.559.201 I srv  llama_server: model loaded",
)
EXCEEDED = "0.14.994.651 E srv        decode: Context size has been exceeded. off = 1, n_batch = 1, ret = 1"
TOO_LONG = (
    "0.14.994.651 E srv    send_error: task id = 3, error: request (5000 tokens) exceeds the available context size"
    " (2048 tokens), try increasing it"
)


def start(each: int, *, unified: bool) -> tuple[str, ...]:
    return tuple(line.replace("{each}", str(each)).replace("{unified}", str(unified).lower()) for line in START)


DIVIDED = (
    Scenario(
        fires=(argv(f"{M} -c 8192 -np 4"),),
        silent=(argv(f"{M} -c 8192 -np 4 -kvu"),),
        says=("each of 4 slots has 2,048 tokens", "8,192 of -c"),
        advice="-kvu beside -np 4",
        severity=Severity.INFO,
    ),
    Scenario(
        fires=(log("a.log", *start(2048, unified=False), TOO_LONG),),
        silent=(log("a.log", *start(8192, unified=True), TOO_LONG),),
        says=("1 were refused",),
        advice="-c 4 times as large",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(argv(f"{M} -c 8192 -np 2"),),
        silent=(argv(f"{M} -c 8192 -np 1"),),
        says=("each of 2 slots has 4,096",),
        advice="-kvu beside -np 2",
        severity=Severity.INFO,
    ),
)
OVERCOMMIT = (
    Scenario(
        fires=(argv(f"{M} -c 8192"),),
        silent=(argv(f"{M} -c 8192 -np 4"),),
        says=("4 slots of up to 8,192 tokens share 8,192", "every request that is processed fails"),
        advice="--kv-unified-per-slot 2048",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(argv(f"{M} -c 8192 --kv-unified-per-slot 4096"),),
        silent=(argv(f"{M} -c 8192 --kv-unified-per-slot 2048"),),
        says=("4 slots of up to 4,096 tokens share 8,192",),
        advice="-c 16384",
        severity=Severity.WARNING,
    ),
    Scenario(
        fires=(log("a.log", *start(8192, unified=True), EXCEEDED),),
        silent=(log("a.log", *start(8192, unified=False), EXCEEDED),),
        says=("it happened 1 times in the log",),
        advice="--kv-unified-per-slot 2048",
        severity=Severity.ERROR,
    ),
)
PROPS = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 2, "model_path": "/models/small.gguf"}

SLOTS = [{"id": i, "n_ctx": 4096, "is_processing": True, "n_prompt_tokens": 130} for i in range(2)]


def waiting(count: int) -> tuple[str, ...]:
    return ("llamacpp:requests_processing 2", f"llamacpp:requests_deferred {count}")


DEFERRED = (
    Scenario(
        fires=(document(URL, "props", PROPS), metrics(URL, *waiting(3))),
        silent=(document(URL, "props", PROPS), metrics(URL, *waiting(0))),
        says=("3 wait while 2 of 2 slots work",),
        advice="-np 4",
        severity=Severity.WARNING,
    ),
    Scenario(  # no source tells whether the slots share one pool, so that its size is a range
        fires=(document(URL, "props", PROPS), document(URL, "slots", SLOTS), metrics(URL, *waiting(3))),
        silent=(document(URL, "props", PROPS), document(URL, "slots", SLOTS), metrics(URL, *waiting(0))),
        says=("the requests hold 260 of 4,096 to 8,192 cells",),
        advice="-np 4",
        severity=Severity.WARNING,
    ),
    Scenario(  # its metrics alone: nobody waits while a slot is idle
        fires=(metrics(URL, *waiting(3)),),
        silent=(metrics(URL, *waiting(0)),),
        says=("3 wait while 2 are processed, which is then every slot",),
        advice="-np 4",
        severity=Severity.WARNING,
    ),
)
SCENARIOS: Scenarios = {
    "np-divides-context": DIVIDED,
    "unified-overcommit": OVERCOMMIT,
    "requests-deferred": DEFERRED,
}
