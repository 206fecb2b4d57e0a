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
_DRIVER = re.compile(r"(?:Driver|KMD) Version: *([0-9.]+)", re.ASCII)  # the kernel's part, since R610
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
_CUT = "the capture was cut before its list of processes: those are of the capture before it"


def parse(text: str, masker: Masker) -> Gpus | Failure:
    """Of several tables (`-l`) the last that names a GPU. One that was cut off before its list of processes is taken
    with the list before it; where none names a GPU, such a list is all there is.
    """
    tables = text.split(_HEAD)
    last = max((n for n, table in enumerate(tables) if _GPU.search(table)), default=0)
    table, before = tables[last], _HEAD.join(tables[:last])
    from_before = _LISTED not in table and _LISTED in before
    listed = before[before.rindex(_LISTED) :] if from_before else table
    found = list(_GPU.finditer(table))
    if not found:
        return _listed_alone(text, masker)
    ends = [*(match.start() for match in found[1:]), len(table)]
    gpus: list[Gpu] = []
    for match, end in zip(found, ends, strict=True):
        memory = _MEMORY.search(table, match.end(), end)
        used, total = memory.groups() if memory else (None, None)  # "Not Supported": the host's memory is its own
        name, inside = masker.text(match[2]), _processes(listed, match[1], masker)
        gpus.append(Gpu(int(match[1]), name, "", size(total), size(used), None, None, inside))
        gpus += _slices(table, listed, gpus[-1], masker)
    driver, dates = _DRIVER.search(table), _DATE.findall(before)
    return Gpus(tuple(gpus), driver[1] if driver else "", MIB, dates[-1] if dates else "", _CUT if from_before else "")


def _listed_alone(text: str, masker: Masker) -> Gpus | Failure:
    """GPUs of which nothing but their processes is told."""
    listed = text[text.rindex(_LISTED) :] if _LISTED in text else ""
    numbers = dict.fromkeys(match[1] for match in _PROCESS.finditer(listed))
    if not numbers:
        return Failure("cut", "a table of nvidia-smi without a GPU in it", "capture nvidia-smi -q -x")
    gpus = [Gpu(int(n), "", "", None, None, None, None, _processes(listed, n, masker)) for n in numbers]
    return Gpus(tuple(gpus), step_bytes=MIB)


def _slices(table: str, listed: str, gpu: Gpu, masker: Masker) -> Iterator[Gpu]:
    for number, instance, compute, used, total in _SLICE.findall(table):
        if int(number) == gpu.number:
            inside = _processes(listed, number, masker, (instance, compute))
            mig = slice_name("", int(instance), int(compute))
            yield Gpu(gpu.number, gpu.name, "", size(total), size(used), None, None, inside, mig)


def _processes(
    listed: str, number: str, masker: Masker, ids: tuple[str, str] | None = None
) -> tuple[GpuProcess, ...] | None:
    """Those on one GPU, or in one slice of it."""
    if _LISTED not in listed:
        return None
    return once(
        GpuProcess(int(pid), name_of(name, masker), size(used))
        for on, instance, compute, pid, name, used in _PROCESS.findall(listed)
        if on == number and ids in (None, (instance, compute))
    )
