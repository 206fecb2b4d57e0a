"""llama.cpp's log lines, of every era since 2024: what each states, and which of them a log reader has to keep.

A line begins with what the library or the server calls itself (`llama_kv_cache: size = ...`, `srv  load_model: ...`),
behind an elapsed time and a level in builds since the beginning of 2026 (`0.00.666.319 I `), or behind the port of the
child whose line a router passes on (`[37655] `).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto

from ...evidence import Log, LogLine
from ..events import Event, LineRule, Value, numbers
from ..unit_lines import told


class Step(Enum):
    BEGIN = auto()  # the first lines of a process
    LOAD = auto()  # a model is loaded
    MODEL = auto()  # what the model is
    CONTEXT = auto()  # a context is made
    CACHE = auto()  # the name of the cache whose size comes next
    KV = auto()  # the size of a cache
    BUFFER = auto()  # memory of one device
    BREAKDOWN = auto()  # all memory of one device, at the end or where it was projected
    DEVICE = auto()  # what a device had before anything was loaded
    MMPROJ = auto()  # what the projector of a multimodal model takes
    SLOTS = auto()
    READY = auto()
    ROUTER = auto()  # no model in this process
    RUN = auto()
    TROUBLE = auto()
    UNIT = auto()  # systemd
    NOTE = auto()


_PREFIX = re.compile(
    r"(?:\[\d{4}-\d\d-\d\d[^\]]{0,40}\] )?(?:\[(?:INFO|ERROR|WARN|DEBUG)\] )?(?:\[ *(?P<child>\d{4,5})\] )?"
    r"(?:(?P<minutes>\d+)\.(?P<seconds>\d\d)\.(?P<millis>\d{3})\.\d{3} )?(?:[IWEDT] )?\s*"
)
_NUM = r"[0-9]+(?:\.[0-9]+)?"
_NO_NUMBERS = frozenset({"commit", "loader_path", "model_path", "device", "draft_model", "gfx"})


_KV = r"K \((?P<k>\w+)\): +(?P<k_mib>NUM) MIB, V \((?P<v>\w+)\): +(?P<v_mib>NUM) MIB"
_RS = r"R \((?P<r>\w+)\): +(?P<r_mib>NUM) MIB, S \((?P<s>\w+)\): +(?P<s_mib>NUM) MIB"
_DEVICE = r"(?P<device>(?:[\w() /.-]|\[[^\]]*\])+?)"  # `CUDA0`, `HTP1-REPACK`, `RPC0[10.0.0.2:50052]`
_SPEED = r"\( *NUM ms per token, +(?P<{}_tok_s>NUM) tokens"


def _rule(step: Step, needle: str, pattern: str) -> LineRule:
    return LineRule(step, needle, pattern.replace("NUM", _NUM).replace(" MIB", r" +MiB"))


# (step, a literal that stands in every such line, the quantities as named groups); the first that fits counts.
_RULES = (
    _rule(Step.BEGIN, "print_info: build ", r"build (?P<build>\d+) \((?P<commit>\w+)\)"),
    _rule(Step.BEGIN, "print_info: verbosity", r"verbosity = (?P<verbosity>\d+)"),
    _rule(Step.BEGIN, "build: ", r"\bbuild: (?P<build>\d+) \((?P<commit>[0-9a-f]{7,})\)"),
    _rule(Step.BEGIN, "build_info: b", r"build_info: b(?P<build>\d+)-(?P<commit>\w+)"),
    _rule(Step.BEGIN, "build info |", r"build=(?P<build>\d+)(?: commit=\"(?P<commit>\w+)\")?"),
    _rule(Step.BEGIN, "system_info: n_threads", r"n_threads = (?P<n_threads>\d+)"),
    _rule(Step.BEGIN, "llama_server: initializing ...", r"llama_server: initializing"),
    _rule(
        Step.BEGIN,
        "n_parallel is set to auto",
        r"n_parallel = (?P<n_slots>\d+) and kv_unified = (?P<kv_unified>\w+)",
    ),
    _rule(
        Step.BEGIN, "sizing KV pool to", r"n_parallel \* kv_unified_per_slot = (?P<n_slots>\d+) \* \d+ = (?P<n_ctx>\d+)"
    ),
    _rule(Step.BEGIN, "embeddings enabled with n_batch", r"(?P<embedding>embeddings enabled)"),
    _rule(Step.BEGIN, "llama-server", r"llama-server(?:\.exe)?['\"]? (?P<command>-.+)"),
    _rule(
        Step.BEGIN,
        "no API key is set",
        r"(?P<open_to_browsers>CORS \w.*no API key|no API key is set and CORS allows all)",
    ),
    _rule(Step.ROUTER, "no model will be loaded in this process", r"(?P<router>starting router server)"),
    _rule(Step.ROUTER, "starting server in router mode", r"(?P<router>starting server in router mode)"),
    _rule(Step.ROUTER, "router server is listening", r"listening on https?://(?P<host>\[?[\w.:-]+?\]?):(?P<port>\d+)"),
    _rule(Step.ROUTER, "local model presets", r"Loaded (?P<models_presets>\d+) local model presets"),
    _rule(Step.ROUTER, "Available models (", r"Available models \((?P<models_available>\d+)\)"),
    _rule(Step.ROUTER, "spawning server instance", r"name=(?P<spawned>.+?) on port (?P<spawned_port>\d+)"),
    _rule(Step.LOAD, "loading draft model '", r"loading draft model '(?P<draft_model>[^']+)'"),
    _rule(Step.LOAD, "creating MTP", r"(?P<mtp>creating MTP)"),
    _rule(Step.LOAD, "loading model '", r"load_model: loading model '(?P<model_path>[^']+)'"),
    _rule(Step.LOAD, "main: loading model", r"main: loading model"),
    _rule(
        Step.LOAD,
        "llama_model_loader: loaded meta data",
        r"loaded meta data with .+? from (?P<loader_path>.+?) \(version",
    ),
    _rule(Step.TROUBLE, "failed to load model", r"(?P<refusal>failed to load model.*)"),
    _rule(Step.TROUBLE, "error loading model", r"(?P<refusal>error loading model.*)"),
    _rule(Step.TROUBLE, "failed to create context with model", r"(?P<refusal>failed to create context with model.*)"),
    _rule(Step.TROUBLE, "failed to create_context", r"(?P<refusal>failed to create_context.*)"),
    _rule(
        Step.TROUBLE, "failed to allocate buffer for kv cache", r"(?P<refusal>failed to allocate buffer for kv cache)"
    ),
    _rule(Step.TROUBLE, "failed to initialize the context", r"(?P<refusal>failed to initialize the context.*)"),
    _rule(Step.TROUBLE, "couldn't bind", r"(?P<refusal>couldn't bind.*)"),
    _rule(Step.TROUBLE, "exiting due to ", r"(?P<refusal>exiting due to .*)"),
    _rule(
        Step.TROUBLE,
        "out of memory",
        r"(?P<memory_refusal>(?:cudaMalloc failed: )?out of memory.*)",
    ),
    _rule(Step.MODEL, "n_ctx_train", r"(?:print_info|print_meta): n_ctx_train +=? ?(?P<n_ctx_train>\d+)$"),
    _rule(Step.MODEL, "n_ctx_train", r"\bn_ctx_(?:per_)?seq \(\d+\) [<>] n_ctx_train \((?P<n_ctx_train>\d+)\)"),
    _rule(Step.MODEL, "n_embd_k_gqa", r"(?:print_info|print_meta): n_embd_k_gqa += (?P<n_embd_k_gqa>\d+)$"),
    _rule(Step.MODEL, "n_embd_v_gqa", r"(?:print_info|print_meta): n_embd_v_gqa += (?P<n_embd_v_gqa>\d+)$"),
    _rule(Step.MODEL, "n_layer ", r"(?:print_info|print_meta): n_layer += (?P<n_layer>\d+)$"),
    _rule(Step.MODEL, "n_swa ", r"(?:print_info|print_meta): n_swa += (?P<n_swa>\d+)$"),
    _rule(Step.MODEL, "model params ", r"model params += (?P<model_params>NUM [BMTK])"),
    _rule(Step.MODEL, "file type ", r"file type += (?P<file_type>.+?)\s*$"),
    _rule(Step.MODEL, "model ftype ", r"model ftype += (?P<file_type>.+?)\s*$"),
    _rule(Step.MODEL, "file size ", r"file size += (?:(?P<file_size_gib>NUM) GiB|(?P<file_size_mib>NUM) MiB)"),
    _rule(Step.MODEL, "model size ", r"model size += (?:(?P<file_size_gib>NUM) GiB|(?P<file_size_mib>NUM) MiB)"),
    _rule(Step.MODEL, "general.name ", r"(?:print_info|print_meta): general\.name += (?P<general_name>.+?)\s*$"),
    _rule(Step.MODEL, "arch ", r"(?:print_info|print_meta): arch += (?P<arch>\S+)$"),
    _rule(Step.MODEL, "offloaded ", r"offloaded (?P<offloaded_layers>\d+)/(?P<offloadable_layers>\d+) layers to GPU"),
    _rule(Step.DEVICE, "using device ", rf"using device {_DEVICE} \(.*\) - +(?P<free_before>\d+) MiB free"),
    _rule(
        Step.DEVICE, " MiB free)", rf"(?:^|: +)- {_DEVICE} *: .*\((?P<total>\d+) MiB, (?P<free_before>\d+) MiB free\)"
    ),
    _rule(
        Step.DEVICE,
        " total, ",
        rf"- {_DEVICE} \(.*\): +(?P<total>\d+) total, +(?P<use>\d+) used, +(?P<left>-?\d+) (?:free|surplus|deficit)",
    ),
    _rule(
        Step.DEVICE, "VRAM: ", r"^Device (?P<number>\d+): .*, (?:(?P<gfx>gfx)\w+|compute) .*VRAM: (?P<total>\d+) MiB"
    ),
    _rule(Step.MMPROJ, "CLIP using ", r"CLIP using (?P<device>\S+) backend"),
    _rule(Step.MMPROJ, "model size:", r"load_hparams: model size: +(?P<weights>NUM) MIB"),
    _rule(Step.MMPROJ, "compute_meta: ", rf"compute_meta: +{_DEVICE} +compute buffer size = *(?P<compute>NUM) MIB"),
    _rule(
        Step.NOTE,
        "projected to use ",
        r"projected to use (?P<fit_use_mib>\d+) MiB of \w+ memory vs\. (?P<fit_free_mib>\d+) MiB",
    ),
    _rule(
        Step.NOTE,
        "memory usage of ",
        r"memory usage of (?:mmproj is (?P<mmproj_mib>NUM)|[\w -]+ context is (?P<spec_context_mib>NUM)) MiB",
    ),
    _rule(Step.NOTE, "will leave ", r"will leave (?P<fit_left_mib>\d+) >= (?P<fit_target_mib>\d+) MiB"),
    _rule(
        Step.NOTE,
        "context size reduced from ",
        r"reduced from (?P<fit_ctx_before>\d+) to (?P<fit_ctx_after>\d+)",
    ),
    _rule(Step.CONTEXT, "constructing llama_context", r"(?P<constructing>constructing) llama_context"),
    _rule(Step.CONTEXT, "rounding down to ", r"divisible by n_seq_max - rounding down to (?P<n_ctx>\d+)"),
    _rule(Step.CONTEXT, "n_seq_max ", r"llama_\w+: n_seq_max += (?P<n_seq_max>\d+)$"),
    _rule(Step.CONTEXT, "n_ctx_per_seq ", r"llama_\w+: n_ctx_per_seq += (?P<n_ctx_seq>\d+)$"),
    _rule(Step.CONTEXT, "n_ctx_seq ", r"llama_\w+: n_ctx_seq += (?P<n_ctx_seq>\d+)$"),
    _rule(Step.CONTEXT, "n_ctx ", r"llama_\w+: n_ctx += (?P<n_ctx>\d+)$"),
    _rule(Step.CONTEXT, "n_batch ", r"llama_\w+: n_batch += (?P<n_batch>\d+)$"),
    _rule(Step.CONTEXT, "n_ubatch ", r"llama_\w+: n_ubatch += (?P<n_ubatch>\d+)$"),
    _rule(Step.CONTEXT, "n_rs_seq ", r"llama_\w+: n_rs_seq += (?P<n_rs_seq>\d+)$"),
    _rule(Step.CONTEXT, "flash_attn ", r"llama_\w+: flash_attn += (?P<flash_attn>\w+)$"),
    _rule(Step.CONTEXT, "kv_unified ", r"llama_\w+: kv_unified += (?P<kv_unified>\w+)$"),
    _rule(Step.CACHE, "KV cache, size =", r"creating +(?P<cache>[\w -]+?) KV cache, size = +(?P<cells>\d+) cells"),
    _rule(Step.CACHE, "creating DSV4 raw KV cache", r"(?P<cache>DSV4 raw) KV cache"),
    _rule(
        Step.KV,
        " cells,",
        r"size = +(?P<mib>NUM) MIB \( *(?P<cells>\d+) cells, +(?P<layers>\d+) layers"
        rf"(?:, +(?P<seqs>\d+)/ *(?P<streams>\d+) seqs|, +(?P<seqs_>\d+) seqs)?[^)]*\)(?:, {_KV})?(?:, {_RS})?",
    ),
    _rule(Step.KV, " cells,", r"size = +(?P<mib>NUM) MIB \( *(?P<cells>\d+) cells,\s*$"),
    _rule(
        Step.KV,
        "self size ",
        rf"self size += +(?P<mib>NUM) MIB(?:, {_KV})?(?:, {_RS})?",
    ),
    _rule(
        Step.KV,
        "kv_size = ",
        r"kv_size = (?P<cells>\d+),.* type_k = '(?P<k>\w+)', type_v = '(?P<v>\w+)', n_layer = (?P<layers>\d+)",
    ),
    _rule(
        Step.BREAKDOWN,
        "memory_breakdown_print: |",
        r"- (?P<device>[\w -]*?\w)(?: \(.*\))? +\|(?: +(?P<total>\d+) = +(?P<free>\d+) \+ \()? *(?P<self>\d+) ="
        r" +(?P<model>\d+) \+ +(?P<context>\d+) \+ +(?P<compute>\d+)(?:\) \+ +(?P<unaccounted>-?\d+))?",
    ),
    _rule(
        Step.BUFFER,
        " buffer size",
        rf": +{_DEVICE} +(?P<what>KV|RS|LoRA|compute|input|output|model|DSV4 \w+ state) buffer size *="
        r" *(?P<mib>NUM) MIB",
    ),
    _rule(Step.BUFFER, " buffer size", rf"llm_load_tensors: +{_DEVICE} +buffer size = *(?P<mib>NUM) MIB"),
    _rule(
        Step.SLOTS,
        "initializing, n_slots",
        r"n_slots = (?P<n_slots>\d+), n_ctx_slot = (?P<n_ctx_slot>\d+), kv_unified = '(?P<kv_unified>\w+)'",
    ),
    _rule(Step.SLOTS, "initializing slots", r"n_slots ?= ?(?P<n_slots>\d+)"),
    _rule(Step.SLOTS, "new slot", r"new slot\b.*?n_ctx(?:_slot)? ?= ?(?P<n_ctx_slot>\d+)"),
    _rule(
        Step.SLOTS,
        "capping per-slot context",
        r"context \((?P<n_ctx_seq>\d+)\) to --kv-unified-per-slot \((?P<kv_unified_per_slot>\d+)\)",
    ),
    _rule(
        Step.SLOTS,
        "exceeds the training context",
        r"slot context \((?P<n_ctx_seq>\d+)\) exceeds the training context of the model \((?P<n_ctx_train>\d+)\)",
    ),
    _rule(Step.SLOTS, "prompt cache is enabled", r"size limit: (?:(?P<cache_ram_mib>\d+) MiB|(?P<cache_ram>no limit))"),
    _rule(Step.SLOTS, "prompt cache is disabled", r"prompt cache is (?P<cache_ram>disabled)"),
    _rule(Step.SLOTS, "context checkpoints enabled", r"max = (?P<ctx_checkpoints>\d+)"),
    _rule(Step.READY, "server is listening on http", r"listening on https?://(?P<host>\[?[\w.:-]+?\]?):(?P<port>\d+)"),
    _rule(Step.READY, "llama_server: listening on", r"listening on https?://(?P<host>\[?[\w.:-]+?\]?):(?P<port>\d+)"),
    _rule(Step.NOTE, "HTTP server is listening", r"hostname: (?P<host>\S+), port: (?P<port>\d+)"),
    _rule(Step.READY, "all slots are idle", r"(?P<idle>all slots are idle)"),
    _rule(Step.READY, ": model loaded", r"(?:main|llama_server): (?P<loaded>model loaded)"),
    _rule(Step.RUN, "| processing task", r"id +(?P<slot>\d+) \| task (?P<task>\d+) \| (?P<launched>processing task)"),
    _rule(
        Step.RUN,
        "stop processing",
        r"id +(?P<slot>\d+) \| task (?P<task>-?\d+) \| stop processing: n_(?:tokens|past) = (?P<released_tokens>\d+)"
        r"(?:, truncated = (?P<truncated>\d))?",
    ),
    _rule(  # until autumn 2024
        Step.RUN,
        "slot is processing task",
        r"(?P<launched>slot is processing) task .*id_slot=(?P<slot>\d+) id_task=(?P<task>\d+)",
    ),
    _rule(
        Step.RUN,
        "slot released",
        r"slot released .*id_slot=(?P<slot>\d+) id_task=(?P<task>-?\d+) .*n_past=(?P<released_tokens>\d+)",
    ),
    _rule(
        Step.RUN,
        "prompt eval time",
        r"prompt eval time += +NUM ms / +(?P<prompt_tokens>\d+) tokens " + _SPEED.format("prompt"),
    ),
    _rule(
        Step.RUN,
        "eval time =",
        r"eval time = +NUM ms / +(?P<eval_tokens>\d+) (?:tokens|runs) +" + _SPEED.format("eval"),
    ),
    _rule(
        Step.RUN,
        "draft acceptance",
        r"draft acceptance(?: rate)? = (?P<draft_acceptance>NUM) \( *(?P<draft_accepted>\d+) accepted",
    ),
    _rule(Step.RUN, "context checkpoint", r"context checkpoint.*?size = (?P<checkpoint_mib>NUM) MiB"),
    _rule(Step.RUN, "cache state: ", r"cache state: (?P<cached_prompts>\d+) prompts, (?P<cached_prompts_mib>NUM) MiB"),
    _rule(Step.RUN, "making room for prompt cache", r"(?P<cache_evicted>making room) for prompt cache entry"),
    _rule(
        Step.RUN, "purging slot ", r"(?P<purged>purging slot) (?P<purged_slot>\d+) with (?P<purged_tokens>\d+) tokens"
    ),
    _rule(
        Step.RUN, "failed to find free space in the KV cache", r"(?P<kv_full>failed to find free space in the KV cache)"
    ),
    _rule(
        Step.RUN,
        "Context size has been exceeded",
        r"task id = (?P<failed_task>\d+), error: Context"
        r"|(?P<context_exceeded>Context size has been exceeded)\.?,? +\w+ =",
    ),
    _rule(
        Step.RUN,
        "the available context size",
        r"request (?:\((?P<refused_tokens>\d+) tokens\) )?(?P<too_long>exceeds the available context size)",
    ),
    _rule(Step.NOTE, "llama runner started", r"(?P<ollama>llama runner started)"),
    _rule(Step.NOTE, "ntering sleeping state", r"(?P<sleeping>entering) sleeping state"),
    _rule(Step.NOTE, "exiting sleeping state", r"(?P<woken>exiting) sleeping state"),
    _rule(
        Step.UNIT,
        "systemd[",
        r"^systemd\[\d+\]: (?:\[\S+\] )?(?:.*?: )?(?:Started (?P<unit>.+?)\.?$|(?P<killed_by>systemd-oomd) killed"
        r"|Main process exited, code=(?P<exit_code>[\w-]+)|Failed with result '(?P<result>[\w-]+)'"
        r"|Consumed .*?(?P<memory_peak_gib>NUM)G memory peak|.*restart counter is at (?P<restart_counter>\d+))",
    ),
)
# What a log reader has to keep for these rules: fewer words than they have, for each is looked for in the whole log.
_KEPT = (
    # of a start, by who says it
    *("llama_context: ", "llama_kv_cache", "llama_memory_rec", "print_info: ", "llm_load_", "load_tensors: "),
    *("llama_model_loader: loaded", "llama_model_load: error", "llama_new_context", "llama_init_from_model: "),
    *(
        " KV buffer size",
        "KV self size",
        "creating MTP",
        "loading draft model",
        "sched_reserve: ",
        "params_fit_impl: ",
        "memory_breakdown_print: |",
        "load_model: ",
        "llama_server: ",
    ),
    *(
        "embeddings enabled with n_batch",
        "build: ",
        "build_info: b",
        "build info |",
        "system_info: n_threads",
        "common_params_print_info: ",
    ),
    *(
        "n_parallel is set to auto",
        "init: kv_size",
        "initializing slots",
        "new slot",
        ": model loaded",
        "using device ",
        " MiB free)",
        "VRAM: ",
        "clip_ctx: CLIP using ",
        "load_hparams: model size:",
        "compute_meta: ",
        "LoRA buffer size",
    ),
    *("server is listening", "all slots are idle", "main: loading model", "load_models: ", "Available models ("),
    *("starting router server", "spawning server instance", "llama-server", "sleeping state", "systemd["),
    *(
        "failed to load model",
        "failed to create",
        "failed to allocate buffer for kv",
        "failed to initialize the context",
    ),
    *("couldn't bind", "exiting due to ", "out of memory"),
    # of a run
    *("processing task", "stop processing", "eval time ", "draft acceptance", "context checkpoint", "cache state: "),
    *("making room for prompt", "purging slot ", "failed to find free space", "Context size has been exceeded"),
    *("the available context size", "slot released", "llama runner started"),
)
KEEP = re.compile(b"|".join(re.escape(words.encode()) for words in _KEPT))
STARTS = (b"print_info: verbosity", b"build_info: b", b"system_info: n_threads", b"load_model: loading model '")


def events_of(log: Log) -> Iterator[Event]:
    return (event for line in log.lines if (event := event_of(line)))


def event_of(line: LogLine) -> Event | None:
    """None for a line that says nothing of a start or a run. The rank is the port of a router's child."""
    prefix = _PREFIX.match(line.text)
    assert prefix is not None, "every part of it may be absent"
    body = line.text[prefix.end() :]
    for rule in _RULES:
        if match := rule.match(body):
            return Event(rule.step, prefix["child"] or "", _time(prefix, line), line, _values(match))
    return Event(Step.UNIT, "", line.time, line) if told(line.text) else None


def _time(prefix: re.Match[str], line: LogLine) -> str:
    """As the collector printed it, else the time since the process began."""
    since = f"{prefix['minutes']}:{prefix['seconds']}.{prefix['millis']} after its start" if prefix["minutes"] else ""
    return line.time or since


def _values(match: re.Match[str]) -> dict[str, Value]:
    """`seqs_` is `seqs` where the line has another form."""
    stated = ((name.rstrip("_"), text) for name, text in match.groupdict().items() if text is not None)
    return numbers(stated, _NO_NUMBERS)
