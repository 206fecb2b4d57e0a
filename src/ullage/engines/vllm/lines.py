"""What one record of a vLLM log says: a kind, and the quantities in it. V0 to 0.33 (facts: section 2.1).

A line can hold several records (two processes that write at once, or a log whose line breaks were lost), and a record
can stand behind a progress bar, so records are cut at their heads first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from ...evidence import LogLine
from ..events import Event, LineRule, Value, needles, values_of
from ..unit_lines import told


class Step(Enum):
    """Where in a start a record stands: starts are told apart by these."""

    UNIT = "unit"  # systemd speaks of one
    VERSION = "version"
    ARGS = "args"
    CONFIG = "config"
    LOADED = "loaded"
    MEMORY = "memory"
    KV = "kv"
    READY = "ready"
    NOTE = "note"  # says something, marks nothing
    STATS = "stats"
    TROUBLE = "trouble"
    STOPPED = "stopped"


class Record(NamedTuple):
    """One record of a line: the process tags before it, and its words."""

    tags: str
    time: str
    body: str


_NUM = r"[0-9][0-9,]*(?:\.[0-9]+)?"
_TAG = r"\((?:EngineCore|APIServer|ApiServer|Worker|VllmWorker|RayWorker|DPMoE|DPEngine)[^()]{0,60}\) *"
_HEAD = re.compile(
    rf"(?P<tags>(?:{_TAG})*)(?P<level>INFO|WARNING|ERROR|DEBUG|CRITICAL) (?P<time>(?:\d{{4}}-)?\d\d-\d\d"
    r" \d\d:\d\d:\d\d(?:[.,]\d+)?) \[?(?P<file>[\w./-]+:\d+)\] ?"
)
_TAGGED = re.compile(rf"^(?P<tags>(?:{_TAG})+)")
_PID = re.compile(r"\((APIServer|ApiServer|EngineCore)[^()]*? pid=(\d+)\)")
_ENGINE = re.compile(r"EngineCore_?(?:DP)?(\d+)|\bDP(\d+)")


def _rule(step: Step, needle: str, pattern: str) -> LineRule:
    return LineRule(step, needle, pattern.replace("NUM", _NUM))


# (step, a literal that stands in every such record, the quantities as named groups)
_RULES = (
    _rule(Step.VERSION, "vLLM API server version", r"vLLM API server version v?(?P<version>[\w.+-]+)"),
    _rule(Step.VERSION, "  version ", r"█ +version (?P<version>\d[\w.+-]*)"),
    _rule(Step.NOTE, "  model   ", r"█ +model   (?P<model>\S+)"),
    _rule(Step.ARGS, "non-default args: ", r"non-default args: (?P<arguments>\{.*)"),
    _rule(Step.ARGS, "args: Namespace(", r"args: (?P<arguments>Namespace\(.*)"),
    _rule(
        Step.CONFIG,
        "LLM engine (v",
        r"Initializing an? (?:V(?P<engine_generation>\d) )?LLM engine \(v(?P<version>[\w.+-]+)\) with config:"
        r" (?P<config>.*)",
    ),
    _rule(Step.NOTE, "Resolved architecture: ", r"Resolved architectures?: \[?'?(?P<architecture>\w+)"),
    _rule(Step.NOTE, "Found ulimit of ", r"Found ulimit of (?P<open_files_limit>\d+)"),
    _rule(Step.NOTE, "Supported", r"^Supported[ _]tasks: \[(?P<supported_tasks>[^\]]+)\]"),
    _rule(Step.NOTE, "Using max model len ", r"Using max model len (?P<max_model_len>\d+)"),
    _rule(Step.NOTE, "max_num_batched_tokens=", r"max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)"),
    _rule(Step.NOTE, "synchronous scheduling is", r"synchronous scheduling is (?P<async_scheduling>enabled|disabled)"),
    _rule(
        Step.LOADED,
        "oading",
        r"(?:Model loading took|Loading model weights took) (?P<weights_gib>NUM) Gi?B(?: memory)?"
        r"(?: and (?P<load_s>NUM) seconds)?",
    ),
    _rule(
        Step.MEMORY,
        "the current vLLM instance can use",
        r"total_gpu_memory \((?P<total_gib>NUM)GiB\) x gpu_memory_utilization \((?P<gpu_memory_utilization>NUM)\) ="
        r" (?P<budget_gib>NUM)GiB",
    ),
    _rule(
        Step.MEMORY,
        "model weights take",
        r"model weights take (?P<weights_gib>NUM)GiB; non_torch_memory takes (?P<non_torch_gib>NUM)GiB; PyTorch"
        r" activation peak memory takes (?P<peak_activation_gib>NUM)GiB; the rest of the memory reserved for KV Cache"
        r" is (?:-(?P<kv_shortfall_gib>NUM)|(?P<available_kv_gib>NUM))GiB",
    ),
    _rule(
        Step.MEMORY,
        "Memory profiling results:",
        r"total_gpu_memory=(?P<total_gib>NUM)GiB initial_memory_usage=(?P<initial_memory_usage_gib>NUM)GiB"
        r" peak_torch_memory=(?P<peak_torch_memory_gib>NUM)GiB"
        r"(?: memory_usage_post_profile=(?P<memory_usage_post_profile_gib>NUM)GiB)?"
        r"(?: non_torch_memory=(?P<non_torch_memory_gib>NUM)GiB)?(?: kv_cache_size=(?P<available_kv_gib>NUM)GiB)?"
        r"(?: gpu_memory_utilization=(?P<gpu_memory_utilization>NUM))?",
    ),
    _rule(
        Step.MEMORY,
        "Available KV cache memory",
        r"Available KV cache memory: (?:-(?P<kv_shortfall_gib>NUM)|(?P<available_kv_gib>NUM)) GiB",
    ),
    _rule(
        Step.MEMORY,
        "reserved",
        r"Initial free memory (?P<free_gib>NUM) GiB, reserved (?P<available_kv_gib>NUM) GiB memory for KV Cache as"
        r" specified by kv_cache_memory",
    ),
    _rule(
        Step.MEMORY, "GiB for KV cache on node", r"xplicitly set \((?P<available_kv_gib>NUM)/(?P<total_gib>NUM)\) GiB"
    ),
    _rule(
        Step.NOTE,
        "Profiling CUDA graph memory",
        r"graph memory:(?: PIECEWISE=(?P<piecewise_graphs>\d+) \(largest=(?P<piecewise_largest>\d+)\),?)?"
        r"(?: FULL=(?P<full_graphs>\d+) \(largest=(?P<full_largest>\d+)\))?",
    ),
    _rule(
        Step.NOTE, "Estimated CUDA graph memory", r"Estimated CUDA graph memory: (?P<estimated_cudagraph_gib>NUM) GiB"
    ),
    _rule(
        Step.NOTE,
        "equivalent to --gpu-memory-utilization",
        r"--gpu-memory-utilization=(?P<gpu_memory_utilization>NUM) is equivalent to"
        r" --gpu-memory-utilization=(?P<equivalent_utilization>[0-9.]*[0-9]).*?increase --gpu-memory-utilization to"
        r" (?P<suggested_utilization>[0-9.]*[0-9])",
    ),
    _rule(
        Step.NOTE,
        "--gpu-memory-utilization from",
        r"increas(?:e|ing) --gpu-memory-utilization from (?P<gpu_memory_utilization>NUM) to"
        r" (?P<suggested_utilization>[0-9.]*[0-9])",
    ),
    _rule(
        Step.KV,
        "blocks: ",
        r"# (?P<device>GPU|cuda|rocm|xpu|hpu|neuron|tpu|npu|CPU|\w+) blocks: (?P<num_gpu_blocks>\d+)"
        r"(?:, # CPU blocks: (?P<num_cpu_blocks>\d+))?",
    ),
    _rule(
        Step.KV,
        "KV cache size: ",
        r"(?P<device>[\w+ ]*?) ?KV cache size: (?P<kv_cache_size_tokens>NUM) tokens(?:, Maximum concurrency for"
        r" (?P<max_model_len>NUM) tokens per request: (?P<kv_cache_max_concurrency>NUM)x)?",
    ),
    _rule(
        Step.KV,
        "Maximum concurrency",
        r"Maximum concurrency (?:for|@) ?(?P<max_model_len>[0-9][0-9,]*)(?: tokens per request)?:"
        r" (?P<kv_cache_max_concurrency>NUM)x",
    ),
    _rule(Step.NOTE, "num_gpu_blocks is: ", r"num_gpu_blocks is: (?P<num_gpu_blocks>\d+)"),
    _rule(  # "=0" overrides nothing: it is the small pool that graphs are profiled with, since 0.18
        Step.NOTE,
        "Overriding num_gpu_blocks",
        r"Overriding num_gpu_blocks=(?P<profiled_gpu_blocks>[1-9]\d*) with"
        r" num_gpu_blocks_override=(?P<num_gpu_blocks>\d+)",
    ),
    _rule(Step.NOTE, "attention block size to ", r"attention block size to (?P<hybrid_block_size>\d+) tokens"),
    _rule(Step.NOTE, "adding mamba page size", r"adding mamba page size by (?P<mamba_padding_percent>NUM)%"),
    _rule(Step.NOTE, "kv cache block size to ", r"etting kv cache block size to (?P<block_size>\d+)"),
    _rule(Step.NOTE, "kv cache group sizes", r"kv cache group sizes \((?P<group_sizes>[\d, ]+)\)"),
    _rule(
        Step.NOTE,
        "padding layers, may waste",
        r"Add (?P<padding_layers>\d+) padding layers, may waste at most (?P<padding_waste_percent>NUM)%",
    ),
    _rule(Step.NOTE, "ultiplying the GPU KV cache size", r"by the d?cp_world_size (?P<cp_world_size>\d+)"),
    _rule(
        Step.MEMORY,
        "Auto-fit max_model_len",
        r"Auto-fit max_model_len: reduced from (?P<requested_max_model_len>NUM) to (?P<max_model_len>NUM) to fit",
    ),
    _rule(
        Step.NOTE, "raph capturing finished", r"finished in (?P<graph_s>NUM) secs?(?:, took (?P<graph_gib>NUM) ?GiB)?"
    ),
    _rule(
        Step.NOTE,
        "CUDA graph pool memory",
        r"pool memory: (?P<graph_gib>NUM) GiB \(actual\), (?P<estimated_cudagraph_gib>NUM) GiB \(estimated\)",
    ),
    _rule(
        Step.TROUBLE,
        "is less than desired GPU memory utilization",
        r"\((?P<free_gib>NUM)/(?P<total_gib>NUM) GiB\) on startup is less than desired GPU memory utilization"
        r" \((?P<gpu_memory_utilization>NUM), (?P<budget_gib>NUM) GiB\)",
    ),
    _rule(
        Step.NOTE,
        "Desired GPU memory utilization is",
        r"\((?P<free_gib>NUM)/(?P<total_gib>NUM) GiB\) on startup. Desired GPU memory utilization is"
        r" \((?P<gpu_memory_utilization>NUM), (?P<budget_gib>NUM) GiB\)\. Actual usage(?: is|:)"
        r" (?:(?P<weights_gib>NUM) GiB for weights?, )?(?:(?P<consumed_gib>NUM) GiB for consumed memory[^,]*, )?"
        r"(?:(?P<peak_activation_gib>NUM) GiB for peak activation, )?"
        r"(?:(?P<non_torch_gib>NUM) GiB for non-torch memory, )?(?:and )?"
        r"(?:(?P<graph_gib>NUM) GiB for (?:CUDA|NPU) ?[Gg]raph)?"
        r"(?:.*?--kv-cache-memory(?:-bytes)?=(?P<suggested_kv_cache_memory_bytes>-?\d+))?"
        r"(?:.*?cache memory in use is (?P<kv_bytes>\d+) bytes)?",
    ),
    _rule(
        Step.TROUBLE,
        "To serve at least one request with",
        r"max seq len \((?P<max_model_len>\d+)\), \(?(?P<needed_kv_gib>NUM) GiB KV(?: cache is needed, which is larger"
        r" than the available KV cache memory \((?P<available_kv_gib>NUM) GiB\)(?:.*?estimated maximum model length is"
        r" (?P<estimated_max_model_len>\d+))?)?",
    ),
    _rule(
        Step.TROUBLE,
        "max seq len (",
        r"max seq len \((?P<max_model_len>\d+)\) is larger than the maximum number of tokens that can be stored in KV"
        r" cache \((?P<kv_cache_size_tokens>\d+)\)",
    ),
    _rule(
        Step.TROUBLE,
        "No available memory for the cache blocks",
        r"(?P<refused>No available memory for the cache blocks)",
    ),
    _rule(Step.TROUBLE, "ngine core initialization failed", r"(?P<refused>Engine core initialization failed)"),
    _rule(Step.TROUBLE, "EngineCore failed to start", r"(?P<refused>EngineCore failed to start)"),
    _rule(Step.TROUBLE, "encountered a fatal error", r"EngineCore encountered (?P<died>a fatal error)"),
    _rule(Step.READY, "vLLM API server", r"on (?:https?://)?(?P<host>\[?[\w.:-]+?\]?):(?P<port>\d+)"),
    _rule(
        Step.NOTE,
        "in world size",
        r"world size (?P<world_size>\d+) is assigned as DP rank (?P<dp_rank>\d+), PP rank (?P<pp_rank>\d+)"
        r"(?:, PCP rank \d+)?, TP rank (?P<tp_rank>\d+)",
    ),
    _rule(Step.NOTE, "init engine (profile", r"took (?P<init_s>NUM) s"),
    _rule(Step.READY, "Application startup complete", r"startup complete"),
    _rule(
        Step.STATS,
        "Running: ",
        r"Running: (?P<num_requests_running>\d+) reqs, (?:Swapped: (?P<num_requests_swapped>\d+) reqs, )?"
        r"(?:Pending|Waiting): (?P<num_requests_waiting>\d+) reqs",
    ),
    _rule(
        Step.NOTE,
        "Releasing expired KV blocks",
        r"Releasing expired KV blocks for request (?P<expired_request>\S+)",
    ),
    _rule(Step.NOTE, "is preempted by", r"total_num_cumulative_preemption=(?P<num_preemptions>\d+)"),
    _rule(Step.STOPPED, "trigger received signal", r"signal=(?P<signal>\w+)"),
    _rule(Step.STOPPED, "Shutting down", r"(?P<stopping>Shutting down)"),
    _rule(Step.STOPPED, "Shutdown initiated", r"(?P<stopping>Shutdown initiated)"),
    _rule(Step.NOTE, "Error: ", r"^(?P<cause>[\w.]*Error: (?!Engine core initialization failed).+)"),
)
# The fields of a line of statistics, wherever in it they stand.
_STATS = re.compile(
    r"Engine (?P<engine>\d+)|prompt throughput: (?P<prompt_tokens_per_s>NUM)|generation throughput:"
    r" (?P<generation_tokens_per_s>NUM)|Deferred: (?P<num_requests_deferred>\d+)|Preemptions: (?P<num_preemptions>\d+)"
    r"|KV cache usage: (?P<kv_cache_usage_percent>NUM)%|(?<!External )(?<!MM )(?:Prefix|prefix) cache hit rate:"
    r" (?P<prefix_cache_hit_percent>NUM)%"
    r"|External prefix cache hit rate: (?P<external_prefix_cache_hit_percent>NUM)%".replace("NUM", _NUM)
)
STARTS = (b"non-default args: ", b"LLM engine (v", b"vLLM API server version", b" KV cache size: ")
KEEP = needles(_RULES, rb"\) Process EngineCore")


def records(text: str) -> Iterator[Record]:
    """The records of a line. What stands before the first head is a record too: it may be no logger's."""
    heads = list(_HEAD.finditer(text))
    if not heads:
        tagged = _TAGGED.match(text)
        yield Record(tagged["tags"], "", text[tagged.end() :]) if tagged else Record("", "", text)
        return
    if before := text[: heads[0].start()].strip():
        yield Record("", "", before)
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=True):
        yield Record(head["tags"], head["time"], text[head.end() : end].strip())


def events_of(line: LogLine) -> Iterator[Event]:
    """Everything that a line says, record by record."""
    if said := told(line.text):
        yield Event(Step.UNIT, "", line.time, line, said.values)
        return
    for record in records(line.text):
        event = _event(record, line)
        if event is not None:
            yield event


def _event(record: Record, line: LogLine) -> Event | None:
    rank = engine_rank(record.tags)
    time = record.time or line.time
    for rule in _RULES:
        if match := rule.match(record.body):
            values = values_of(match) | process_ids(record.tags)
            if rule.step is Step.STATS:
                values |= _statistics(record.body)
                engine = values.pop("engine", None)
                rank = rank if engine is None else f"DP{int(engine)}"
            return Event(rule.step, rank, time, line, values)
    return None


def _statistics(body: str) -> dict[str, Value]:
    """V0 states the pool in host memory beside the device's: the second use of the line."""
    found: dict[str, Value] = {}
    for match in _STATS.finditer(body):
        for name, value in values_of(match).items():
            found.setdefault(f"cpu_{name}" if name == "kv_cache_usage_percent" and name in found else name, value)
    return found


def process_ids(tags: str) -> dict[str, Value]:
    """ "(APIServer pid=7)" and "(EngineCore_DP0 pid=8)": whose process it is."""
    names = {"APIServer": "api_server_pid", "ApiServer": "api_server_pid", "EngineCore": "engine_pid"}
    return {names[kind]: int(pid) for kind, pid in _PID.findall(tags)}


def engine_rank(tags: str) -> str:
    """ "(EngineCore_DP1 pid=7)" is "DP1"; the workers of one engine, and a server with one engine, have no rank."""
    match = _ENGINE.search(tags)
    return f"DP{int(match[1] or match[2])}" if match else ""
