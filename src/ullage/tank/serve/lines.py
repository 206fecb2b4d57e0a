"""The log, in SGLang's form: start-up, one line for each prefill batch, one for every so many decode steps."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

from ..config import GIB, ServerArgs
from ..figures import EngineFacts
from ..observer import DecodeBatch, PrefillBatch, Retracted, Timing, TransferFailed, Transferred
from .histograms import Histograms
from .info import stated_args


class Lines:
    """One line at a time, flushed, each with its time. A log that cannot be written stops no worker."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}", file=self._out, flush=True)

    def asked(self, args: ServerArgs) -> None:
        fields = ", ".join(f"{name}={value!r}" for name, value in stated_args(args).items())
        self.say(f"server_args=ServerArgs({fields})")

    def loading(self, memory_bytes: int) -> None:
        self.say(f"Load weight begin. avail mem={_gb(memory_bytes)} GB")

    def sized(self, args: ServerArgs, facts: EngineFacts) -> None:
        """What was taken, in the order in which it was."""
        half = _gb(facts.kv_cache_bytes // 2)
        self.say(
            "Load weight end. type=LlamaForCausalLM, dtype=float32,"
            f" avail mem={_gb(facts.available_after_load_bytes)} GB, mem usage={_gb(facts.weight_bytes)} GB."
        )
        self.say(f"KV Cache is allocated. #tokens: {facts.max_total_num_tokens}, K size: {half} GB, V size: {half} GB")
        self.say(f"Memory pool end. avail mem={_gb(facts.available_after_pool_bytes)} GB")
        self.say(
            f"max_total_num_tokens={facts.max_total_num_tokens}, chunked_prefill_size={args.chunked_prefill_size},"
            f" max_prefill_tokens={args.max_prefill_tokens}, max_running_requests={facts.max_running_requests},"
            f" context_len={facts.context_len}, available_gpu_mem={_gb(facts.available_bytes)} GB"
        )

    def ready(self, args: ServerArgs) -> None:
        host = f"[{args.host}]" if ":" in args.host else args.host
        self.say(f"Uvicorn running on http://{host}:{args.port} (Press CTRL+C to quit)")
        self.say("The server is fired up and ready to roll!")


class Told:
    """The engine's observer: what it does becomes lines and histograms."""

    def __init__(self, lines: Lines, role: str, histograms: Histograms | None) -> None:
        self._lines = lines
        self._role = role
        self._histograms = histograms

    def prefill_batch(self, batch: PrefillBatch) -> None:
        pair = f" #bootstrap-req: {batch.bootstrap}, #inflight-req: {batch.inflight}," * (self._role == "prefill")
        self._lines.say(
            f"Prefill batch, #new-seq: {batch.new_seqs}, #new-token: {batch.new_tokens},"
            f" #cached-token: {batch.cached_tokens}, token usage: {batch.token_usage:.2f},"
            f" #running-req: {batch.running}, #queue-req: {batch.queued}, #pending-token: {batch.pending_tokens},{pair}"
            f" cuda graph: False, input throughput (token/s): {batch.input_throughput:.2f}"
        )

    def decode_batch(self, batch: DecodeBatch) -> None:
        pair = (
            f" pre-allocated usage: {batch.preallocated_usage:.2f}, #prealloc-req: {batch.prealloc},"
            f" #transfer-req: {batch.transfer}, #retracted-req: {batch.retracted},"
            if self._role == "decode"
            else ""
        )
        self._lines.say(
            f"Decode batch, #running-req: {batch.running}, #token: {batch.tokens},"
            f" token usage: {batch.token_usage:.2f},{pair} cuda graph: False,"
            f" gen throughput (token/s): {batch.gen_throughput:.2f}, #queue-req: {batch.queued}"
        )

    def retracted(self, event: Retracted) -> None:
        self._lines.say(
            f"KV cache pool is full. Retract requests. #retracted_reqs: {event.requests},"
            f" #new_token_ratio: {event.old_ratio:.4f} -> {event.new_ratio:.4f}"
        )

    def transferred(self, event: Transferred) -> None:
        if self._histograms:
            self._histograms.transferred(event)

    def transfer_failed(self, event: TransferFailed) -> None:
        self._lines.say(
            f"{event.role.capitalize()} transfer failed for request rank=0 req.bootstrap_room={event.room}"
            f" with exception {event.why}"
        )

    def finished(self, timing: Timing) -> None:
        if self._histograms:
            self._histograms.finished(timing)


def _gb(value_bytes: int) -> str:
    """SGLang's "GB" is GiB."""
    return f"{value_bytes / GIB:.2f}"
