"""Runs the readers of units and journals inside a machine, and hands back what they returned.

`call(machine, "units", [["a.service", None]])` runs the function of that name below, inside; its arguments go as JSON.
"""

from __future__ import annotations

import base64
import json
import pickle
import re
import sys
from typing import Any

from tests.systemd.machine import PYTHON, ROOT, Machine
from ullage.evidence import Evidence, Unit
from ullage.masking import Masker

SERVERS = r"sglang\.launch_server|vllm serve|ullage\.tank\.worker"


def units(names: list[tuple[str, int | None]]) -> dict[Any, Evidence]:
    from ullage.observe.host.units import UnitName, read_units

    return read_units([UnitName(*name) for name in names], Masker())


def naming(uids: list[int]) -> dict[Any, Evidence]:
    from ullage.observe.host.units import units_naming

    return units_naming(re.compile(SERVERS), Masker(), uids)


def managers() -> list[int]:
    from ullage.observe.host.units import managers

    return managers()


def unit_of(pid: int) -> Any:
    """Of a process inside, by its own pid there."""
    from ullage.observe.host.units import unit_of

    with open(f"/proc/{pid}/cgroup") as file:
        paths = dict(line.strip().split(":", 2)[1:] for line in file)
    return unit_of(paths[""])


def files(name: str, uid: int | None) -> Any:
    from ullage.observe.host.unit_files import read_unit_files
    from ullage.observe.host.units import UnitName

    item = units([(name, uid)]).get(UnitName(name, uid))
    loaded = [file.path for file in item.content.files] if item and isinstance(item.content, Unit) else []
    return read_unit_files(UnitName(name, uid), loaded, re.compile(SERVERS), Masker())


def log(name: str, uid: int | None, pids: list[int], history: bool) -> list[Evidence]:
    from ullage.engines.read import log_markers
    from ullage.observe.host.journal import read_journal
    from ullage.observe.host.units import UnitName
    from ullage.observe.log_choice import LogWords
    from ullage.observe.log_file import LogScan

    unit = UnitName(name, uid)
    content = units([(name, uid)])[unit].content
    invocation = content.invocation if isinstance(content, Unit) else ""
    scan = LogScan(tuple(LogWords(*markers) for markers in log_markers()))
    return read_journal(unit, invocation, pids, scan, Masker(), history=history)


def call(machine: Machine, name: str, *arguments: Any, user: str = "") -> Any:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.systemd import inside; inside.main()"
    told = machine.run(PYTHON, "-c", code, name, json.dumps(arguments), user=user).stdout
    return pickle.loads(base64.b64decode(told))


def main() -> None:
    value = globals()[sys.argv[1]](*json.loads(sys.argv[2]))
    print(base64.b64encode(pickle.dumps(value)).decode())
