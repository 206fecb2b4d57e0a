"""What the engine tells of its steps, for log lines and histograms."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class PrefillBatch(NamedTuple):
    """One pass over prompts. Queue lengths are those after it was chosen; `pending_tokens` wait uncached."""

    new_seqs: int
    new_tokens: int
    cached_tokens: int
    token_usage: float
    running: int
    queued: int
    pending_tokens: int
    bootstrap: int
    inflight: int
    input_throughput: float


class DecodeBatch(NamedTuple):
    """One step of all running requests. `tokens` are those that its requests hold."""

    running: int
    tokens: int
    token_usage: float
    preallocated_usage: float
    prealloc: int
    transfer: int
    retracted: int
    gen_throughput: float
    queued: int


class Retracted(NamedTuple):
    """The pool was full: so many requests went back, and the ratio by which output is kept back moved."""

    requests: int
    old_ratio: float
    new_ratio: float


class Transferred(NamedTuple):
    """One KV transfer that ended well."""

    bytes: int
    bootstrap_s: float
    alloc_s: float
    transfer_s: float


class TransferFailed(NamedTuple):
    """One that did not, and why. `role`: on which side that was noticed."""

    role: str
    room: int
    why: str


class Timing(NamedTuple):
    """A request that ended: seconds since it came in, None where it never got so far."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    queue_s: float | None
    first_token_s: float | None
    total_s: float
    token_gaps_s: tuple[float, ...]
    aborted: bool
    streamed: bool = True


class Observer(Protocol):
    """Called from the engine's thread; must be quick and must not raise."""

    def prefill_batch(self, batch: PrefillBatch) -> None: ...
    def decode_batch(self, batch: DecodeBatch) -> None: ...
    def retracted(self, event: Retracted) -> None: ...
    def transferred(self, event: Transferred) -> None: ...
    def transfer_failed(self, event: TransferFailed) -> None: ...
    def finished(self, timing: Timing) -> None: ...


class Silent:
    """Tells nobody."""

    def prefill_batch(self, batch: PrefillBatch) -> None: ...
    def decode_batch(self, batch: DecodeBatch) -> None: ...
    def retracted(self, event: Retracted) -> None: ...
    def transferred(self, event: Transferred) -> None: ...
    def transfer_failed(self, event: TransferFailed) -> None: ...
    def finished(self, timing: Timing) -> None: ...
