"""GPUs and what fills them: from the driver of this host (NVML), or from a file that nvidia-smi wrote."""

from __future__ import annotations

import re

from ...evidence import Evidence, Failure, Gpus
from ...masking import Masker

__all__ = ["before_start", "of_text", "read_gpus"]

_XML, _LOG = "<nvidia_smi_log", "NVSMI LOG"
_NONE = r"(?:NVIDIA-SMI has failed|No devices were found|Failed to initialize NVML)[^\n]*"
_TABLE, _PROCESSES = "| NVIDIA-SMI ", "| Processes: "


def read_gpus(masker: Masker, time_limit_s: float = 2.0) -> Evidence:
    """The GPUs of this host, as the driver tells them; a driver that hangs holds nobody longer than the limit."""
    from .nvml import read

    return read(masker, time_limit_s)._replace(dated=True)


def before_start(gpus: Gpus) -> Gpus:
    """As a job printed them before its server started: of what was in use then nothing holds any more."""
    sizes = [gpu._replace(used_bytes=None, free_bytes=None, processes=None) for gpu in gpus.gpus]
    said = "the GPUs were captured before the server started, so only their size counts"
    return gpus._replace(gpus=tuple(sizes), remark=said)


def of_text(text: str, masker: Masker) -> Gpus | Failure | None:
    """What nvidia-smi printed, whole: `-q -x`, `--query-gpu=... --format=csv` (that of compute-apps too, also below
    it), or the table it prints without options. None: no output of nvidia-smi.
    """
    from . import smi_csv

    if _XML in text:
        from . import smi_xml

        return smi_xml.parse(text, masker)
    if _TABLE in text or _PROCESSES in text:
        from . import smi_table

        return smi_table.parse(text, masker)
    if said := re.match(_NONE, text.lstrip()):
        return Failure("no GPU", f"nvidia-smi says: {masker.text(said[0])[:160]}", "mend the driver, capture it again")
    if _LOG in text[:4096]:
        return Failure("not read", "nvidia-smi -q for people, not for programs", "capture nvidia-smi -q -x")
    return smi_csv.parse(text, masker)
