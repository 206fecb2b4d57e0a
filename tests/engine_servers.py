"""Servers that answer as the engines do: what each guards with its key, and where it serves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from tests.observe import servers
from tests.observe.servers import Handler, Server, running

KEY = "sesame-opens-the-door"
PUBLIC_AT_VLLM = ("/health", "/ping", "/load", "/version", "/metrics", "/docs", "/redoc", "/openapi.json", "/static")
PUBLIC_AT_LLAMACPP = ("/", "/health", "/v1/health", "/models", "/v1/models", "/api/tags")

# Which paths are open to everyone where a key is set. Until 2026 vLLM guarded /v1 alone; since then every route but
# some (vllm/entrypoints/serve, PUBLIC_ENDPOINTS). SGLang: add_api_key_middleware. llama.cpp: server-http.cpp.
OPEN: dict[str, Callable[[str], bool]] = {
    "sglang": lambda path: path.startswith(("/health", "/metrics")),
    "vllm": lambda path: not path.startswith("/v1"),
    "vllm of 2026": lambda path: any(path == p or path.startswith(f"{p}/") for p in PUBLIC_AT_VLLM),
    "llama.cpp": lambda path: path in PUBLIC_AT_LLAMACPP,
}
REFUSAL = {
    "llama.cpp": '{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}',
}

Pages = Mapping[str, str | Callable[[Handler], None]]


def info(**stated: object) -> str:
    """SGLang's /server_info of a small server."""
    given = {"model_path": "/models/small", "mem_fraction_static": 0.8, "host": "127.0.0.1", "random_seed": 7}
    return json.dumps(
        {**given, "max_total_num_tokens": 90_000, "context_length": 8192, "internal_states": [], **stated}
    )


def sglang(running: int = 3, **stated: object) -> dict[str, str]:
    labels = '{model_name="small",tp_rank="0"}'
    return {
        "/server_info": info(**stated),
        "/model_info": json.dumps({"model_path": "/models/small", "is_generation": True}),
        "/v1/models": json.dumps({"data": [{"id": "small", "owned_by": "sglang", "max_model_len": 8192}]}),
        "/v1/loads": json.dumps({"loads": [{"dp_rank": 0, "num_running_reqs": running, "num_used_tokens": 500}]}),
        "/metrics": f"sglang:num_running_reqs{labels} {running}\nsglang:max_total_num_tokens{labels} 90000\n",
    }


def vllm(started: float = 1764400000.12, requests: int = 5, blocks: int = 5000, waiting: int = 0) -> dict[str, str]:
    """vLLM with one API server."""
    labels = 'engine="0",model_name="small"'
    card = {"id": "small", "owned_by": "vllm", "created": requests, "max_model_len": 4096}
    return {
        "/metrics": (
            f"process_start_time_seconds {started}\n"
            f'vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="{blocks}"}} 1.0\n'
            f"vllm:num_requests_running{{{labels}}} 4\n"
            f"vllm:num_requests_waiting{{{labels}}} {waiting}\nvllm:prompt_tokens_total{{{labels}}} {requests}\n"
        ),
        "/version": json.dumps({"version": "0.11.2"}),
        "/v1/models": json.dumps({"data": [card]}),
    }


def llamacpp() -> dict[str, str]:
    return {
        "/props": json.dumps({"total_slots": 4, "model_path": "/models/small.gguf", "build_info": "b7000-abc"}),
        "/slots": json.dumps([{"id": n, "n_ctx": 4096, "is_processing": False} for n in range(4)]),
        "/v1/models": json.dumps({"data": [{"id": "small", "owned_by": "llamacpp", "meta": {"n_ctx": 4096}}]}),
        "/metrics": "llamacpp:requests_processing 0\nllamacpp:prompt_tokens_total 5\n",
    }


SERVED: dict[str, dict[str, str]] = {
    "sglang": sglang(),
    "vllm": vllm(),
    "vllm of 2026": vllm(),
    "llama.cpp": llamacpp(),
}


@contextmanager
def serving(pages: Pages, *, guard: str = "", host: str = "127.0.0.1") -> Iterator[Server]:
    """`guard`: the engine whose way it is to guard itself with KEY; without one all is open."""
    with running(host) as server:
        server.answering = lambda handler: _answer(handler, pages, guard)
        yield server


@contextmanager
def taking_turns(*every: Pages) -> Iterator[Server]:
    """One URL, and behind it several servers that are asked in turn for each of their pages."""
    turns = {path: count() for pages in every for path in pages}
    with running() as server:
        server.answering = lambda handler: _answer(
            handler, every[next(turns.get(handler.path, count())) % len(every)], ""
        )
        yield server


def _answer(handler: Handler, pages: Pages, guard: str) -> None:
    if guard and not OPEN[guard](handler.path) and handler.headers.get("Authorization") != f"Bearer {KEY}":
        handler.answer(REFUSAL.get(guard, '{"error":"Unauthorized"}').encode(), 401)
        return
    page = pages.get(handler.path)
    if page is None:
        servers.missing(handler)
    elif isinstance(page, str):
        handler.answer(page.encode())
    else:
        page(handler)
