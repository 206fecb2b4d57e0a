"""Evidence made from a few words, through the readers' own parsers: for tests of everything that comes after them."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from ullage.engines.read import log_markers
from ullage.evidence import Argv, ConfigFile, Document, Evidence, Failure, Member, Origin, Process, Unit
from ullage.figure import Figure, Kind
from ullage.masking import Masker
from ullage.observe import metrics_text
from ullage.observe.log_choice import LogWords
from ullage.observe.log_file import LogScan, read_log

READ_AT = datetime(2026, 11, 29, 12, tzinfo=timezone.utc)
URL = "http://127.0.0.1:30000"
DAY = "2026-11-29"
_SUMMARY = {"context": 32768, "running": 64, "chunk": 8192, "budget": 16384, "at": "10:00"}


def log(name: str, *lines: str) -> Evidence:
    """A log file of one server, as the log reader keeps it."""
    text = "\n".join((*lines, "")).encode()
    scan = LogScan(tuple(LogWords(*markers) for markers in log_markers()))
    [item] = read_log(io.BytesIO(text), name, scan, Masker(), READ_AT)
    return item


def document(url: str, topic: str, data: Any) -> Evidence:
    """What an endpoint of the server at `url` answers."""
    plain = json.loads(json.dumps(data))
    return Evidence(Origin(url), f"{url}/{topic}", topic, READ_AT, Document(Masker().document(plain)))


def metrics(url: str, *lines: str) -> Evidence:
    content = metrics_text.parse("\n".join(lines), Masker())
    return Evidence(Origin(url), f"{url}/metrics", "metrics", READ_AT, content)


def argv(text: str, name: str = "--flags") -> Evidence:
    return Evidence(Origin(name), name, "", READ_AT, Argv(Masker().words(shlex.split(text))))


def failed(url: str, topic: str, status: str) -> Evidence:
    return Evidence(Origin(url), f"{url}/{topic}", topic, READ_AT, Failure(status, f"answered {status}"))


def on_host(
    command: str,
    pid: int = 4242,
    *,
    listens: Sequence[str] | None = None,
    age_s: float = 3600,
    unit: str = "",
    configured: str | None = None,
    edited_s_ago: float | None = None,
    url: str | None = None,
    hidden: bool = False,
    stopped: Sequence[int] = (),
    **of_unit: Any,
) -> tuple[Evidence, ...]:
    """A server that was found on this host: its process, its command line, its unit (`of_unit`: fields of `Unit`), and
    what the files of the unit say now.
    """
    words = shlex.split(command)
    port = words[words.index("--port") + 1] if "--port" in words else "30000"
    listens = (f"127.0.0.1:{port}",) if listens is None else tuple(listens)
    origin = Origin((url or f"http://{listens[0]}") if listens else f"pid {pid}", pid=pid, owner=f"{pid}@{pid * 100}")
    process = Process(
        pid,
        "SGLang",
        READ_AT - timedelta(seconds=age_s),
        "llm",
        (Member(pid + 1, "sglang::scheduler_TP0"),),
        listens,
        hosts=("127.0.0.1", "localhost", "10.0.0.5", "gpu1"),
        stopped=tuple(stopped),
        sockets_hidden=hidden,
        unit=unit,
        manager="system" if unit else "",
    )
    items = [
        Evidence(origin, f"pid {pid}", "process", READ_AT, process),
        Evidence(origin, f"command line of pid {pid}", "", READ_AT, Argv(Masker().words(words))),
    ]
    if unit:
        path = f"/etc/systemd/system/{unit}"
        files = () if edited_s_ago is None else (ConfigFile(path, READ_AT - timedelta(seconds=edited_s_ago)),)
        fields = {"state": "active (running)", "files": files} | of_unit
        items.append(Evidence(origin, unit, "unit", READ_AT, Unit(unit, "system", **fields)))
        if configured is not None:
            content = Argv(Masker().words(shlex.split(configured)))
            items.append(Evidence(origin, path, "configured", READ_AT, content))
    return tuple(items)


def of_server(item: Evidence, items: Sequence[Evidence]) -> Evidence:
    """An item as evidence of the server that was found on this host."""
    return item._replace(origin=items[0].origin)


def server_args(**arguments: object) -> str:
    """`server_args=ServerArgs(...)` of a small aggregated server, with these arguments besides or instead."""
    given = {"model_path": "/models/small", "host": "127.0.0.1", "port": 30000, "api_key": None}
    given |= {"disaggregation_mode": "null"} | arguments
    return f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def start(tokens: int, *besides: str, **given: object) -> tuple[str, ...]:
    """The lines of one start of an SGLang server; `besides` stand where its pools are made.

    `given`: `context`, `running`, `chunk`, `budget` of the summary, `at` (the time), and arguments of the server.
    """
    told = {name: given.pop(name, value) for name, value in _SUMMARY.items()}
    at = told["at"]
    summary = (
        f"max_total_num_tokens={tokens}, chunked_prefill_size={told['chunk']}, max_prefill_tokens={told['budget']}, "
        f"max_running_requests={told['running']}, context_len={told['context']}, available_gpu_mem=9.81 GB"
    )
    return (
        f"[{DAY} {at}:00] {server_args(**given)}",
        f"[{DAY} {at}:05 TP0] Load weight begin. avail mem=93.70 GB",
        f"[{DAY} {at}:30 TP0] Load weight end. type=SmallForCausalLM, avail mem=52.27 GB, mem usage=41.43 GB.",
        *(f"[{DAY} {at}:31 TP0] {line}" for line in besides),
        f"[{DAY} {at}:32 TP0] Memory pool end. avail mem=15.93 GB",
        f"[{DAY} {at}:50 TP0] {summary}",
        f"[{DAY} {at}:59] The server is fired up and ready to roll!",
    )


def vllm_start(
    tokens: int, concurrency: float, *besides: str, length: int = 8192, version: str = "0.19.0", **given: object
) -> tuple[str, ...]:
    """The lines of one start of a vLLM server; `besides` stand before its pool. `given`: arguments, `at` (a time)."""
    at = given.pop("at", "10:00")
    args = {"model": "meta-llama/Llama-3.1-8B-Instruct", "port": 8000, "max_model_len": length} | given
    api, core = f"(APIServer pid=7) INFO 09-12 {at}", f"(EngineCore_DP0 pid=9) INFO 09-12 {at}"
    return (
        f"{api}:00 [api_server.py:1] vLLM API server version {version}",
        f"{api}:00 [utils.py:1] non-default args: {args!r}",
        f"{core}:05 [core.py:1] Initializing a V1 LLM engine (v{version}) with config: model={args['model']!r},"
        f" max_seq_len={length}, tensor_parallel_size=1",
        *(f"{core}:20 [x.py:1] {line}" for line in besides),
        f"{core}:30 [kv_cache_utils.py:1] GPU KV cache size: {tokens:,} tokens",
        f"{core}:30 [kv_cache_utils.py:1] Maximum concurrency for {length:,} tokens per request: {concurrency:.2f}x",
        "(APIServer pid=7) INFO:     Application startup complete.",
    )


def vllm_stats(at: str, running: int, waiting: int = 0, usage: float = 1.0, engine: int = 0) -> str:
    """One line of a vLLM server's statistics; `usage` in percent."""
    return (
        f"(APIServer pid=7) INFO 09-12 {at} [loggers.py:1] Engine {engine:03}: Avg prompt throughput: 1.0 tokens/s, Avg"
        f" generation throughput: 2.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage:"
        f" {usage}%, Prefix cache hit rate: 0.0%"
    )


def vllm_gauges(engine: int = 0, /, **values: float) -> tuple[str, ...]:
    """Lines of a vLLM metrics page: series of one engine, under their names without prefix."""
    return tuple(f'vllm:{name}{{engine="{engine}",model_name="small"}} {value}' for name, value in values.items())


def vllm_cache(**labels: object) -> str:
    """The line of a vLLM metrics page that states how the cache was configured."""
    given = {"block_size": 16, "gpu_memory_utilization": 0.9} | labels
    told = ",".join(f'{name}="{value}"' for name, value in given.items())
    return f"vllm:cache_config_info{{{told}}} 1.0"


def decode_batch(second: int, tokens: int = 1000, usage: float = 0.01, running: int = 1, **fields: float) -> str:
    """A `Decode batch` line; `queue_req=3` is printed as `#queue-req: 3`."""
    return _batch("Decode", second, {"running_req": running, "token": tokens}, usage, fields)


def prefill_batch(second: int, usage: float = 0.01, **fields: float) -> str:
    return _batch("Prefill", second, {"new_seq": 1, "new_token": 512, "cached_token": 0}, usage, fields)


def _batch(phase: str, second: int, counts: dict[str, float], usage: float, fields: dict[str, float]) -> str:
    given = {f"#{name.replace('_', '-')}": value for name, value in (counts | fields).items()}
    told = ", ".join(f"{name}: {value}" for name, value in given.items())
    return f"[{DAY} 11:00:{second:02} TP0] {phase} batch. {told}, token usage: {usage:.2f}, cuda graph: True"


def gauges(**values: float) -> tuple[str, ...]:
    """Lines of an SGLang metrics page."""
    labels = 'model_name="small",engine_type="unified",tp_rank="0",pp_rank="0"'
    return tuple(f"sglang:{name}{{{labels}}} {value}" for name, value in values.items())


def ungrounded(figures: Sequence[Figure]) -> list[Figure]:
    """Of the figures and all that they stand on: those that do not say where they come from."""
    every = [part for figure in figures for part in figure.walk()]
    return [f for f in every if not (f.source or f.inputs or (f.note and f.kind in (Kind.DEFAULT, Kind.MISSING)))]
