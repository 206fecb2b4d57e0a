"""Where each device's memory went under llama.cpp: its own table of a device, and the buffers that it logs.

total = free + self (model + context + compute) + unaccounted        (common_memory_breakdown_print, in whole MiB)
left  = free before the load - all buffers                           (nothing is profiled: what is allocated is logged)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...capacity.ledger import Ledger, Part, ledger, with_rest
from ...capacity.ledger_sums import added, cut_to_mib, in_bytes, less
from ...figure import Figure, missing
from ..server import Server
from .log_devices import is_host

BEFORE = "before the engine began"
LEFT = "free at the end of the start"
_CONTEXT = (
    ("kv_buffer_mib", "KV cache"),
    ("swa_buffer_mib", "window cache"),
    ("rs_buffer_mib", "recurrent states"),
    ("indexer_buffer_mib", "index keys"),
    ("csa_buffer_mib", "CSA cache"),
    ("hca_buffer_mib", "HCA cache"),
    ("lightning_buffer_mib", "lightning index keys"),
    ("state_buffer_mib", "compressor states"),
)
_OTHERS = (
    ("output_mib", "output buffer"),
    ("input_mib", "input buffer"),
    ("lora_mib", "LoRA"),
    ("mmproj_model_mib", "projector weights"),
    ("mmproj_compute_mib", "projector compute buffer"),
)
HOST = "the host"
TOGETHER = "all devices together"
_HOST_ROW = "Host"  # as the table calls it
_NO_HOST = "the log states none of the host"
_NO_DEVICE = "no line states on which devices they lie: the lines of 'KV buffer size' do, beside these"
_NO_TOTAL = (
    "no line states it: llama-server prints a table of each device when it ends, and with --fit before it loads (with"
    " -lv 4 in builds since 2026)"
)
_RECKONED = "free before the load - the buffers; the workspaces of the driver's libraries come out of it too"
_IDLE = "without GPU evidence: name a captured nvidia-smi -q -x as one more target, or run ullage on the host"
Figures = Mapping[str, Figure]


def ledgers(server: Server) -> list[Ledger]:
    """One for each device, one for caches whose devices are not told, and one for what lies in the host's memory."""
    figures = {n: f for n, f in server.figures.items() if f.known}
    named = sorted({name.partition(" ")[2] for name in figures if "_mib " in name})
    hosts = [device for device in named if is_host(device)]
    found = [_of_device(server, device, figures) for device in named if device not in hosts and _holds(device, figures)]
    if caches := [*_of_no_device(figures)]:
        found.append(replace(ledger(TOGETHER, missing("total", "bytes", _NO_DEVICE), caches), server=server.name))
    return [*found, *([_of_host(server, hosts, figures)] if hosts else [])]


def _holds(device: str, figures: Figures) -> bool:
    """Some of the model lies on it, or the library's table names it."""
    return f"self_mib {device}" in figures or any(_parts([device], figures))


def _of_device(server: Server, device: str, figures: Figures) -> Ledger:
    total, before = (_cut(figures.get(f"{key}_mib {device}"), key) for key in ("total", "free_before"))
    whole = total or before or missing("total", "bytes", _NO_TOTAL)
    unknown = [missing("idle now", "bytes", _IDLE)]
    if before and not total:
        unknown.append(missing("total", "bytes", _NO_TOTAL))
    parts = [*_parts([device], figures)]
    found = ledger(device, whole, [*_before(total, before), *parts, _left(server, device, figures, before, parts)])
    of_whole = "total" if total or not before else "free when the engine began"
    return replace(found, server=server.name, usable=before, of_whole=of_whole, unknown=tuple(unknown))


def _cut(figure: Figure | None, name: str) -> Figure | None:
    return cut_to_mib(figure, name) if figure is not None else None


def _before(total: Figure | None, before: Figure | None) -> Iterator[Part]:
    """The driver was asked before the load, and its own context is not in what it called free."""
    if total and before and total.number > before.number:
        taken = less(BEFORE, total, [before], "total - free before the load")
        yield Part(BEFORE, taken, why="its own context, other processes")


def _left(server: Server, device: str, figures: Figures, before: Figure | None, parts: Sequence[Part]) -> Part | None:
    """As the table states it; else what the buffers left of what was free. A load that failed gave all of it back."""
    free = _cut(figures.get(f"free_mib {device}"), "free")
    if free is not None and f"total_mib {device}" in figures:
        return Part("free when the table was printed", free, free=True)
    came_up = server.figure("ready").value is not False
    if before is None or not came_up or not any("compute" in part.name for part in parts):
        return None
    size = less(LEFT, before, [part.size for part in parts], _RECKONED)
    return Part(LEFT, size, free=True, why=_RECKONED)


def _of_host(server: Server, devices: list[str], figures: Figures) -> Ledger:
    """By the buffers; the table's row of the host sums them up, and counts only where no buffer is logged."""
    buffers = [device for device in devices if device != _HOST_ROW and any(_parts([device], figures))]
    found = ledger(HOST, missing("total", "bytes", _NO_HOST), [*_parts(buffers or devices, figures)])
    return replace(found, server=server.name)


def _parts(devices: list[str], figures: Figures) -> Iterator[Part]:
    for prefix, title in (("", ""), ("draft_", "draft ")):
        model = _together(figures, f"{prefix}model_mib", devices)
        if model is not None:
            yield Part(f"{title}weights", model)
        yield from _context(devices, figures, prefix, title)
        for key, name in (("compute_mib", "compute buffer"), *_OTHERS):
            size = _together(figures, prefix + key, devices)
            if size is not None:
                yield Part(title + name, size, why="grows with -ub" if "compute" in key else "")


def _context(devices: list[str], figures: Figures, prefix: str, title: str) -> Iterator[Part]:
    """The table's context with its caches below it; without a table, the caches."""
    inner = tuple(
        Part(title + name, size)
        for key, name in _CONTEXT
        if (size := _together(figures, prefix + key, devices)) is not None
    )
    stated = figures.get(f"context_mib {devices[0]}") if devices and not prefix else None
    if stated is not None and stated.number:
        yield with_rest(Part("context", cut_to_mib(stated, "context"), inner), "rest of the context")
    else:
        yield from inner


def _of_no_device(figures: Figures) -> Iterator[Part]:
    """Caches whose whole size is stated, and no buffer of them."""
    if any(name.startswith("context_mib ") for name in figures):
        return
    for prefix, title in (("", ""), ("draft_", "draft ")):
        for key, name in _CONTEXT:
            size = _buffer(figures.get(prefix + key.replace("buffer_", "")), name)
            if size is not None and prefix + key not in figures:
                yield Part(title + name, size)


def _together(figures: Figures, name: str, devices: list[str]) -> Figure | None:
    """A buffer of one device; of several host buffers the sum."""
    found = [size for device in devices if (size := _buffer(figures.get(f"{name} {device}"), name)) is not None]
    return added(name, found) if len(found) > 1 else next(iter(found), None)


def _buffer(figure: Figure | None, name: str) -> Figure | None:
    """What a buffer line states to two decimals, or the table in whole MiB."""
    if figure is None or not figure.number:
        return None
    return in_bytes(figure, name) if figure.inputs or isinstance(figure.value, float) else cut_to_mib(figure, name)
