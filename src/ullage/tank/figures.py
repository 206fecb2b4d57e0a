"""The figures of a worker: what is fixed from its start on, what moves, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class EngineFacts(NamedTuple):
    """What was sized at the start. `available_before_load_bytes` is SGLang's M, all that the worker's memory offers."""

    role: str  # unified | prefill | decode
    max_total_num_tokens: int
    page_size: int
    num_pages: int
    context_len: int
    max_running_requests: int
    extra_slots: int
    max_req_input_len: int
    mem_fraction_static: float
    memory_bytes: int
    available_before_load_bytes: int
    available_after_load_bytes: int
    available_after_pool_bytes: int
    available_bytes: int  # once request table and scratch are taken too
    weight_bytes: int
    kv_cache_bytes: int
    kv_bytes_per_token: int
    request_table_bytes: int
    scratch_bytes: int


class Loads(NamedTuple):
    """How full a worker is at one moment. used + evictable + available = max_total_num_tokens."""

    running: int = 0
    waiting: int = 0
    used_tokens: int = 0
    evictable_tokens: int = 0
    available_tokens: int = 0
    queued_tokens: int = 0
    token_usage: float = 0.0
    gen_throughput: float = 0.0
    cache_hit_rate: float = 0.0
    new_token_ratio: float = 0.0
    bootstrap_queue: int = 0
    inflight_queue: int = 0
    prealloc_queue: int = 0
    transfer_queue: int = 0
    retracted_queue: int = 0
    pending_prealloc_tokens: int = 0
    sequence_tokens: int = 0


@dataclass
class Counters:
    """Only ever grow."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    aborted_requests: int = 0
    retracted_requests: int = 0
    retracted_input_tokens: int = 0
    retracted_output_tokens: int = 0
    bootstrap_failed: int = 0
    transfer_failed: int = 0
