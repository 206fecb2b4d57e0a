"""The NIXL library: an agent that knows the pool, and writes into the pools of others."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import importlib.util
import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import UllageError
from .movers import Kv
from .wire import GoneError

T = TypeVar("T")
Spans = NDArray[np.uint64]  # [n, 3]: address, bytes, device
_PACKAGES = ("nixl", "nixl_cu13", "nixl_cu12")  # the first is only a door to one of the others
_ADVICE = "pip install --no-deps nixl-cu12; --transfer tcp needs nothing"


class Pool(NamedTuple):
    """Where the pool of another worker is, as it says itself."""

    agent: str
    metadata: str
    address: int
    slots: int


class Agent:
    """Every call of the library goes through one thread, which is not that of the event loop: it may take long, and
    it may not come from two at once. The library's own thread is off, since it never sleeps: there is progress only
    within calls.
    """

    def __init__(self, kv: Kv) -> None:
        self._kv = kv
        self._last = 0
        self._library = library()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nixl")
        try:
            self._begin()
        except Exception as error:
            raise UllageError(f"NIXL does not start: {error}", "--transfer tcp needs nothing") from None

    async def call(self, what: Callable[..., T], *args: Any) -> T:
        """It goes on to its end even if the caller does not."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, what, *args)
        except GoneError:
            raise
        except Exception as error:
            raise GoneError(f"NIXL: {error}") from None

    def close(self) -> None:
        self._thread.submit(self._end).result()
        self._thread.shutdown()

    def progress(self) -> None:
        """Others may wait for an answer of the library's here."""
        self._nixl.get_new_notifs()

    def write(self, target: Pool, here: Spans, there: Spans) -> int:
        """Begins to; the number is to be asked for by `is_written`."""
        if target.agent not in self._peers:
            self._nixl.add_remote_agent(base64.b64decode(target.metadata))
            self._peers.add(target.agent)
        spans = [self._nixl.get_xfer_descs(each, "DRAM") for each in (here, there)]
        write = _Write(self._nixl.initialize_xfer("WRITE", *spans, target.agent), target.agent)
        write.ask(self._nixl.transfer)
        self._last += 1
        self._writes[self._last] = write
        return self._last

    def is_written(self, number: int) -> bool:
        """When it is, or has failed, it is over."""
        write = self._writes.get(number)
        if write is None:
            raise GoneError("the transfer was cut off")
        if write.state == "PROC":
            write.ask(self._nixl.check_xfer_state)
        if write.state == "PROC":
            return False
        self._over(number)
        if write.state != "DONE":
            raise GoneError(f"NIXL could not write to the decode worker: {write.state}")
        return True

    def cut_off(self) -> None:
        """Ends all that is under way, in or out. To release a write, or to leave its peer, does not keep its bytes
        from coming: what is sure to be over is what an agent did that is gone.
        """
        self._end()
        self._begin()

    def _begin(self) -> None:
        self._writes: dict[int, _Write] = {}
        self._peers: set[str] = set()
        name = uuid.uuid4().hex
        config = self._library.nixl_agent_config(enable_prog_thread=False, backends=["UCX"])
        self._nixl = self._library.nixl_agent(name, config)
        self._pool = self._nixl.register_memory([(self._kv.ctypes.data, self._kv.nbytes, 0, "")], "DRAM")
        metadata = base64.b64encode(self._nixl.get_agent_metadata()).decode()
        self.me = Pool(name, metadata, self._kv.ctypes.data, self._kv.shape[2])

    def _end(self) -> None:
        while self._writes:
            self._writes.popitem()[1].handle.release()
        self._nixl.deregister_memory(self._pool)
        del self._nixl, self._pool

    def _over(self, number: int) -> None:
        """A peer that failed is forgotten: when it is met again, it is connected to anew."""
        write = self._writes.pop(number)
        with contextlib.suppress(Exception):
            write.handle.release()
        if write.state != "DONE" and all(other.peer != write.peer for other in self._writes.values()):
            self._peers.discard(write.peer)
            with contextlib.suppress(Exception):
                self._nixl.remove_remote_agent(write.peer)


class _Write:
    def __init__(self, handle: Any, peer: str) -> None:
        self.handle = handle
        self.peer = peer
        self.state = "PROC"  # DONE, or what went wrong

    def ask(self, how: Callable[[Any], str]) -> None:
        try:
            self.state = how(self.handle)
        except Exception as error:
            self.state = str(error)


def library() -> Any:
    """Raises UllageError where NIXL is not installed."""
    os.environ.setdefault("NIXL_LOG_LEVEL", "WARN")  # standard output is for the worker's lines
    os.environ.setdefault("UCX_LOG_LEVEL", "error")
    package = installed()
    if package is None:
        raise UllageError("--transfer nixl needs NIXL, which is not installed", _ADVICE)
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UllageError(f"NIXL cannot be loaded: {error}", _ADVICE) from None


def installed() -> str | None:
    """The package that has it."""
    return next((name for name in _PACKAGES if importlib.util.find_spec(name)), None)
