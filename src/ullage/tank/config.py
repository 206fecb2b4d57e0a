"""What a worker was asked for, under the names that SGLang gives its flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

GIB = 2**30


class Pace(NamedTuple):
    """A step clock: what a prompt token and a decode step take, in seconds, whatever the machine would need."""

    prefill_token_s: float
    decode_step_s: float


@dataclass(frozen=True)
class ServerArgs:
    """One worker. `None`: not asked for; what is in effect then stands in `EngineFacts`."""

    model_path: str = "smollm2"
    served_model_name: str | None = None
    host: str = "127.0.0.1"
    port: int = 30000
    api_key: str | None = None
    memory_bytes: int = GIB
    mem_fraction_static: float | None = None
    page_size: int = 16
    context_length: int | None = None
    max_total_tokens: int | None = None
    max_running_requests: int | None = None
    max_queued_requests: int | None = None
    chunked_prefill_size: int = 512
    max_prefill_tokens: int = 16384
    schedule_conservativeness: float = 1.0
    disable_radix_cache: bool = False
    disaggregation_mode: str = "null"  # null | prefill | decode
    disaggregation_transfer_backend: str = "tcp"
    disaggregation_bootstrap_port: int = 8998
    disaggregation_decode_extra_slots: int | None = None
    num_reserved_decode_tokens: int = 512
    bootstrap_timeout_s: float = 300.0  # SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT
    waiting_timeout_s: float = 300.0  # SGLANG_DISAGGREGATION_WAITING_TIMEOUT
    decode_log_interval: int = 40
    random_seed: int = 0
    threads: int | None = None
    pace: Pace | None = None
    enable_metrics: bool = True
