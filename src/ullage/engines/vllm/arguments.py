"""vLLM's arguments: as it prints those that were set, as its config line states them, and on its command line."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from ...evidence import Argv, Evidence
from ...figure import Figure, Kind, Source, derived
from ..argv import Flag, flags_of, is_variable, positional
from ..facts import Facts, plain
from ..quantities import unit_of
from ..server import Role

# Arguments that bear on capacity or identity, by the name they have in EngineArgs. Others are not carried along.
WORDS = frozenset(
    """model served_model_name host uds kv_cache_dtype dtype quantization mamba_cache_mode kv_connector kv_role
    root_path api_key""".split()
)
SWITCHES = frozenset(
    """enable_prefix_caching enable_chunked_prefill scheduler_reserve_full_isl async_scheduling
    disable_hybrid_kv_cache_manager enforce_eager""".split()
)
NUMBERS = frozenset(
    """port max_model_len gpu_memory_utilization max_num_seqs max_num_batched_tokens block_size kv_cache_memory_bytes
    num_gpu_blocks_override tensor_parallel_size pipeline_parallel_size data_parallel_size data_parallel_size_local
    decode_context_parallel_size prefill_context_parallel_size num_speculative_tokens watermark max_num_queued_reqs
    max_num_queued_tokens api_server_count default_max_new_tokens""".split()
)
ARGUMENTS = WORDS | SWITCHES | NUMBERS
_RENAMED = {
    "model_tag": "model",
    "max_seq_len": "max_model_len",
    "kv_cache_memory": "kv_cache_memory_bytes",
    "kv_cache_dtype_str": "kv_cache_dtype",
}
_SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dpl": "data_parallel_size_local",
    "dcp": "decode_context_parallel_size",
    "pcp": "prefill_context_parallel_size",
    "q": "quantization",
    "sc": "speculative_config",
}
# Connectors between a prefill and a decode server; others (LMCache, Offloading, SharedStorage ...) keep KV elsewhere.
_PAIRS = re.compile(r"nixl|mooncake(?!store)|nccl|moriio|p2p", re.IGNORECASE)
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_FIELD = re.compile(
    r"['\"]?(?P<name>\w+)['\"]?\s*[:=]\s*(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\[\]]*\]|\{[^{}]*\}"
    r"|\w+\((?:[^()]|\([^()]*\))*\)|[^,'\"\[\]{}()]+)"
)


def is_vllm(words: Sequence[str]) -> bool:
    text = " ".join(words)
    return bool(re.search(r"(?:^|[ /])vllm serve\b|\bvllm\.entrypoints", text))


def from_argv(evidence: Evidence, argv: Argv) -> Facts:
    """Every flag that bears on capacity. An unexpanded shell variable is no value: it is noted and left out."""
    given = flags_of(argv.words, _RENAMED, _SHORT)
    if "model" not in given and (model := positional(argv.words, "serve")):
        given["model"] = model
    if "VLLM_API_KEY" in argv.environment:
        given.setdefault("api_key", argv.environment["VLLM_API_KEY"])
    unset = [
        f"--{name.replace('_', '-')} is {value}, a shell variable"
        for name, value in given.items()
        if is_variable(value) and name in ARGUMENTS
    ]
    values = {name: value for name, value in given.items() if not is_variable(value)}
    args = with_served_name(argument_figures(settled(values), Source(evidence.place or "--flags")))
    return Facts(evidence, "flags", args, role=role_of(args), notes=tuple(unset))


def printed(text: str) -> dict[str, object]:
    """`{'model': '...', 'max_model_len': 2048}`, `Namespace(model='...', ...)` or a config line, cut or whole.

    Values that are no Python literals stay as their text.
    """
    opened = text.find("(") + 1 if text.startswith("Namespace(") else 0
    return settled({match["name"]: _literal(match["value"].strip()) for match in _FIELD.finditer(text, opened)})


def settled(values: Mapping[str, object]) -> dict[str, object]:
    """By the names of EngineArgs, with what stands in nested settings: the connector, its role, draft tokens."""
    found: dict[str, object] = {}
    for name, value in values.items():
        if name.startswith("no_") and name[3:] in SWITCHES:
            found[name[3:]] = False
        elif value is not None:
            found.setdefault(_RENAMED.get(name, name), _read(name, value))
    return {**found, **dict(_nested(values))}


def argument_figures(values: Mapping[str, object], source: Source, kind: Kind = Kind.CONFIGURED) -> dict[str, Figure]:
    """The arguments that are set, each as what it is: a word, a switch, or a number."""
    figures = {}
    for name in sorted(ARGUMENTS & values.keys()):
        value = values[name]
        if isinstance(value, (int, float, str, bool)) and plain(value) and _fits(name, value):
            place = f"{source.place} {name}".strip()
            figures[name] = Figure(name, value, unit_of(name), kind, source._replace(place=place))
    return figures


def with_served_name(args: dict[str, Figure]) -> dict[str, Figure]:
    """A server whose arguments are shown and name none serves its model under the model's own name."""
    model = args.get("model")
    if model is None or "served_model_name" in args:
        return args
    note = "the model's, where --served-model-name is not given"
    return {**args, "served_model_name": derived("served_model_name", str(model.value), "", (model,), note)}


def role_of(args: Mapping[str, Figure]) -> Role:
    """By `kv_role`. A connector of pairs that serves both ways ("kv_both", as most set-ups say) does not tell the side;
    with one that only keeps or offloads KV, or without any, a server is whole.
    """
    role, connector = args.get("kv_role"), args.get("kv_connector")
    stated = {"kv_producer": Role.PREFILL, "kv_consumer": Role.DECODE}.get(str(role.value) if role else "")
    if stated is not None:
        return stated
    return Role.UNKNOWN if connector is not None and _PAIRS.search(str(connector.value)) else Role.UNIFIED


def _nested(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    transfer = str(values.get("kv_transfer_config") or "")
    for name in ("kv_connector", "kv_role"):
        if match := re.search(rf"\b{name}['\"]?\s*[:=]\s*['\"](\w+)", transfer):
            yield name, match[1]
    speculative = str(values.get("speculative_config") or "")
    if match := re.search(r"num_spec\w*_tokens['\"]?\s*[:=]\s*(\d+)", speculative):
        yield "num_speculative_tokens", int(match[1])
    override = str(values.get("override_generation_config") or "")
    if match := re.search(r"max_new_tokens['\"]?\s*[:=]\s*(\d+)", override):
        yield "default_max_new_tokens", int(match[1])


def _read(name: str, value: object) -> object:
    if isinstance(value, list):
        return str(value[0]) if value and name == "served_model_name" else str(value)
    if isinstance(value, str) and name in NUMBERS and (match := _HUMAN.fullmatch(value)):
        return int(float(match[1]) * _SUFFIXES[match[2]])  # vLLM's human_readable_int: 1k = 1,000, 1K = 1,024
    return value if isinstance(value, (str, int, float, bool)) else json.dumps(value, default=str)


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _fits(name: str, value: Flag) -> bool:
    """A number where the engine takes one. `-1` and `auto` ask for the longest context that fits."""
    if name in SWITCHES:
        return isinstance(value, bool)
    if name in WORDS:
        return True
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
