"""Workers that all tests of a run share: nothing that a test leaves behind may show in another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.tank.processes import Worker, worker

POOL = ("--max-total-tokens", "4096")


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("plain"), *POOL) as started:
        yield started


@pytest.fixture(scope="session")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """50 tokens a second at most, and one request at a time, so that there is a middle to leave in, and a queue."""
    flags = ("--pace", "prefill=0,decode=0.02", "--max-running-requests", "1")
    with worker(tmp_path_factory.mktemp("slow"), *POOL, *flags) as started:
        yield started


class Pair(NamedTuple):
    prefill: Worker
    decode: Worker

    @property
    def is_empty(self) -> bool:
        return self.prefill.is_empty() and self.decode.is_empty()


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder, mode = tmp_path_factory.mktemp("pair"), "--disaggregation-mode"
    with worker(folder, *POOL, mode, "prefill") as prefill, worker(folder, *POOL, mode, "decode") as decode:
        yield Pair(prefill, decode)
