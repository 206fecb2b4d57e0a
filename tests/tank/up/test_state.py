"""The state: written whole, for its owner's eyes, and believed only in the boot that it was written in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ullage.errors import UllageError
from ullage.tank.up.process import Identity, identify
from ullage.tank.up.state import (
    SERVING,
    Place,
    Running,
    State,
    fresh_logs,
    locked,
    make_folder,
    read_state,
    the_place,
    write_state,
)

ME = identify(os.getpid()) or Identity(0, 0)
DECODE = Running("decode", "decode", "http://127.0.0.1:30001", "/l/decode.log", *ME, 1.5, 2, "killed by SIGKILL")
STATE = State(SERVING, 1.0, "http://127.0.0.1:8000", "http://127.0.0.1:29000/metrics", "tiny", None, ME, (DECODE,))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    at = Place(tmp_path / "ullage" / "tank")
    make_folder(at.folder)
    return at


def test_what_was_written_is_read(place: Place) -> None:
    write_state(place, STATE)
    assert read_state(place) == STATE
    assert [part.name for part in STATE.living()] == ["decode"]


def test_only_its_owner_may_look(place: Place) -> None:
    write_state(place, STATE)
    fresh_logs(place)
    with locked(place):
        modes = {path.name: path.stat().st_mode & 0o777 for path in (place.folder, *place.folder.iterdir())}
    assert modes == {"tank": 0o700, "state.json": 0o600, "lock": 0o600, "logs": 0o700}


def test_a_state_that_cannot_be_written_leaves_the_one_before(place: Place) -> None:
    write_state(place, STATE)
    with pytest.raises(TypeError):
        write_state(place, STATE._replace(model=object()))  # type: ignore[arg-type]
    assert read_state(place) == STATE
    assert [path.name for path in place.folder.iterdir()] == ["state.json"]


def test_pids_of_another_boot_are_nobody(place: Place) -> None:
    write_state(place, STATE)
    data = json.loads(place.state.read_text())
    place.state.write_text(json.dumps({**data, "boot": "another"}))
    assert read_state(place) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": "ullage.tank-state/9"}', '{"schema": "ullage.tank-state/1"}']
)
def test_a_state_that_is_none_is_told_in_one_line(place: Place, text: str) -> None:
    place.state.write_text(text)
    with pytest.raises(UllageError, match=r"state\.json cannot be read") as told:
        read_state(place)
    assert "\n" not in str(told.value)


def test_one_at_a_time_and_the_kernel_lets_go(place: Place) -> None:
    holder = f"""
import pathlib
from ullage.tank.up.state import Place, locked
with locked(Place(pathlib.Path({str(place.folder)!r}))) as ours:
    print(ours, flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with locked(place) as ours:
            assert not ours
        other.kill()
        other.wait()
        with locked(place) as ours:
            assert ours


def test_logs_of_the_run_before_are_kept_once(place: Place) -> None:
    for run in "abc":
        fresh_logs(place)
        (place.logs / "decode.log").write_text(run)
    assert (place.folder / "logs.before" / "decode.log").read_text() == "b"


def test_the_place_is_where_xdg_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/var/x")
    assert the_place().folder == Path("/var/x/ullage/tank")
    for unfit in ("", "relative/one"):
        monkeypatch.setenv("XDG_STATE_HOME", unfit)
        assert the_place().folder == Path.home() / ".local/state/ullage/tank"
