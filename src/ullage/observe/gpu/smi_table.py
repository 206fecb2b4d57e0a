"""The table that `nvidia-smi` prints without options: GPUs in two lines each, MIG devices, and processes. Free memory
is not in it, and long names are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...evidence import Failure, Gpu, GpuProcess, Gpus
from ...masking import Masker
from ...units import MIB
from .smi_values import name_of, once, size, slice_name

_HEAD = "| NVIDIA-SMI "
_DATE = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\b", re.ASCII)
_DRIVER = re.compile(r"Driver Version: *([0-9.]+)", re.ASCII)
_GPU = re.compile(
    r"^\W*\| +(\d{1,4})  (\S.*?) +(?:On|Off|N/A)? *\| *[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d",
    re.MULTILINE | re.ASCII,
)
_USED = r"(\d{1,9}MiB) */ *(\d{1,9}MiB) *\|"
_MEMORY = re.compile(rf"\| *{_USED}", re.ASCII)
_SLICE = re.compile(rf"^\W*\| +(\d{{1,4}}) +(\d{{1,4}}) +(\d{{1,4}}) +\d{{1,4}} +\| *{_USED}", re.MULTILINE | re.ASCII)
_PROCESS = re.compile(
    r"^\W*\| +(\d{1,4}) +(?:(\d{1,4}|N/A) +(\d{1,4}|N/A) +)?(\d{1,10}) +[CGM+]{1,3} +(\S.*?) +(\d{1,9}MiB|N/A) *\|",
    re.MULTILINE | re.ASCII,
)
_LISTED = "| Processes:"


def parse(text: str, masker: Masker) -> Gpus | Failure:
    """Of several tables (`-l`) the last. A table without a list of processes was cut off before it."""
    before, _, table = text.rpartition(_HEAD)
    found = list(_GPU.finditer(table))
    if not found:
        return Failure("cut", "a table of nvidia-smi without a GPU in it", "capture nvidia-smi -q -x")
    ends = [*(match.start() for match in found[1:]), len(table)]
    gpus: list[Gpu] = []
    for match, end in zip(found, ends, strict=True):
        memory = _MEMORY.search(table, match.end(), end)
        used, total = memory.groups() if memory else (None, None)  # "Not Supported": the host's memory is its own
        name, inside = masker.text(match[2]), _processes(table, match[1], masker)
        gpus.append(Gpu(int(match[1]), name, "", size(total), size(used), None, None, inside))
        gpus += _slices(table, gpus[-1], masker)
    driver, dates = _DRIVER.search(table), _DATE.findall(before)
    return Gpus(tuple(gpus), driver[1] if driver else "", MIB, dates[-1] if dates else "")


def _slices(table: str, gpu: Gpu, masker: Masker) -> Iterator[Gpu]:
    for number, instance, compute, used, total in _SLICE.findall(table):
        if int(number) == gpu.number:
            inside = _processes(table, number, masker, (instance, compute))
            mig = slice_name("", int(instance), int(compute))
            yield Gpu(gpu.number, gpu.name, "", size(total), size(used), None, None, inside, mig)


def _processes(
    table: str, number: str, masker: Masker, ids: tuple[str, str] | None = None
) -> tuple[GpuProcess, ...] | None:
    """Those on one GPU, or in one slice of it."""
    if _LISTED not in table:
        return None
    return once(
        GpuProcess(int(pid), name_of(name, masker), size(used))
        for on, instance, compute, pid, name, used in _PROCESS.findall(table)
        if on == number and ids in (None, (instance, compute))
    )
