"""The driver itself, through NVML (the package nvidia-ml-py, which loads libnvidia-ml.so.1).

Each driver era has its own calls. Memory: v2 (R510 on) tells what the driver keeps apart, v1 counts it as used.
Processes: v3 (R510 on), v2 (R450 on), and the first one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from datetime import datetime, timezone
from threading import Thread
from types import ModuleType
from typing import Any, NamedTuple

from ...evidence import Content, Evidence, Failure, Gpu, GpuProcess, Gpus, Origin
from ...masking import Masker
from .smi_values import name_of, once, slice_name

_LIBRARY = "libnvidia-ml.so.1"
_NO_DRIVER = Failure("no driver", f"no NVIDIA driver here ({_LIBRARY} is not found)", "on a host with GPUs: install it")
_NVIDIA = "nvidia-smi tells the same from the shell"
_UNIFIED = "it shares the host's memory, and the driver tells no memory of its own"
_MIG = " MIG "
_NOT_AVAILABLE = 2**64 - 1  # NVML_VALUE_NOT_AVAILABLE
_KINDS = ("Compute", "Graphics")

Handle = Any  # an nvmlDevice_t of pynvml


class _Found(NamedTuple):
    content: Content
    remark: str = ""


class _OldProcess(ctypes.Structure):
    """nvmlProcessInfo_v1_t, which pynvml has no more."""

    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))


def read(masker: Masker, time_limit_s: float) -> Evidence:
    """In a thread of its own: a call into a driver that hangs cannot be broken off."""
    found: list[_Found] = []
    thread = Thread(target=lambda: found.append(_read(masker)), name="ullage-nvml", daemon=True)
    thread.start()
    thread.join(time_limit_s)
    content, remark = found[0] if found else _Found(_hung(time_limit_s))
    return Evidence(Origin("the GPUs of this host"), "NVML", "gpus", datetime.now(timezone.utc), content, remark)


def _hung(time_limit_s: float) -> Failure:
    reason = f"the NVIDIA driver did not answer within {time_limit_s:g} s"
    return Failure("timeout", reason, "a GPU may hang: look for Xid in dmesg, or capture nvidia-smi -q -x")


def _read(masker: Masker) -> _Found:
    """Most hosts have no driver: that is seen before the package is imported, which takes a while."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return _Found(_NO_DRIVER)
    try:
        import pynvml
    except ImportError:
        return _Found(Failure("no library", "the package nvidia-ml-py is not installed", "pip install nvidia-ml-py"))
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _Found(_failure(pynvml, error, masker))
    try:
        return _Reader(pynvml, masker).read()
    except pynvml.NVMLError as error:
        return _Found(_failure(pynvml, error, masker))
    except Exception as error:  # a driver that answers in a form of its own is no crash here
        fault = f"Ullage does not understand the NVIDIA driver ({type(error).__name__}: {masker.text(str(error))})"
        return _Found(Failure("not understood", fault, "please report it"))
    finally:
        pynvml.nvmlShutdown()


def _failure(nvml: ModuleType, error: Any, masker: Masker) -> Failure:
    known = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: _NO_DRIVER,
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: Failure(
            "no driver", "the NVIDIA driver is not loaded", "modprobe nvidia; in a container: run it with --gpus all"
        ),
        nvml.NVML_ERROR_NO_PERMISSION: Failure(
            "no rights",
            "no permission to ask the NVIDIA driver",
            "run as a user who may open /dev/nvidiactl, or as root",
        ),
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Failure(
            "mismatch",
            "the NVIDIA driver was updated, and the old one is still loaded",
            "reboot, or reload its modules",
        ),
        nvml.NVML_ERROR_GPU_IS_LOST: Failure("lost", "a GPU has fallen off the bus", "look for Xid in dmesg; reboot"),
    }
    return known.get(error.value) or Failure("failed", f"the NVIDIA driver says: {masker.text(str(error))}", _NVIDIA)


class _Reader:
    def __init__(self, nvml: ModuleType, masker: Masker) -> None:
        self.nvml, self.masker = nvml, masker
        self.remarks: list[str] = []

    def read(self) -> _Found:
        gpus = [gpu for number in range(self.nvml.nvmlDeviceGetCount()) for gpu in self._gpu_and_slices(number)]
        driver = self._ask("nvmlSystemGetDriverVersion") or ""
        if not gpus and not self.remarks:
            return _Found(Failure("no gpu", "the NVIDIA driver sees no GPU", "nvidia-smi -L lists those it sees"))
        return _Found(Gpus(tuple(gpus), self.masker.text(driver)), "; ".join(self.remarks))

    def _ask(self, name: str, *arguments: Any) -> Any:
        """None where this driver, or this GPU, does not tell."""
        try:
            return getattr(self.nvml, name)(*arguments)
        except self.nvml.NVMLError:
            return None

    def _gpu_and_slices(self, number: int) -> Iterator[Gpu]:
        try:
            handle = self.nvml.nvmlDeviceGetHandleByIndex(number)
        except self.nvml.NVMLError as error:
            self.remarks.append(f"GPU {number}: {self.masker.text(str(error))}")
            return
        gpu = self._gpu(handle, number)
        yield gpu
        for part in self._slices(handle):
            name, _, profile = (self._ask("nvmlDeviceGetName", part) or "").partition(_MIG)
            ids = (self._ask(f"nvmlDeviceGet{kind}InstanceId", part) for kind in ("Gpu", "Compute"))
            yield self._gpu(part, number)._replace(name=name or gpu.name, mig=slice_name(profile, *ids))

    def _slices(self, handle: Handle) -> list[Handle]:
        mode = self._ask("nvmlDeviceGetMigMode", handle)
        most = self._ask("nvmlDeviceGetMaxMigDeviceCount", handle) if mode and mode[0] else 0
        found = (self._ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, place) for place in range(most or 0))
        return [part for part in found if part is not None]

    def _gpu(self, handle: Handle, number: int) -> Gpu:
        total, used, free, reserved = self._memory(handle, number)
        return Gpu(
            number,
            self.masker.text(self._ask("nvmlDeviceGetName", handle) or ""),
            self._ask("nvmlDeviceGetUUID", handle) or "",
            total,
            used,
            free,
            reserved,
            self._processes(handle),
        )

    def _memory(self, handle: Handle, number: int) -> tuple[int | None, int | None, int | None, int | None]:
        """(total, used, free, reserved); what the first version counts as used holds what is reserved."""
        try:
            try:
                memory = self.nvml.nvmlDeviceGetMemoryInfo(handle, self.nvml.nvmlMemory_v2)
                return memory.total, memory.used, memory.free, memory.reserved
            except (self.nvml.NVMLError_FunctionNotFound, self.nvml.NVMLError_ArgumentVersionMismatch):
                memory = self.nvml.nvmlDeviceGetMemoryInfo(handle)
                return memory.total, memory.used, memory.free, None
        except self.nvml.NVMLError as error:
            unified = error.value == self.nvml.NVML_ERROR_NOT_SUPPORTED
            why = _UNIFIED if unified else self.masker.text(str(error))
            self.remarks.append(f"GPU {number}: {why}")
            return None, None, None, None

    def _processes(self, handle: Handle) -> tuple[GpuProcess, ...] | None:
        """Those that compute and those that draw; None where not even the former are listed."""
        lists = [self._listed(handle, kind) for kind in _KINDS]
        if lists[0] is None:
            return None
        return once(
            GpuProcess(info.pid, self._name(info.pid), _used(info.usedGpuMemory))
            for some in lists
            for info in some or ()
        )

    def _listed(self, handle: Handle, kind: str, versions: tuple[str, ...] = ("_v3", "_v2")) -> list[Any] | None:
        if not versions:
            return self._listed_of_old(handle, kind)
        try:
            infos: list[Any] = getattr(self.nvml, f"nvmlDeviceGet{kind}RunningProcesses{versions[0]}")(handle)
        except self.nvml.NVMLError_FunctionNotFound:
            return self._listed(handle, kind, versions[1:])
        except self.nvml.NVMLError:
            return None
        return infos

    def _listed_of_old(self, handle: Handle, kind: str) -> list[Any] | None:
        """By the first version of the call, with room for more processes than it has told of."""
        try:
            call = self.nvml._nvmlGetFunctionPointer(f"nvmlDeviceGet{kind}RunningProcesses")
        except self.nvml.NVMLError:
            return None
        count = ctypes.c_uint(0)
        if call(handle, ctypes.byref(count), None) == self.nvml.NVML_SUCCESS:
            return []
        room = (_OldProcess * (2 * count.value + 5))()
        count.value = len(room)
        status = call(handle, ctypes.byref(count), room)
        return list(room[: count.value]) if status == self.nvml.NVML_SUCCESS else None

    def _name(self, pid: int) -> str:
        return name_of(self._ask("nvmlSystemGetProcessName", pid) or "", self.masker)


def _used(told: int | None) -> int | None:
    return None if told in (None, _NOT_AVAILABLE) else told
