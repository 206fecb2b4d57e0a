"""Why a file could not be written, and what to do about just that."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ullage.cli import write
from ullage.errors import UsageError


@pytest.mark.parametrize(
    ("where", "error", "advice"),
    [
        ("none/x.html", None, "in a folder that exists"),
        (".", None, "that is a folder"),
        ("x.html", errno.EACCES, "that you may write to"),
        ("x.html", errno.EROFS, "look at the disk"),
        ("x.html", errno.ENOSPC, "look at the disk"),
    ],
)
def test_the_advice_fits_the_fault(
    where: str, error: int | None, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> tuple[int, str]:
        assert error is not None
        raise OSError(error, os.strerror(error))

    if error is not None:
        monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(UsageError) as raised:
        write.write_whole(str(tmp_path / where), "page")
    assert "cannot write" in raised.value.message
    assert advice in raised.value.advice
    assert list(tmp_path.iterdir()) == []
