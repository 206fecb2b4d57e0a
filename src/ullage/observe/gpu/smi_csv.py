"""`nvidia-smi --query-gpu=... --format=csv` and `--query-compute-apps=...`, one below the other too. Columns are known
by the header; without it (`noheader`) nobody can tell used from free.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...evidence import Failure, Gpu, GpuProcess, Gpus
from ...masking import Masker
from ...units import MIB
from .smi_values import name_of, once, size, told, whole

NOT_TOLD = -1  # the number of a GPU that only its processes name
_COLUMN = re.compile(r"([a-z][a-z0-9_.]*)(?: \[[^\]]*\])?", re.ASCII)
_OURS = {"memory.total", "memory.used", "memory.free", "memory.reserved", "used_gpu_memory", "used_memory"}
_SAME = {"gpu_name": "name", "gpu_uuid": "uuid", "used_memory": "used_gpu_memory", "process_name": "process"}
_UNNAMED = re.compile(r"[0-9]+ MiB|GPU-[0-9a-f-]{36}")
# What it prints in the place of a GPU that does not answer any more.
_LOST = re.compile(r"^.*(?:Unable to determine the device handle|GPU is lost|fallen off the bus).{0,120}", re.MULTILINE)
_QUERY = (
    "nvidia-smi --query-gpu=index,name,uuid,driver_version,memory.total,memory.reserved,memory.used,memory.free"
    " --format=csv"
)

Row = dict[str, str]


class _Table(NamedTuple):
    columns: list[str]
    rows: list[Row]


def parse(text: str, masker: Masker) -> Gpus | Failure | None:
    tables = list(_tables(text)) if any(name in text for name in _OURS) else []
    if not tables:
        return _without_header(text)
    of_gpus = [row for table in tables if not _is_of_processes(table.columns) for row in table.rows]
    of_processes = [row for table in tables if _is_of_processes(table.columns) for row in table.rows]
    asked = any(_is_of_processes(table.columns) for table in tables)
    gpus = _gpus(of_gpus, masker)
    if asked:
        gpus = _with_processes(gpus, of_processes, masker)
    last = (of_gpus or of_processes or [{}])[-1]
    drivers = [told(row.get("driver_version")) for row in of_gpus]
    driver = masker.text(next(filter(None, drivers), ""))
    lost = "; ".join(dict.fromkeys(match[0].strip() for match in _LOST.finditer(text)))
    remark = masker.text(f"nvidia-smi says: {lost}") if lost else ""
    return Gpus(tuple(gpus), driver, MIB, masker.text(told(last.get("timestamp"))), remark)


def _tables(text: str) -> Iterator[_Table]:
    """Each from its header on. A process name with commas in it is put together again."""
    table: _Table | None = None
    lines = csv.reader(text.splitlines(), skipinitialspace=True, quoting=csv.QUOTE_NONE)
    for fields in lines:
        columns = _columns(fields)
        if columns:
            if table:
                yield table
            table = _Table(columns, [])
        elif table and len(fields) >= len(table.columns):
            table.rows.append(dict(zip(table.columns, _fitted(fields, table.columns), strict=True)))
    if table:
        yield table


def _columns(fields: list[str]) -> list[str]:
    """The names of a header; [] for any other line."""
    found = [match[1] for field in fields if (match := _COLUMN.fullmatch(field.strip()))]
    if len(found) < len(fields) or not _OURS.intersection(found):
        return []
    return [_SAME.get(name, name) for name in found]


def _fitted(fields: list[str], columns: list[str]) -> list[str]:
    wide = next((columns.index(name) for name in ("process", "name") if name in columns), len(columns) - 1)
    end = wide + 1 + len(fields) - len(columns)
    return [*fields[:wide], ", ".join(fields[wide:end]), *fields[end:]]


def _is_of_processes(columns: list[str]) -> bool:
    return "pid" in columns or "used_gpu_memory" in columns


def _gpus(rows: Iterable[Row], masker: Masker) -> list[Gpu]:
    """Each GPU once: `-l` prints them again and again, and the last counts. Rows that name none are one GPU each."""
    found: dict[str, Gpu] = {}
    for row in rows:
        uuid, index = told(row.get("uuid")), whole(row.get("index"))
        key = uuid or (f"{index}" if index is not None else told(row.get("pci.bus_id"))) or f"row {len(found)}"
        number = found[key].number if key in found else len(found)
        found[key] = Gpu(
            number if index is None else index,
            masker.text(told(row.get("name"))),
            masker.text(uuid),
            size(row.get("memory.total")),
            size(row.get("memory.used")),
            size(row.get("memory.free")),
            size(row.get("memory.reserved")),
        )
    return list(found.values())


def _with_processes(gpus: list[Gpu], rows: Iterable[Row], masker: Masker) -> list[Gpu]:
    """By uuid; of a GPU that no other table has, nothing else is known. Where there is one GPU, all are on it."""
    by_uuid: dict[str, list[GpuProcess]] = {gpu.uuid: [] for gpu in gpus}
    only = gpus[0].uuid if len(gpus) == 1 else ""
    for row in rows:
        pid = whole(row.get("pid"))
        if pid is not None:
            name = name_of(row.get("process", row.get("name", "")), masker)
            process = GpuProcess(pid, name, size(row.get("used_gpu_memory")))
            by_uuid.setdefault(masker.text(told(row.get("uuid"))) or only, []).append(process)
    known = [gpu._replace(processes=once(by_uuid.pop(gpu.uuid))) for gpu in gpus]
    return [*known, *(Gpu(NOT_TOLD, "", uuid, None, None, None, None, once(held)) for uuid, held in by_uuid.items())]


def _without_header(text: str) -> Failure | None:
    rows = [line.split(", ") for line in text.splitlines() if line.strip()]
    if not rows or len(rows[0]) < 2 or len({len(row) for row in rows}) > 1:
        return None
    if not all(any(_UNNAMED.fullmatch(field) for field in row) for row in rows):
        return None
    return Failure("no header", "values of nvidia-smi without their names", f"leave out noheader: {_QUERY}")
