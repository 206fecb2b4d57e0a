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
HOST = "the host"
_HOST_ROW = "Host"  # as the table calls it
_NO_HOST = "the log states none of the host"
_NO_TOTAL = (
    "no table of this device is in the log: llama-server prints one when it ends, and with --fit before it loads"
)
_IDLE = "without GPU evidence: name a captured nvidia-smi -q -x as one more target, or run ullage on the host"
Figures = Mapping[str, Figure]


def ledgers(server: Server) -> list[Ledger]:
    """One for each device, and one for what lies in the host's memory."""
    figures = {n: f for n, f in server.figures.items() if f.known}
    named = sorted({name.partition(" ")[2] for name in figures if "_mib " in name})
    hosts = [device for device in named if is_host(device)]
    found = [_of_device(server, device, figures) for device in named if device not in hosts]
    return [*found, *([_of_host(server, hosts, figures)] if hosts else [])]


def is_host(device: str) -> bool:
    return device.startswith(_HOSTS) or "_Host" in device or "_Mapped" in device


def _of_device(server: Server, device: str, figures: Figures) -> Ledger:
    total, free = figures.get(f"total_mib {device}"), figures.get(f"free_mib {device}")
    whole = cut_to_mib(total, "total") if total else missing("total", "bytes", _NO_TOTAL)
    left = Part("free when the table was printed", cut_to_mib(free, "free"), free=True) if free and total else None
    found = ledger(device, whole, [*_parts([device], figures), left])
    return replace(found, server=server.name, unknown=(missing("idle now", "bytes", _IDLE),))


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


def _together(figures: Figures, name: str, devices: list[str]) -> Figure | None:
    """A buffer of one device; of several host buffers the sum."""
    found = [size for device in devices if (size := _buffer(figures.get(f"{name} {device}"), name)) is not None]
    return added(name, found) if len(found) > 1 else next(iter(found), None)


def _buffer(figure: Figure | None, name: str) -> Figure | None:
    """What a buffer line states to two decimals, or the table in whole MiB."""
    if figure is None or not figure.number:
        return None
    return in_bytes(figure, name) if figure.inputs or isinstance(figure.value, float) else cut_to_mib(figure, name)
