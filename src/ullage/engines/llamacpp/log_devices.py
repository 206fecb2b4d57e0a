"""What a start's lines tell of each device as a whole: what it has, what was free before anything was loaded, the
library's own table of it, and what a projector takes.

llama.cpp asks the driver for the free memory when it loads a model (src/llama.cpp, "using device"), for --fit and for
its table (common/fit.cpp). The question makes CUDA's context, which is therefore not in what is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from ...evidence import Evidence
from ...figure import Figure
from ..events import Event, Value, figure_of
from .lines import Step

_HOSTS = ("CPU", "Host", "AMX", "BLAS", "RPC-host")
_WRAPPED = 2**64 // 2**20  # MiB: builds until 2026 print a difference below zero as an unsigned number
_KINDS = ("_Mapped", "_Private")  # buffers of one device: a view of a mapped file, the GPU's alone
_LOADING = (Step.LOAD, Step.CONTEXT, Step.KV, Step.BUFFER, Step.SLOTS)


def is_host(device: str) -> bool:
    """Pinned buffers (`CUDA_Host`) lie in the host's memory, as do those of the CPU."""
    return device.startswith(_HOSTS) or "_Host" in device


def memory_of(buffer: str) -> str:
    """The device in whose memory a buffer lies: `MTL0_Mapped` is Metal's view of the file, in its working set."""
    if is_host(buffer):
        return buffer
    for kind in _KINDS:
        buffer = buffer.removesuffix(kind)
    return buffer


def device_figures(events: Sequence[Event], evidence: Evidence) -> dict[str, Figure]:
    """`total_mib CUDA0`, `free_before_mib CUDA0`, the columns of the table, `mmproj_model_mib CUDA0` ..."""
    told = _Told(evidence)
    for event in events:
        if event.step in _LOADING:
            told.projected |= told.tables.keys()
        if event.step is Step.BUFFER:
            told.allocated(memory_of(str(event.values["device"]).strip()))
        if take := _TAKES.get(event.step):
            take(told, event)
    return told.all()


class _Told:
    """What the lines told so far. `tables`: the last table of each device; `projected`: it was printed before anything
    was allocated, so that what it calls free was free then.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.figures: dict[str, Figure] = {}
        self.tables: dict[str, Event] = {}
        self.projected: set[str] = set()
        self.clip = ""  # where the projector goes

    def device(self, event: Event) -> None:
        """What was free first: a second model finds less. Of a device without a name, its number and maker are told."""
        values = event.values
        maker = "ROCm" if "gfx" in values else "CUDA"
        device = memory_of(str(values.get("device", f"{maker}{values.get('number')}")))
        if "total" in values:
            self._first("total_mib", device, values["total"], event)
        if "free_before" in values:
            self._first("free_before_mib", device, values["free_before"], event)
        elif isinstance(left := values.get("left"), int) and isinstance(use := values.get("use"), int):
            self._first("free_before_mib", device, left + use, event)

    def table(self, event: Event) -> None:
        """total = free + self (model + context + compute) + unaccounted, on one device; the host has no total."""
        device = str(event.values["device"])
        self.tables[device] = event
        self.projected.discard(device)
        own = event.values["self"]
        assert isinstance(own, int)
        if _rest_of(event) < -own // 2:  # nothing of its own was taken when the driver was asked
            self.projected.add(device)
        if device in self.projected:
            self._begin_of(device)

    def allocated(self, device: str) -> None:
        """The buffers themselves tell more than what was projected."""
        if device in self.tables:
            self._begin_of(device)
            del self.tables[device]

    def _begin_of(self, device: str) -> None:
        """What a table that was printed before the load tells of the device."""
        event = self.tables[device]
        for key, name in (("total", "total_mib"), ("free", "free_before_mib")):
            if key in event.values:
                self._first(name, device, event.values[key], event)

    def projector(self, event: Event) -> None:
        """Its compute buffer is no context's. A file with two encoders is loaded once for each."""
        values = event.values
        if "weights" in values and self.clip:
            self._set("mmproj_model_mib", self.clip, values["weights"], event)
        elif "compute" in values:
            self._set("mmproj_compute_mib", memory_of(str(values["device"]).strip()), values["compute"], event)
        else:
            self.clip = str(values.get("device", self.clip))

    def note(self, event: Event) -> None:
        """--fit goes on: what it measured was projected."""
        if event.values.keys() & {"fit_use_mib", "fit_left_mib", "fit_ctx_after"}:
            self.projected |= self.tables.keys()

    def _first(self, name: str, device: str, value: Value, event: Event) -> None:
        if f"{name} {device}" not in self.figures:
            self._set(name, device, value, event)

    def _set(self, name: str, device: str, value: Value, event: Event) -> None:
        self.figures[f"{name} {device}"] = figure_of(f"{name} {device}", value, self.evidence, event)

    def all(self) -> dict[str, Figure]:
        """What a table calls free is left now, unless the table was projected."""
        for device, event in self.tables.items():
            if device in self.projected:
                self._begin_of(device)
            for key in event.values.keys() - {"device"}:
                if key != "free" or device not in self.projected:
                    value = event.values[key]
                    self._set(f"{key}_mib", device, _rest_of(event) if key == "unaccounted" else value, event)
        return self.figures


_TAKES: dict[Enum, Callable[[_Told, Event], None]] = {
    Step.DEVICE: _Told.device,
    Step.BREAKDOWN: _Told.table,
    Step.MMPROJ: _Told.projector,
    Step.NOTE: _Told.note,
}


def _rest_of(event: Event) -> int:
    value = event.values.get("unaccounted", 0)
    assert isinstance(value, int)
    return value - _WRAPPED if value >= _WRAPPED // 2 else value
