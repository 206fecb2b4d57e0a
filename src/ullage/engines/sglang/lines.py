"""What one SGLang start-up line says: a kind, and the quantities in it. Every era whose format is known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from ...evidence import LogLine
from ..events import Event, LineRule, Value, needles, numbers
from ..unit_lines import told


class Step(Enum):
    """Where in a start a line stands: starts are told apart by these, and a draft model's pools from the target's."""

    UNIT = "unit"  # systemd speaks of one
    ARGS = "server args"
    LOAD_BEGIN = "load begin"
    LOAD_END = "load end"
    KV = "kv"
    POOL_END = "pool end"
    SUMMARY = "summary"
    READY = "ready"
    NOTE = "note"  # says something, marks nothing
    BATCH = "batch"
    RETRACT = "retract"
    TROUBLE = "trouble"


# What a program that runs the engine within its own logging prints before the message: Dynamo's
# "2026-05-27T20:15:08Z  INFO scheduler.init_model_worker: ", and the usual forms of Python's logging.
_LEVEL = r"\[?(?:DEBUG|INFO|WARN|WARNING|ERROR)\]?"
_LOGGER = r"[A-Za-z_][\w.]*(?::\d+)?"
_HEADER = (
    r"(?: ?(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)Z? {1,3})?(?:- )?"
    rf"(?: ?{_LEVEL}(?::| -)? {{1,3}}(?:{_LOGGER}(?::| -) )?|{_LOGGER} - {_LEVEL} - |{_LEVEL}:{_LOGGER}:)"
)
_TAG = re.compile(
    rf"(?:{_HEADER})?"
    r"(?:\[(?P<time>(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<rank>(?: [A-Z_]+\d+)*)\]"
    r" ?(?:(?:INFO|WARNING|ERROR|DEBUG) \S+\.py:\d+: )?)?"
    r"(?:(?:\[gpu(?:_id)?=|Rank )(?P<gpu>\d+)[\]:] ?)?"  # until the middle of 2024
)
_NUM = r"[0-9]+(?:\.[0-9]+)?"
_GB = r" ?GB"


def _rule(step: Step, needle: str, pattern: str) -> LineRule:
    return LineRule(step, needle, pattern.replace("NUM", _NUM).replace(" GB", _GB))


# (step, a literal that stands in every such line, the quantities as named groups)
_RULES = (
    _rule(Step.NOTE, "Init torch distributed ends", r"mem usage=(?P<distributed_gib>NUM) GB"),
    # The steps are told of by a line that is cut, too, if it begins with its words.
    _rule(
        Step.LOAD_BEGIN,
        "Load weight begin",
        r"(?:^|(?=.*avail mem=NUM GB))Load weight begin(?=.*?avail mem=(?P<avail_before_weights_gib>NUM) GB|)",
    ),
    _rule(
        Step.LOAD_END,
        "Load weight end",
        r"(?:^|(?=.*avail mem=NUM GB))Load weight end(?=\.? elapsed=(?P<load_s>NUM) s,|)"
        r"(?=.*?type=(?P<model_class>\w+),|)(?=.*?avail mem=(?P<avail_after_weights_gib>NUM) GB|)"
        r"(?=.*?avail mem=NUM GB,? \(?mem usage=(?P<weights_gib>NUM) GB|)",
    ),
    _rule(Step.NOTE, "Using KV cache dtype", r"Using KV cache dtype: (?P<kv_cache_dtype>[\w.]+)"),
    _rule(
        Step.NOTE,
        "Memory profiling:",
        r"available_gpu_memory=(?P<profiled_available_gib>NUM) GB, total_gpu_memory=(?P<profiled_total_gib>NUM) GB, "
        r"mem_fraction_static=(?P<profiled_mem_fraction>NUM), rest_memory=(?P<rest_memory_gib>NUM) GB",
    ),
    _rule(
        Step.NOTE,
        "memory calculation:",
        r"bytes_per_full_token=(?P<bytes_per_full_token>NUM)(?=,)(?:.*?available_bytes=(?P<pool_budget_gib>NUM) GB)?"
        r"(?:.*?c128_state_fixed=(?P<c128_state_fixed_gib>NUM) GB)?(?:.*?swa_fixed=(?P<swa_fixed_gib>NUM)"
        r" GB)?(?:.*?full_token=(?P<calculated_tokens>\d+))?",
    ),
    _rule(Step.NOTE, "SWA sizing:", r"mode=(?P<swa_sizing_mode>\w+).*?swa_tokens=(?P<swa_max_total_num_tokens>\d+)"),
    _rule(
        Step.NOTE,
        "pool sizes:",
        r"full=(?P<full_tokens>\d+),(?: swa=(?P<swa_max_total_num_tokens>\d+),)?(?: c4=(?P<c4_tokens>\d+),)?"
        r"(?: c128=(?P<c128_tokens>\d+),)?(?: c4_state=(?P<c4_state_slots>\d+),)?"
        r"(?: c128_state=(?P<c128_state_slots>\d+))?",
    ),
    _rule(
        Step.NOTE,
        "full_layer_tokens=",
        r"full_layer_tokens=(?P<full_tokens>\d+)(?=\D)(?:, swa_layer_tokens=(?P<swa_max_total_num_tokens>\d+))?",
    ),
    _rule(
        Step.NOTE,
        "Mamba Cache is allocated",
        r"is allocated(?:.*?max_mamba_cache_size: (?P<max_mamba_cache_size>\d+)(?=,))?"
        r"(?:.*?conv_state size: (?P<mamba_conv_state_gib>NUM) GB)?"
        r"(?:.*?ssm_state size: (?P<mamba_ssm_state_gib>NUM) GB)?(?:.*?intermediate_ssm_state_cache size:"
        r" (?P<mamba_intermediate_ssm_gib>NUM) GB)?"
        r"(?:.*?intermediate_conv_window_cache size: (?P<mamba_intermediate_conv_gib>NUM) GB)?",
    ),
    _rule(  # 2026: a window model's pools by their label, "Full KV Cache" and "SWA KV Cache" (mem_cache/memory_pool.py)
        Step.NOTE,
        "SWA KV Cache is allocated",
        r"#tokens: (?P<swa_max_total_num_tokens>\d+), (?:K size: (?P<swa_kv_k_gib>NUM) GB,"
        r" V size: (?P<swa_kv_v_gib>NUM) GB|KV size: (?P<swa_kv_total_gib>NUM) GB)",
    ),
    _rule(
        Step.KV,
        "KV Cache is allocated",
        r"(?<!\w)KV Cache is allocated(?=.*?dtype: (?P<kv_cache_dtype>[\w.]+),|)"
        r"(?=.*?#tokens: (?P<kv_line_tokens>\d+),|)(?=.*? K size: (?P<kv_k_gib>NUM) GB,|)"
        r"(?=.*? V size: (?P<kv_v_gib>NUM) GB|)(?=.*?(?:KV|Cache) size: (?P<kv_total_gib>NUM) GB|)",
    ),
    # kvcached's pool is taken page by page as it fills; its line "VirtualKV Cache is allocated" counts addresses.
    _rule(Step.KV, "Physical KV Cache limits", r"#tokens: (?P<kv_line_tokens>\d+)"),
    _rule(
        Step.NOTE,
        "SWAKVPool mem usage",
        r"mem usage: (?P<full_and_swa_kv_gib>NUM) GB, swa size: (?P<swa_max_total_num_tokens>\d+), "
        r"full size: (?P<full_tokens>\d+)",
    ),
    _rule(
        Step.POOL_END,
        "Memory pool end",
        r"(?:^|(?=.*avail mem=NUM GB))Memory pool end(?=.*?avail mem=(?P<avail_after_pool_gib>NUM) GB|)",
    ),
    _rule(
        Step.NOTE,
        "raph end",  # until v0.4.4 what is free stands before what was taken
        r"Capture (?P<graph_phase>[\w ]*?) ?(?i:cuda|npu|xpu|hip|musa)? ?graph end(?=.*?elapsed[=:] ?(?P<graph_s>NUM)"
        r" s|)(?=.*?mem usage=(?P<graph_gib>NUM) GB|)(?=.*?avail mem=(?P<avail_after_graph_gib>NUM) GB|)",
    ),
    _rule(
        Step.NOTE,
        "raph begin",
        r"Capture (?P<graph_phase>[\w ]*?) ?(?i:cuda|npu|xpu|hip|musa)? ?graph begin(?:.*?bs=\[(?P<graph_sizes>[\d,"
        r" ]*)\])?(?:.*?avail mem=(?P<avail_before_graph_gib>NUM) GB)?",
    ),
    _rule(Step.NOTE, "graph bs [", r"graph bs \[(?P<graph_sizes>[\d, ]+)\]"),
    _rule(Step.NOTE, "Capturing batches", r"bs=(?P<graph_bs>\d+) avail_mem=(?P<avail_at_capture_gib>NUM) GB"),
    _rule(
        Step.NOTE,
        "max_running_requests was reduced",
        r"max_running_requests was reduced from (?:the )?requested (?P<requested_max_running>\d+) to"
        r" (?P<reduced_max_running>\d+)",
    ),
    _rule(
        Step.NOTE,
        "capped to",
        r"max_running_requests is capped to (?P<mamba_capped_max_running>\d+) by the mamba state cache",
    ),
    _rule(
        Step.NOTE,
        "larger than the profiled value",
        r"max_total_tokens=(?P<ignored_max_total_tokens>\d+) is larger than the profiled value",
    ),
    _rule(  # since August 2026 it states the pool as allocated (PR 33445); the lines before it state addresses
        Step.NOTE,
        "Post-capture KV sizing",
        r"sizing: (?=KV cache allocated|max_total_num_tokens)"
        r"(?=.*?(?:max_total_num_tokens=|#tokens: )(?P<post_capture_tokens>\d+)|)"
        r"(?=.*? K size: (?P<post_capture_k_gib>NUM) GB, V size: (?P<post_capture_v_gib>NUM) GB|)"
        r"(?=.*?KV size: (?P<post_capture_kv_gib>NUM) GB|)"
        r"(?=.*?(?:free memory|avail mem)=(?P<post_capture_free_gib>NUM) GB|)",
    ),
    _rule(
        Step.NOTE,
        "Post-capture KV sizing",
        r"max_running_requests \d+ -> (?P<reduced_max_running>\d+)",
    ),
    _rule(
        Step.NOTE,
        "host memory for hierarchical",
        r"Allocating (?P<hicache_host_gb>NUM) GB host memory for hierarchical",
    ),
    _rule(  # 2026, mem_cache/pool_host/base.py
        Step.NOTE,
        "hierarchical KV host pool",
        r"Allocating \S+ hierarchical KV host pool: \d+ tokens, (?P<hicache_host_gb>NUM) GB host memory",
    ),
    _rule(Step.NOTE, "host memory for DSA", r"Allocating (?P<hicache_host_gb>NUM) GB host memory for DSA indexer"),
    _rule(
        Step.TROUBLE,
        "Not enough host memory available",
        r"(?P<start_refused>Not enough host memory available)"
        r"(?:.*?Requesting (?P<refused_host_gb>NUM) GB but only have (?P<free_host_gb>NUM) GB free)?",
    ),
    _rule(
        Step.NOTE, "exceeds the maximum allowed length", r"maximum allowed length \((?P<max_req_input_len>\d+) tokens\)"
    ),
    _rule(Step.NOTE, "Uvicorn running on", r"Uvicorn running on https?://(?P<host>\[?[\w.:-]+?\]?):(?P<port>\d+)"),
    _rule(Step.SUMMARY, "ax_total_num_token", r"^[Mm]ax_total_num_tokens?=(?P<max_total_num_tokens>\d+)"),
    _rule(Step.READY, "fired up and ready to roll", r"fired up"),
    _rule(
        Step.TROUBLE,
        "leave no GPU memory for the KV cache",
        r"(?P<start_refused>[^:]*leave no GPU memory for the KV cache)"
        r"(?:.*?--mem-fraction-static=(?P<refused_mem_fraction>NUM)(?:.*? above (?P<least_mem_fraction>NUM))?)?",
    ),
    _rule(
        Step.TROUBLE,
        "Not enough memory. Please try",
        r"(?P<start_refused>Not enough memory\.[^.]*)(?:.*?mem_fraction_static=(?P<refused_mem_fraction>NUM))?",
    ),
    # in 2025 the overlap thread of a scheduler died apart from it
    _rule(Step.TROUBLE, " hit an exception", r"(?P<exception>(?:Scheduler|TpModelWorkerClient) hit an exception)"),
    _rule(
        Step.TROUBLE,
        "ransfer failed",
        r"(?P<failed_side>Prefill|Decode) transfer failed for request.*?bootstrap_room=(?P<failed_room>\d+)(?:.*?with"
        r" exception (?P<failed_why>.{1,160}))?",
    ),
    _rule(Step.NOTE, "ncclCommInitRank", r"rank (?P<nccl_rank>\d+) nranks (?P<nccl_ranks>\d+)"),
    _rule(Step.NOTE, "is deprecated and will be removed", r"Endpoint '(?P<deprecated_endpoint>/\w+)' is deprecated"),
    _rule(Step.NOTE, "isaggregation", r"(?P<pd_warmup>disaggregation)(?: mode)? warmup"),
)
_SUMMARY_FIELD = re.compile(rf"(\w+)=({_NUM})(?=,| GB|\s|$)")
_SUMMARY_NAMES = {
    "max_total_num_token": "max_total_num_tokens",
    "max_prefill_num_token": "max_prefill_tokens",
    "available_gpu_mem": "available_gpu_mem_gib",
    "available_cpu_mem": "available_gpu_mem_gib",  # of the engine on a CPU
}
_LAST_OF_OLD = "context_len"  # ends the line of builds before v0.5 (July 2025); since then memory does, with "GB"
# What the log reader has to keep for us; anything else on a server's output says nothing of capacity.
KEEP = needles(
    _RULES, b"server_args=", rb"(?:Prefill|Decode) batch|[Rr]etract|Starting router on|sgl-router|sglang-router"
)
STARTS = (b"server_args=", b"Load weight begin")


def split_tag(text: str) -> tuple[str, str, str]:
    """(time, rank, body) of a line: `[2026-02-27 14:33:22 TP1] Load weight begin` has time, rank "TP1"; untagged lines
    have neither. `[gpu_id=1]` is rank "TP1" too.
    """
    match = _TAG.match(text)
    assert match is not None, "every part of it may be absent"
    rank = match["rank"] or (f"TP{match['gpu']}" if match["gpu"] else "")
    return match["time"] or match["stamp"] or "", rank.strip(), text[match.end() :]


def is_tagged(line: LogLine) -> bool:
    """Does the engine's own tag, a time or a rank, stand before the line?"""
    time, rank, _ = split_tag(line.text)
    return bool(time or rank)


def start_event(line: LogLine) -> Event | None:
    """The event of a start-up line, or None for a line that says nothing of a start."""
    time, rank, body = split_tag(line.text)
    if body.startswith("server_args="):
        return Event(Step.ARGS, rank, time or line.time, line)
    for rule in _RULES:
        if match := rule.match(body):
            values = _summary(body, time) if rule.step is Step.SUMMARY else _values(match)
            return Event(rule.step, rank, time or line.time, line, values)
    said = told(line.text)
    return Event(Step.UNIT, "", line.time, line, said.values) if said else None


def _values(match: re.Match[str]) -> dict[str, Value]:
    return _numbers((name, text) for name, text in match.groupdict().items() if text is not None)


def _summary(body: str, time: str) -> dict[str, Value]:
    """Its fields, but for a last one that is cut: no version ends the line with it. Where a person ended it with a
    context, that is a round number, and half of one is not.
    """
    stated = [(found[1].lower(), found[2], found.end() < len(body)) for found in _SUMMARY_FIELD.finditer(body)]
    named = [(_SUMMARY_NAMES.get(name, name), text, closed) for name, text, closed in stated]
    is_old = not (time[:4].isdigit() and time >= "2026")
    return _numbers(
        (name, text)
        for name, text, closed in named
        if closed or len(named) == 1 or (name == _LAST_OF_OLD and (is_old or _is_round(text)))
    )


def _is_round(text: str) -> bool:
    return text.isdigit() and int(text) > 0 and (int(text) % 1024 == 0 or int(text) % 1000 == 0)


_IDENTIFIERS = frozenset({"failed_room"})  # digits that count nothing, however many they are


def _numbers(pairs: Iterable[tuple[str, str]]) -> dict[str, Value]:
    return numbers(pairs, _IDENTIFIERS)
