"""Whose evidence is it? Signs that only one engine leaves, cheap to look for: no engine's reader is loaded for others'.

An item that bears no sign of its own is offered to every engine, so a sign only has to be right, not complete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..evidence import Argv, Document, Evidence, Log, Samples
from ..quoting import in_quotes


class Signs(NamedTuple):
    """`series`: how the names of its metrics begin. `owner`: as /v1/models says. `keys`: of its JSON answers.
    `topics`: endpoints that it alone serves. `lines`: words that only its log prints. `command`: its command line.
    """

    engine: str
    series: tuple[str, ...]
    owner: str
    keys: frozenset[str]
    topics: frozenset[str]
    lines: str
    command: str


SIGNS = (
    Signs(
        "SGLang",
        ("sglang:", "sglang_"),
        "sglang",
        frozenset(["internal_states", "mem_fraction_static", "is_generation", "dp_rank"]),
        frozenset(),
        r"server_args=|ax_total_num_token|#running-req|#queue-req|Load weight (?:begin|end)|#tokens: \d",
        r"sglang\.launch_server|sglang/launch_server|\bsglang serve\b|\bullage[./]tank[./]worker\b",
    ),
    Signs(
        "vLLM",
        ("vllm:",),
        "vllm",
        frozenset(["vllm_config"]),
        frozenset(["version", "vllm_config"]),
        r"KV cache size: [\d,]+ tokens|vLLM API server|\bV[01] LLM engine|KV cache usage: |(?:GPU|cuda|CPU|rocm)"
        r" blocks: \d|Maximum concurrency for |Available KV cache memory|\((?:EngineCore|APIServer|VllmWorker)[_ ]"
        r"|model's max seq len \(|desired GPU memory utilization|Model loading took [\d.]+ Gi?B|LLMEngine"
        r"|Loading model weights took [\d.]+ GB|Using max model len \d",
        r"\bvllm serve\b|\bvllm\.entrypoints",
    ),
    Signs(
        "llama.cpp",
        ("llamacpp:",),
        "llamacpp",
        frozenset(["default_generation_settings", "is_processing", "total_slots"]),
        frozenset(["props", "slots"]),
        r"\b(?:llama_(?:context|kv_cache\w*|model_load\w*|new_context_with_model|init_from_model|memory_\w+"
        r"|params_fit\w*|server)|llm_load_\w+|common_(?:params|init|perf|memory_breakdown)\w*|sched_reserve): "
        r"|\bbuild(?:: |_info: b)\d+[ -]\(?[0-9a-f]{7}|\bsystem_info: n_threads = |\b(?:srv|slot|cmn) +\w+: "
        r"|\bn_ctx_slot|\brouter server,? (?:no model|is listening)|^systemd\[\d+\]: .*llama[-_.]?(?:cpp|server)",
        r"llama[-_]server|llama\.cpp:\S*server|llama\.cpp:full\S* (?:--server|-s)\b|(?:^|[\s/])llama(?:\.exe)? serve\b",
    ),
)
# Engines that Ullage does not read yet, so that it can say whose a page is.
_OTHERS = (("trtllm", "TensorRT-LLM"), ("nv_trt_llm", "TensorRT-LLM"), ("tgi_", "TGI"), ("lmdeploy:", "LMDeploy"))


def engine_of(item: Evidence) -> str:
    """The engine whose signs an item bears, "" where it bears none."""
    content = item.content
    if isinstance(content, Samples):
        return _by_series({sample.name for sample in content.samples})
    if isinstance(content, Log):
        return _by_lines([line.text for line in content.lines])
    if isinstance(content, Argv):
        text = " ".join(content.words)
        return next((signs.engine for signs in SIGNS if re.search(signs.command, text)), "")
    if isinstance(content, Document):
        return _by_document(content.data) or next((s.engine for s in SIGNS if item.topic in s.topics), "")
    return ""


def _by_series(names: set[str]) -> str:
    prefixes = [(prefix, signs.engine) for signs in SIGNS for prefix in signs.series]
    return next((engine for prefix, engine in (*prefixes, *_OTHERS) if any(n.startswith(prefix) for n in names)), "")


def _by_lines(texts: Sequence[str]) -> str:
    """The engine that prints most of the lines: one can quote another's, or print a line that both have."""
    found: Counter[str] = Counter()
    for text in texts:
        for signs in SIGNS:
            match = re.search(signs.lines, text)
            if match and not in_quotes(text, match.start()):
                found[signs.engine] += 1
    return found.most_common(1)[0][0] if found else ""


def _by_document(data: Any) -> str:
    first = next(iter(data), None) if isinstance(data, list) else data
    if not isinstance(first, dict):
        return ""
    for signs in SIGNS:
        if signs.keys & first.keys():
            return signs.engine
    models = first.get("data")
    owners = {m.get("owned_by") for m in models if isinstance(m, dict)} if isinstance(models, list) else set()
    return next((signs.engine for signs in SIGNS if signs.owner in owners), "")
