"""Where each device's memory went under llama.cpp: its own table of a device, and the buffers that it logs.

total = free + self (model + context + compute) + unaccounted        (common_memory_breakdown_print, in whole MiB)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...capacity.ledger import Ledger, Part, ledger, with_rest
from ...capacity.ledger_sums import added, cut_to_mib, in_bytes
from ...figure import Figure, missing
from ..server import Server

_HOSTS = ("CPU", "Host", "AMX", "BLAS", "RPC-host")
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
_OTHERS = (("output_mib", "output buffer"),)
_NO_TOTAL = (
    "no table of this device is in the log: llama-server prints one when it ends, and with --fit before it loads"
)
_IDLE = "without GPU evidence: name a captured nvidia-smi -q -x as one more target, or run ullage on the host"
Figures = Mapping[str, Figure]


def ledgers(server: Server) -> list[Ledger]:
    figures = {n: f for n, f in server.figures.items() if f.known}
    return [_ledger(server, device, figures) for device in _devices(figures)]


def is_host(device: str) -> bool:
    return device.startswith(_HOSTS) or "_Host" in device or "_Mapped" in device


def _devices(figures: Figures) -> list[str]:
    """Devices first, then what lies in the host's memory."""
    named = {name.partition(" ")[2] for name in figures if "_mib " in name}
    return sorted(named, key=lambda device: (is_host(device), device))


def _ledger(server: Server, device: str, figures: Figures) -> Ledger:
    total, free = figures.get(f"total_mib {device}"), figures.get(f"free_mib {device}")
    where = "memory of the host" if is_host(device) else "no total"
    whole = cut_to_mib(total, "total") if total else missing("total", "bytes", where if is_host(device) else _NO_TOTAL)
    left = Part("free when the table was printed", cut_to_mib(free, "free"), free=True) if free and total else None
    found = ledger(device, whole, [*_parts(device, figures), left])
    unknown = () if is_host(device) else (missing("idle now", "bytes", _IDLE),)
    return replace(found, server=server.name, unknown=unknown)


def _parts(device: str, figures: Figures) -> Iterator[Part]:
    for prefix, title in (("", ""), ("draft_", "draft ")):
        model = _of_device(figures, f"{prefix}model_mib", device)
        if model is not None:
            yield Part(f"{title}weights", model)
        yield from _context(device, figures, prefix, title)
        for key, name in (("compute_mib", "compute buffer"), *_OTHERS):
            size = _of_device(figures, prefix + key, device)
            if size is not None:
                yield Part(title + name, size, why="grows with -ub" if "compute" in key else "")


def _context(device: str, figures: Figures, prefix: str, title: str) -> Iterator[Part]:
    """The table's context with its caches below it; without a table, the caches."""
    inner = tuple(
        Part(title + name, size)
        for key, name in _CONTEXT
        if (size := _of_device(figures, prefix + key, device)) is not None
    )
    stated = figures.get(f"context_mib {device}") if not prefix else None
    if stated is not None and stated.number:
        yield with_rest(Part("context", cut_to_mib(stated, "context"), inner), "rest of the context")
    else:
        yield from inner


def _of_device(figures: Figures, name: str, device: str) -> Figure | None:
    """What a buffer line states to two decimals, or the table in whole MiB."""
    figure = figures.get(f"{name} {device}")
    if figure is None or not figure.number:
        return None
    if figure.inputs:
        return added(name, [in_bytes(part) for part in figure.inputs])
    return in_bytes(figure, name) if isinstance(figure.value, float) else cut_to_mib(figure, name)
