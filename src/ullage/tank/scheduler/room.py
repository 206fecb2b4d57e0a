"""What the loops of all roles stand on: the pool, the table, the model, and the door."""

from __future__ import annotations

import time

import numpy as np

from ..config import ServerArgs
from ..figures import Counters, EngineFacts, Loads
from ..kv_pool import KvPool
from ..memory import longest_request
from ..model.load import Loaded
from ..observer import Observer, Timing, TransferFailed
from ..pace import Clock
from ..ratio import NewTokenRatio
from ..request import Finish
from ..request_table import RequestTable
from ..runner import Runner
from ..sequence import Sequence
from .meter import Meter


class Room:
    """Holds what is counted and shared out. A sequence comes in where `refuse` finds nothing, and leaves by `end`."""

    def __init__(self, args: ServerArgs, facts: EngineFacts, loaded: Loaded, observer: Observer) -> None:
        config = loaded.config
        kv = np.zeros(
            (config.layers, 2, facts.max_total_num_tokens, config.kv_heads, config.head_dim), dtype=np.float32
        )
        caches = facts.role != "decode" and not args.disable_radix_cache
        slots = facts.max_running_requests + facts.extra_slots
        self.args = args
        self.facts = facts
        self.observer = observer
        self.counters = Counters()
        self.pool = KvPool(kv, facts.page_size, prefix_cache=caches)
        self.table = RequestTable(slots, -(-facts.context_len // facts.page_size))
        self.clock = Clock(args.pace)
        self.runner = Runner(loaded, self.pool, self.table, self.clock, self.counters)
        self.ratio = NewTokenRatio(args.schedule_conservativeness)
        self.meter = Meter()

    def refuse(self, sequence: Sequence) -> Finish | None:
        """Why it is turned away at the door, or None, and then it knows how much it may generate."""
        prompt, asked = len(sequence.prompt_ids), sequence.sampling.max_new_tokens
        limit = longest_request(self.facts.context_len, self.facts.max_total_num_tokens, self.facts.page_size)
        if not prompt:
            return _bad("the prompt is empty")
        if asked is not None and asked < 1:
            return _bad(f"at least one token must be asked for, not {asked}")
        if prompt >= self.facts.max_req_input_len:
            return _bad(
                f"Input length ({prompt} tokens) exceeds the maximum allowed length"
                f" ({self.facts.max_req_input_len} tokens)."
            )
        if asked is not None and prompt + asked > self.facts.context_len:
            return _bad(
                f"Requested token count exceeds the model's maximum context length of {self.facts.context_len} tokens:"
                f" {prompt} tokens of input and {asked} of output."
            )
        sequence.max_new_tokens = min(limit - prompt - 1, asked or limit)
        return None

    def vacate(self, sequence: Sequence, *, keep: bool) -> None:
        """Its pages and its row are free."""
        self.pool.release(sequence, keep=keep)
        self.table.give(sequence)

    def end(self, sequence: Sequence) -> None:
        """It holds nothing any more and is told of."""
        finish = sequence.finish
        aborted = finish is not None and finish.type == "abort"
        self.vacate(sequence, keep=not aborted)
        self.counters.requests += 1
        self.counters.aborted_requests += aborted
        self.counters.prompt_tokens += len(sequence.prompt_ids)
        self.counters.cached_tokens += sequence.cached_tokens
        self.observer.finished(_timing(sequence, aborted))

    def fail(self, sequence: Sequence, message: str, status: int = 500) -> None:
        """Ends it with an error that its caller gets."""
        sequence.finish = Finish("abort", message=message, status=status)
        sequence.tell((), "")
        self.end(sequence)

    def fail_transfer(self, sequence: Sequence, number: int, why: str, *, claimed: bool) -> None:
        """Its room came to nothing, before decode had claimed it or after. What its caller gave up is no failure."""
        if not sequence.dropped and claimed:
            self.counters.transfer_failed += 1
            self.observer.transfer_failed(TransferFailed(self.facts.role, number, why))
        elif not sequence.dropped:
            self.counters.bootstrap_failed += 1
        self.fail(sequence, f"{self.facts.role} of room {number} failed: {why}")

    def idle(self) -> None:
        """There is nothing to run."""
        self.meter.idle()
        self.clock.idle()

    def loads(self) -> Loads:
        pool = self.pool
        return Loads(
            used_tokens=pool.used_tokens,
            evictable_tokens=pool.evictable_tokens,
            available_tokens=pool.available_tokens,
            token_usage=pool.used_tokens / pool.size_tokens,
            gen_throughput=self.meter.generated_per_s,
            cache_hit_rate=self.meter.cache_hit_rate,
            new_token_ratio=self.ratio.current,
        )


def _bad(message: str) -> Finish:
    return Finish("abort", message=message, status=400)


def _timing(sequence: Sequence, aborted: bool) -> Timing:
    times, now = sequence.times, time.monotonic()
    return Timing(
        prompt_tokens=len(sequence.prompt_ids),
        output_tokens=len(sequence.output_ids),
        cached_tokens=sequence.cached_tokens,
        queue_s=None if times.forwarded is None else times.forwarded - times.arrived,
        first_token_s=None if times.first_token is None else times.first_token - times.arrived,
        total_s=now - times.arrived,
        token_gaps_s=tuple(times.gaps),
        aborted=aborted,
    )
