"""A request on its way through a worker: what was asked for, and what comes back step by step."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import UllageError


class Sampling(NamedTuple):
    """How the next token is chosen, and when to stop. `max_new_tokens` None: as much as fits."""

    max_new_tokens: int | None = 128
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False


class Bootstrap(NamedTuple):
    """Where a decode worker finds the prefill worker that computes the same request, and under which number."""

    host: str
    port: int
    room: int


class Finish(NamedTuple):
    """Why a request ended: `stop`, `length` or `abort` (then with the HTTP status that a caller gets)."""

    type: str
    matched: int | str | None = None
    message: str = ""
    status: int = 500


class Output(NamedTuple):
    """What one step added to a request; counts are totals so far. The last one has `finish`."""

    token_ids: tuple[int, ...]
    text: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finish: Finish | None = None


class RefusedError(UllageError):
    """A request that is turned away at the door, with the HTTP status of the answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
