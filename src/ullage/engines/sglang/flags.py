"""SGLang's command line: what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from ...evidence import Argv, Evidence
from ...figure import Source
from ..facts import Facts
from .facts import ARGUMENTS, argument_figures, role_of

_SHORT = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "decode_context_parallel_size": "dcp_size",
    "max_num_reqs": "max_running_requests",
}


def is_sglang(words: Sequence[str]) -> bool:
    joined = list(words)
    return any("sglang.launch_server" in w or w.endswith("sglang/launch_server.py") for w in joined) or any(
        w.rsplit("/", 1)[-1] == "sglang" and after == "serve" for w, after in pairwise(joined)
    )


def from_argv(evidence: Evidence, argv: Argv) -> Facts:
    """Every flag that bears on capacity. An unexpanded shell variable is no value: it is noted and left out."""
    given = flags_of(argv.words)
    unset = [
        f"--{name.replace('_', '-')} is {value}, a shell variable"
        for name, value in given.items()
        if _is_variable(value) and name in ARGUMENTS
    ]
    values = {name: value for name, value in given.items() if not _is_variable(value)}
    args = argument_figures(values, Source(evidence.place or "--flags"))
    role = role_of(values.get("disaggregation_mode", "null"))
    return Facts(evidence, "flags", args, role=role, notes=tuple(unset))


def flags_of(words: Sequence[str]) -> dict[str, object]:
    """`--tp 4`, `--tp=4`, `--enable-metrics` by their names in ServerArgs; of two the last counts."""
    return {_SHORT.get(name, name): value for name, value in _pairs(words)}


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, object]]:
    name, values = "", []
    for word in [*takewhile(lambda word: word != "--", words), "--"]:
        if not word.startswith("--"):
            values.append(word)
            continue
        if name:
            yield name, _value(values)
        flag, equals, value = word[2:].partition("=")
        name, values = flag.replace("-", "_"), [value] if equals else []


def _value(values: Sequence[str]) -> object:
    if not values:
        return True
    if len(values) > 1:
        return list(values)
    return _number(values[0])


def _number(word: str) -> int | float | str:
    """SGLang's own reading of a flag: a whole number, a fraction, else the word."""
    try:
        return float(word) if "." in word or "e" in word.lower() else int(word)
    except ValueError:
        return word


def _is_variable(value: object) -> bool:
    return isinstance(value, str) and value.startswith("$")
