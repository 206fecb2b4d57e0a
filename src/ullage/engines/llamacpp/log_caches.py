"""The caches and buffers of a start, from their lines: the last context of a model counts, for --fit makes trial ones
before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum

from ...evidence import Evidence
from ...figure import Figure, derived
from ..events import Event, figure_of
from .lines import Step
from .log_devices import memory_of

# What the library calls a cache -> the prefix of our figures of it. The first is the cache of full attention.
_CACHES = {
    "non-SWA": "kv_",
    "main": "kv_",
    "DSA": "kv_",
    "DSV4 raw": "kv_",
    "SWA": "swa_",
    "indexer": "indexer_",
    "DSV4 CSA compressed": "csa_",
    "DSV4 HCA compressed": "hca_",
    "DSV4 lightning-indexer": "lightning_",
}
_OF_KV = ("mib", "cells", "layers", "seqs", "streams", "k_mib", "v_mib")
_WHATS = {
    "RS": "rs_buffer_mib",
    "LoRA": "lora_mib",
    "compute": "compute_mib",
    "input": "input_mib",
    "output": "output_mib",
    "model": "model_mib",
}
_OF_FILES = ("model", "LoRA")  # one for each file
Marked = Iterable[tuple[str, Event]]


def cache_figures(events: Marked, evidence: Evidence) -> dict[str, Figure]:
    """`kv_mib`, `kv_cells`, `swa_cells`, `rs_mib` ..., and per device `kv_buffer_mib CUDA0`."""
    told = _Told(evidence)
    for prefix, event in events:
        if take := _TAKES.get(event.step):
            take(told, prefix, event)
    figures = told.figures
    for name, devices in told.buffers.items():
        figures |= {f"{name} {device}": figure for device, figure in devices.items()}
        figures[name] = _sum(name, tuple(devices.values()))
    if "kv_seqs" in figures:
        figures["n_seq_max"] = figures["kv_seqs"].renamed("n_seq_max")
    return figures


class _Told:
    """What the lines told so far; `cache` is the one whose size comes next."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.cache = "kv_"
        self.loading = ""  # the model whose buffers are being told
        self.figures: dict[str, Figure] = {}
        self.buffers: dict[str, dict[str, Figure]] = defaultdict(dict)

    def load(self, _prefix: str, _event: Event) -> None:
        """A model that is loaded again (--fit loads it without its tensors first) replaces itself."""
        self.loading, self.cache = "", "kv_"

    def context(self, prefix: str, event: Event) -> None:
        """Another context of the same model replaces the one before it."""
        self.loading = ""
        if "constructing" not in event.values:
            return
        self.cache = "kv_"
        for name in [n for n in self.buffers if n.startswith(prefix) and "model" not in n]:
            del self.buffers[name]

    def name(self, prefix: str, event: Event) -> None:
        self.cache = _CACHES.get(str(event.values["cache"]), "other_")
        if "cells" in event.values:
            name = f"{prefix}{self.cache}cells"
            self.figures[name] = figure_of(name, event.values["cells"], self.evidence, event)

    def size(self, prefix: str, event: Event) -> None:
        self.figures |= _size(prefix, self.cache, event, self.evidence)

    def buffer(self, prefix: str, event: Event) -> None:
        """Each cache has buffers of its own. A model has one for each of its files: they add up."""
        what = str(event.values.get("what", "model"))
        name = prefix + (f"{self.cache}buffer_mib" if what == "KV" else _WHATS.get(what, "state_buffer_mib"))
        if what == "model" and self.loading != name:
            self.buffers.pop(name, None)
            self.loading = name
        device = memory_of(str(event.values["device"]).strip())
        figure = figure_of(f"{name} {device}", event.values["mib"], self.evidence, event)
        before = self.buffers[name].get(device) if what in _OF_FILES else None
        self.buffers[name][device] = _added(before, figure) if before else figure


_TAKES: dict[Enum, Callable[[_Told, str, Event], None]] = {
    Step.LOAD: _Told.load,
    Step.CONTEXT: _Told.context,
    Step.CACHE: _Told.name,
    Step.KV: _Told.size,
    Step.BUFFER: _Told.buffer,
}


def _size(prefix: str, cache: str, event: Event, evidence: Evidence) -> dict[str, Figure]:
    """A line of a recurrent memory states R and S, one of a KV cache K and V."""
    values = event.values
    recurrent = "r_mib" in values
    name = prefix + ("rs_" if recurrent else cache)
    wanted = ("mib", "cells", "layers", "seqs", "r_mib", "s_mib") if recurrent else _OF_KV
    found = {f"{name}{key}": figure_of(f"{name}{key}", values[key], evidence, event) for key in wanted if key in values}
    if not recurrent and "k" in values:
        found |= {
            f"{prefix}cache_type_{side}": figure_of(f"{prefix}cache_type_{side}", values[side], evidence, event)
            for side in "kv"
        }
    return found


def _added(before: Figure, figure: Figure) -> Figure:
    total = round(before.number + figure.number, 2)
    parts = before.inputs or (before,)
    return derived(figure.name, total, "MiB", (*parts, figure), f"{len(parts) + 1} buffers of this device")


def _sum(name: str, parts: tuple[Figure, ...]) -> Figure:
    if len(parts) == 1:
        return parts[0].renamed(name)
    return derived(name, round(sum(p.number for p in parts), 2), "MiB", parts, f"sum over {len(parts)} devices")
