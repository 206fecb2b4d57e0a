"""SGLang's command line: what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...evidence import Argv, Evidence
from ...figure import Source
from ..argv import flags_of, is_variable
from ..facts import Facts
from .facts import ARGUMENTS, argument_figures, role_of

_NAMES = {
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
    modules = ("sglang.launch_server", "ullage.tank.worker")  # the tank has SGLang's flags
    scripts = ("sglang/launch_server.py", "ullage/tank/worker.py")
    return any(any(m in w for m in modules) or w.endswith(scripts) for w in joined) or any(
        w.rsplit("/", 1)[-1] == "sglang" and after == "serve" for w, after in pairwise(joined)
    )


def from_argv(evidence: Evidence, argv: Argv) -> Facts:
    """Every flag that bears on capacity. An unexpanded shell variable is no value: it is noted and left out."""
    given = flags_of(argv.words, _NAMES)
    unset = [
        f"--{name.replace('_', '-')} is {value}, a shell variable"
        for name, value in given.items()
        if is_variable(value) and name in ARGUMENTS
    ]
    values = {name: value for name, value in given.items() if not is_variable(value)}
    args = argument_figures(values, Source(evidence.place or "--flags"))
    role = role_of(values.get("disaggregation_mode", "null"))
    return Facts(evidence, "flags", args, role=role, notes=tuple(unset))
