"""llama-server's command line and its environment: what was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ...evidence import Argv, Evidence
from ...figure import Figure, Kind, Source
from ..facts import Facts
from ..quantities import unit_of
from ..server import Role

# name of ours -> (flags that take a value, environment variable). common/arg.cpp of 2026-10, and older spellings.
_VALUES: dict[str, tuple[str, str]] = {
    "n_ctx": ("-c --ctx-size", "LLAMA_ARG_CTX_SIZE"),
    "n_parallel": ("-np --parallel", "LLAMA_ARG_N_PARALLEL"),
    "kv_unified_per_slot": ("--kv-unified-per-slot", "LLAMA_ARG_KV_UNIFIED_PER_SLOT"),
    "n_predict": ("-n --predict --n-predict", "LLAMA_ARG_N_PREDICT"),
    "n_batch": ("-b --batch-size", "LLAMA_ARG_BATCH"),
    "n_ubatch": ("-ub --ubatch-size", "LLAMA_ARG_UBATCH"),
    "cache_type_k": ("-ctk --cache-type-k", "LLAMA_ARG_CACHE_TYPE_K"),
    "cache_type_v": ("-ctv --cache-type-v", "LLAMA_ARG_CACHE_TYPE_V"),
    "cache_ram_mib": ("-cram --cache-ram", "LLAMA_ARG_CACHE_RAM"),
    "ctx_checkpoints": ("-ctxcp --ctx-checkpoints --swa-checkpoints", "LLAMA_ARG_CTX_CHECKPOINTS"),
    "fit": ("-fit --fit", "LLAMA_ARG_FIT"),
    "model_path": ("-m --model", "LLAMA_ARG_MODEL"),
    "hf_repo": ("-hf -hfr --hf-repo", "LLAMA_ARG_HF_REPO"),
    "model_url": ("-mu --model-url", "LLAMA_ARG_MODEL_URL"),
    "docker_repo": ("-dr --docker-repo", "LLAMA_ARG_DOCKER_REPO"),
    "model_alias": ("-a --alias", "LLAMA_ARG_ALIAS"),
    "draft_model": ("-md --model-draft --spec-draft-model", "LLAMA_ARG_SPEC_DRAFT_MODEL"),
    "host": ("--host", "LLAMA_ARG_HOST"),
    "port": ("--port", "LLAMA_ARG_PORT"),
    "api_key": ("--api-key", "LLAMA_API_KEY"),
    "api_key_file": ("--api-key-file", "LLAMA_ARG_API_KEY_FILE"),
    "models_dir": ("--models-dir", "LLAMA_ARG_MODELS_DIR"),
    "models_preset": ("--models-preset", "LLAMA_ARG_MODELS_PRESET"),
    "models_max": ("--models-max", "LLAMA_ARG_MODELS_MAX"),
}
# name of ours -> (flags that switch on, flags that switch off, environment variable)
_SWITCHES: dict[str, tuple[str, str, str]] = {
    "kv_unified": ("-kvu --kv-unified", "-no-kvu --no-kv-unified", "LLAMA_ARG_KV_UNIFIED"),
    "swa_full": ("--swa-full", "", "LLAMA_ARG_SWA_FULL"),
    "context_shift": ("--context-shift", "--no-context-shift", "LLAMA_ARG_CONTEXT_SHIFT"),
    "enable_metrics": ("--metrics", "", "LLAMA_ARG_ENDPOINT_METRICS"),
    "endpoint_slots": ("--slots", "--no-slots", "LLAMA_ARG_ENDPOINT_SLOTS"),
    "embedding": ("--embedding --embeddings", "", "LLAMA_ARG_EMBEDDINGS"),
    "reranking": ("--rerank --reranking", "", "LLAMA_ARG_RERANKING"),
    "models_autoload": ("--models-autoload", "--no-models-autoload", "LLAMA_ARG_MODELS_AUTOLOAD"),
}
# Flags that are not carried along, but whose value begins like a flag or stands where one could be looked for.
_OTHERS_WITH_VALUES = frozenset(
    """-t --threads -tb --threads-batch -ngl --gpu-layers --n-gpu-layers -ts --tensor-split -ot --override-tensor
    --temp --temperature --top-p --top-k --min-p --repeat-penalty --presence-penalty --seed -s -lv --verbosity
    --chat-template --chat-template-file --chat-template-kwargs --lora --log-file""".split()
)
_ON_OFF_AUTO = frozenset(["-fa", "--flash-attn"])  # a switch alone until August 2025
_BY_FLAG = {flag: name for name, (flags, _) in _VALUES.items() for flag in flags.split()}
_ON = {flag: name for name, (flags, _, _) in _SWITCHES.items() for flag in flags.split()}
_OFF = {flag: name for name, (_, flags, _) in _SWITCHES.items() for flag in flags.split()}
_WORDS = frozenset(
    """cache_type_k cache_type_v fit model_path hf_repo model_url docker_repo model_alias draft_model host api_key
    api_key_file models_dir models_preset""".split()
)
_PASSED = re.compile(
    r"(?:--env=|-e)?(LLAMA_\w+)=(.*)"
)  # `docker run -e LLAMA_ARG_CTX_SIZE=8192 IMAGE`, `env LLAMA_ARG_CTX_SIZE=8192`
_MODELS = frozenset(["model_path", "hf_repo", "model_url", "docker_repo"])
_TRUE, _FALSE = ("1", "true", "on", "enabled"), ("0", "false", "off", "disabled")


def is_llama_server(words: Sequence[str]) -> bool:
    return any(_program(words[place:]) for place in range(len(words)))


def _program(words: Sequence[str]) -> int:
    """How many words name the server, 0 for none: `llama-server`, `C:\\bin\\llama-server.exe`, `llama serve`, or an
    image of it: `ghcr.io/ggml-org/llama.cpp:server-cuda`, `ghcr.io/ggml-org/llama.cpp:full --server`.
    """
    name = words[0].replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe")
    if name in ("llama-server", "llama_server") or (name.startswith("llama.cpp:") and "server" in name):
        return 1
    behind = {"llama": ("serve",)}.get(name) or (("--server", "-s") if name.startswith("llama.cpp:full") else ())
    return 2 if words[1:2] and words[1] in behind else 0


def _arguments(words: Sequence[str]) -> Sequence[str]:
    """What stands behind the program: flags before it are another's (`docker run -m 8g IMAGE -m model.gguf`)."""
    return next((words[n + taken :] for n in range(len(words)) if (taken := _program(words[n:]))), [])


def from_argv(evidence: Evidence, argv: Argv) -> Facts:
    """Flags outrank the environment. What names no model is a router: no model will be loaded in that process."""
    words = _arguments(argv.words)
    before = argv.words[: len(argv.words) - len(words)]
    passed = {match[1]: match[2] for word in before if (match := _PASSED.match(word))}
    args, notes = arguments_of(words, {**argv.environment, **passed}, Source(evidence.place or "--flags"))
    role = Role.ROUTER if is_router(words, args) else Role.UNIFIED
    return Facts(evidence, "flags", args, role=role, notes=notes)


def is_router(words: Sequence[str], args: Mapping[str, Figure]) -> bool:
    """server.cpp: no model path, no repository. (Presets like `--gpt-oss-20b-default` name a model too, and so does a
    flag whose value is a shell variable.)
    """
    preset = any(word.startswith("--") and word.endswith("-default") for word in words)
    return not preset and not any(name in args for name in _MODELS) and not _MODELS & {_BY_FLAG.get(w) for w in words}


def arguments_of(
    words: Sequence[str], environment: Mapping[str, str], source: Source
) -> tuple[dict[str, Figure], tuple[str, ...]]:
    """(arguments by our names, notes on what is a shell variable or no value)."""
    given = {name: (value, flag) for flag, name, value in _pairs(words)}
    stated = {name: (value, variable) for variable, name, value in _variables(environment)}
    args, notes = {}, []
    for name, (word, where) in sorted((stated | given).items()):
        value = _value(name, word)
        if value is None:
            notes.append(f"{where} is {word}, {'a shell variable' if str(word).startswith('$') else 'no value of it'}")
        else:
            place = source._replace(place=f"{source.place} {where}".strip())
            args[name] = Figure(name, value, unit_of(name), Kind.CONFIGURED, place)
    return args, tuple(notes)


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str, str | bool]]:
    """(flag, name, value); of two the last counts. llama-server takes no `--flag=value`, and `--ctx_size` for
    `--ctx-size`.
    """
    rest = iter(_without_flash_attention(words))
    for given in rest:
        word = given.replace("_", "-") if given.startswith("--") else given
        if word in _BY_FLAG:
            yield word, _BY_FLAG[word], next(rest, "")
        elif word in _ON or word in _OFF:
            yield word, _ON.get(word) or _OFF[word], word in _ON
        elif word in _OTHERS_WITH_VALUES:
            next(rest, "")


def _without_flash_attention(words: Sequence[str]) -> Iterator[str]:
    """Its value may be left out in older builds, so that what follows may be a flag."""
    for before, word in pairwise(["", *words]):
        if word not in _ON_OFF_AUTO and not (before in _ON_OFF_AUTO and not word.startswith("-")):
            yield word


def _variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str | bool]]:
    for name, (_, variable) in _VALUES.items():
        if variable in environment:
            yield variable, name, environment[variable]
    for name, (_, _, variable) in _SWITCHES.items():
        negated = variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_")
        if negated in environment:
            yield negated, name, False
        elif variable in environment and environment[variable].lower() in (*_TRUE, *_FALSE):
            yield variable, name, environment[variable].lower() in _TRUE


def _value(name: str, word: str | bool) -> int | str | bool | None:
    if isinstance(word, bool):
        return word
    if not word or word.startswith("$"):
        return None
    if name in _WORDS:
        return word
    return int(word) if word.lstrip("-").isascii() and word.lstrip("-").isdigit() and len(word) < 16 else None
