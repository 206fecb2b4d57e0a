"""Values as nvidia-smi prints them. It rounds to MiB, and has many words for what it does not know ("N/A", "[N/A]",
"[Not Supported]", "Not available in WDDM driver model", "[Unknown Error]").
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...evidence import GpuProcess
from ...masking import Masker
from ...units import MIB

_SIZE = re.compile(r"([0-9]{1,12})(?: ?(?:MiB|MB))?", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_SHOWN_NAME = 120


def size(text: str | None) -> int | None:
    """Bytes; a number without its unit is MiB (`--format=csv,nounits`)."""
    match = _SIZE.fullmatch((text or "").strip())
    return int(match[1]) * MIB if match else None


def whole(text: str | None) -> int | None:
    match = _WHOLE.fullmatch((text or "").strip())
    return int(match[0]) if match else None


def told(text: str | None) -> str:
    """A word, or "" where it says that there is none."""
    word = (text or "").strip()
    return "" if word.startswith("[") or word.upper() == "N/A" else word


def name_of(text: str, masker: Masker) -> str:
    """Of a process: some drivers print its whole command line."""
    return masker.text(text.strip())[:_SHOWN_NAME]


def once(processes: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
    """One that computes and draws ("C+G") is listed twice, each time with all that it holds."""
    found: dict[int, GpuProcess] = {}
    for process in processes:
        before = found.get(process.pid)
        if before is None or (before.used_bytes or 0) < (process.used_bytes or 0):
            found[process.pid] = process
    return tuple(found.values())


def slice_name(profile: str, instance: int | None, compute: int | None) -> str:
    """Of a MIG device: "1g.10gb 7". Two compute instances of one GPU instance share its memory: "1c.3g.40gb 2/1"."""
    of = f"/{compute}" if compute else ""
    return f"{profile or 'slice'} {'?' if instance is None else instance}{of}"
