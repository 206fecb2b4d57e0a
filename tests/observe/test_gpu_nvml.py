"""NVML: the real nvidia-ml-py with a driver library of our own, compiled here, for several eras of the driver."""

from __future__ import annotations

import ctypes
import os
import pickle
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from ullage.evidence import Evidence, Failure, Gpu, GpuProcess, Gpus
from ullage.masking import Masker
from ullage.observe.gpu import read_gpus
from ullage.units import GIB

SOURCE = Path(__file__).parents[1] / "data" / "gpu" / "fake_nvml.c"
PROGRAM = """
import pickle, sys
from ullage.masking import Masker
from ullage.observe.gpu import read_gpus
pickle.dump(read_gpus(Masker(), float(sys.argv[1])), sys.stdout.buffer)
"""
SERVER = GpuProcess(100, "/usr/bin/python3", 8 * GIB)
HIDDEN = GpuProcess(200, "serve --api-key ***", None)
DESKTOP = GpuProcess(300, "", 5 << 20)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here, to make a driver library with")
    base = tmp_path_factory.mktemp("nvml")
    for era in (418, 470, 550):
        (base / str(era)).mkdir()
        out = base / str(era) / "libnvidia-ml.so.1"
        subprocess.run([compiler, "-shared", "-fPIC", f"-DERA={era}", "-o", out, SOURCE], check=True)
    return base


def read_with(libraries: Path, era: int, limit: float = 20.0, **environment: str) -> Evidence:
    """In a process of its own: a library that is loaded stays loaded."""
    variables = os.environ | {"LD_LIBRARY_PATH": str(libraries / str(era))} | environment
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(limit)], env=variables, capture_output=True, check=True)
    item = pickle.loads(done.stdout)
    assert isinstance(item, Evidence)
    return item


def gpus(item: Evidence) -> tuple[Gpu, ...]:
    assert isinstance(item.content, Gpus), item.content
    return item.content.gpus


def failure(item: Evidence) -> Failure:
    assert isinstance(item.content, Failure), item.content
    return item.content


@pytest.mark.parametrize(("era", "used", "reserved"), [(418, 31, None), (470, 31, None), (550, 30, GIB)])
def test_memory_and_processes_of_each_era(libraries: Path, era: int, used: int, reserved: int | None) -> None:
    item = read_with(libraries, era)
    whole = gpus(item)[0]
    assert whole[:6] == (0, "NVIDIA A100-SXM4-40GB", "GPU-0a1b", 40 * GIB, used * GIB, 9 * GIB)
    assert whole.reserved_bytes == reserved
    assert whole.processes == (SERVER, HIDDEN, DESKTOP)
    assert isinstance(item.content, Gpus)
    assert (item.content.driver, item.content.step_bytes) == ("550.90.07", 1)


def test_slices_are_gpus_of_their_own(libraries: Path) -> None:
    of_one = [gpu for gpu in gpus(read_with(libraries, 550)) if gpu.number == 1]
    assert [(gpu.mig, gpu.name, gpu.uuid) for gpu in of_one] == [
        ("", "NVIDIA A100-SXM4-40GB", "GPU-0a1b"),
        ("1c.3g.20gb 2/1", "NVIDIA A100-SXM4-40GB", "MIG-0a1b"),
        ("1g.5gb 7", "NVIDIA A100-SXM4-40GB", "MIG-0a1b"),
    ]
    assert [gpu.processes for gpu in of_one] == [(), (SERVER,), ()]


def test_a_driver_without_slices_has_none(libraries: Path) -> None:
    assert [gpu.number for gpu in gpus(read_with(libraries, 418))] == [0, 1, 2]


def test_what_one_gpu_does_not_tell_is_said_and_hides_no_other(libraries: Path) -> None:
    item = read_with(libraries, 550)
    shared = next(gpu for gpu in gpus(item) if gpu.name == "NVIDIA GB10")
    assert (shared.total_bytes, shared.used_bytes, shared.free_bytes, shared.processes) == (None,) * 4
    assert "GPU 2: it shares the host's memory" in item.remark
    assert "GPU 3: GPU is lost" in item.remark
    assert "GPU 0" not in item.remark


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (9, "no driver", "--gpus all"),
        (4, "no rights", "/dev/nvidiactl"),
        (18, "mismatch", "reboot"),
        (15, "lost", "Xid"),
        (999, "failed", "nvidia-smi"),
    ],
)
def test_a_driver_that_refuses(libraries: Path, code: int, status: str, words: str) -> None:
    found = failure(read_with(libraries, 550, FAKE_INIT=str(code)))
    assert found.status == status
    assert words in found.advice


def test_a_driver_without_gpus(libraries: Path) -> None:
    assert failure(read_with(libraries, 550, FAKE_NONE="1")).status == "no gpu"


def test_a_driver_that_hangs_holds_nobody(libraries: Path) -> None:
    found = failure(read_with(libraries, 550, limit=0.5, FAKE_HANG="1"))
    assert (found.status, found.reason) == ("timeout", "the NVIDIA driver did not answer within 0.5 s")


def test_no_driver_library(tmp_path: Path) -> None:
    """A file of that name that is no library is none; nor does one that the machine may have come in."""
    (tmp_path / "418").mkdir()
    (tmp_path / "418" / "libnvidia-ml.so.1").write_text("no library")
    found = failure(read_with(tmp_path, 418))
    assert (found.status, found.advice) == ("no driver", "on a host with GPUs: install it")


class FakeNvml:
    """nvidia-ml-py itself, but for the calls that a test replaces."""

    def __init__(self, **calls: Any) -> None:
        self.calls = calls | {"nvmlInit": lambda: None, "nvmlShutdown": lambda: None, "nvmlDeviceGetCount": lambda: 1}

    def __getattr__(self, name: str) -> Any:
        real = getattr(pynvml, name)
        return self.calls.get(name, self._not_there if name.startswith("nvml") and callable(real) else real)

    def _not_there(self, *_: Any) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def read_through(monkeypatch: pytest.MonkeyPatch, fake: FakeNvml | None = None, **calls: Any) -> Evidence:
    handle = {"nvmlDeviceGetHandleByIndex": lambda _: "handle"}
    monkeypatch.setitem(sys.modules, "pynvml", fake or FakeNvml(**(handle | calls)))
    return read_with_library(monkeypatch)


def read_with_library(monkeypatch: pytest.MonkeyPatch) -> Evidence:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: None)
    return read_gpus(Masker(), 20.0)


def memory(_: object, version: int = 0) -> SimpleNamespace:
    if version:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
    return SimpleNamespace(total=100, used=60, free=40)


def test_a_driver_that_knows_the_newer_call_but_not_its_struct(monkeypatch: pytest.MonkeyPatch) -> None:
    [gpu] = gpus(read_through(monkeypatch, nvmlDeviceGetMemoryInfo=memory))
    assert gpu == Gpu(0, "", "", 100, 60, 40, None, None)


def test_memory_that_one_may_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)

    item = read_through(monkeypatch, nvmlDeviceGetMemoryInfo=refused)
    assert gpus(item)[0].total_bytes is None
    assert item.remark == "GPU 0: Insufficient Permissions"


def test_a_failure_of_the_whole_driver_later_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    fake = FakeNvml()
    fake.calls["nvmlDeviceGetCount"] = lost
    assert failure(read_through(monkeypatch, fake)).status == "lost"


def test_an_answer_that_is_not_understood_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    found = failure(read_through(monkeypatch, nvmlDeviceGetMemoryInfo=lambda *_: SimpleNamespace(total=1)))
    assert found.status == "not understood"
    assert "AttributeError" in found.reason


def test_the_package_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert failure(read_with_library(monkeypatch)).advice == "pip install nvidia-ml-py"


def test_whose_and_of_when_it_is() -> None:
    item = read_gpus(Masker(), 20.0)
    assert (item.place, item.topic) == ("NVML", "gpus")
    assert datetime.now(timezone.utc) - item.read_at < timedelta(minutes=5)
