"""How a worker's memory is shared out, by SGLang's identity, which the log and /server_info then state:

    budget = free after the weights are loaded - M * (1 - mem_fraction_static)        M: free before
    pool   = floor(budget / bytes per token), in whole pages

(sglang, mem_cache/kv_cache_configurator.py of v0.5.15.) What M * (1 - fraction) leaves must hold the request table and
the scratch of a forward pass; here that is checked, not hoped for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..errors import UllageError
from .config import ServerArgs
from .figures import EngineFacts
from .model.config import ModelConfig
from .model.forward import activation_bytes
from .pages import ceil_div

MAX_RUNNING_REQUESTS = 64  # unless asked for: what a CPU serves at a bearable pace
_MIB = 2**20


class _Tables(NamedTuple):
    """What grows with the requests that may run: bytes of the request table, and of a forward pass's scratch."""

    running: int
    extra: int
    table_bytes: int
    scratch_bytes: int

    @property
    def bytes(self) -> int:
        return self.table_bytes + self.scratch_bytes


def size_memory(args: ServerArgs, config: ModelConfig, weight_bytes: int) -> EngineFacts:
    """Raises UllageError where it does not fit, with what would."""
    context = _context_len(args, config)
    after_load = args.memory_bytes - weight_bytes
    asked = _tables(args, config, context, args.max_running_requests or MAX_RUNNING_REQUESTS)
    fraction = args.mem_fraction_static or _automatic_fraction(args, asked)
    budget = after_load - round(args.memory_bytes * (1 - fraction))
    tokens = _pool_tokens(args, config, budget)
    if args.max_total_tokens is not None and args.max_total_tokens < args.page_size:
        raise UllageError(
            f"--max-total-tokens {args.max_total_tokens} is less than a page of {args.page_size} tokens",
            "give several pages",
        )
    if tokens <= 0:
        raise _too_little(args, config, weight_bytes, asked, fraction)
    longest = _max_req_input_len(args, context, tokens)
    if longest < 2:
        raise _serves_nothing(args, tokens)
    tables = _tables(args, config, context, min(asked.running, max(1, tokens // 2)))
    pool_bytes = tokens * config.kv_bytes_per_token
    left = after_load - pool_bytes - tables.bytes
    if left < 0:
        raise _no_slack(args, tables, fraction)
    return EngineFacts(
        role={"null": "unified"}.get(args.disaggregation_mode, args.disaggregation_mode),
        max_total_num_tokens=tokens,
        page_size=args.page_size,
        num_pages=tokens // args.page_size,
        context_len=context,
        max_running_requests=tables.running,
        extra_slots=tables.extra,
        max_req_input_len=longest,
        mem_fraction_static=fraction,
        memory_bytes=args.memory_bytes,
        available_before_load_bytes=args.memory_bytes,
        available_after_load_bytes=after_load,
        available_after_pool_bytes=after_load - pool_bytes,
        available_bytes=left,
        weight_bytes=weight_bytes,
        kv_cache_bytes=pool_bytes,
        kv_bytes_per_token=config.kv_bytes_per_token,
        request_table_bytes=tables.table_bytes,
        scratch_bytes=tables.scratch_bytes,
    )


def longest_request(context: int, pool_tokens: int, page_size: int) -> int:
    """Prompt and output of one request at most: SGLang's `max_req_len`. A page is left free of the pool, not a token,
    so that the test at the door, which asks for one page more than is needed, lets the longest in.
    """
    return min(context - 1, pool_tokens - page_size)


def _max_req_input_len(args: ServerArgs, context: int, tokens: int) -> int:
    """A prompt must be shorter than this. On a decode worker its tokens and the reserve must fit the empty pool."""
    limit = longest_request(context, tokens, args.page_size) - 5
    if args.disaggregation_mode != "decode":
        return limit
    return min(limit, (tokens - args.num_reserved_decode_tokens) // args.page_size * args.page_size + 1)


def _context_len(args: ServerArgs, config: ModelConfig) -> int:
    if args.context_length is not None and args.context_length > config.context_len:
        raise UllageError(
            f"--context-length {args.context_length} is longer than the model's {config.context_len} tokens",
            f"give at most {config.context_len}",
        )
    return args.context_length or config.context_len


def _tables(args: ServerArgs, config: ModelConfig, context: int, running: int) -> _Tables:
    extra = _extra_slots(args, running)
    width = ceil_div(context, args.page_size)
    rows = max(args.chunked_prefill_size, running)
    return _Tables(running, extra, (running + extra) * width * 4, activation_bytes(config, rows, running))


def _extra_slots(args: ServerArgs, running: int) -> int:
    """Requests in transfer beside the running ones, on a decode worker."""
    if args.disaggregation_mode != "decode":
        return 0
    if args.disaggregation_decode_extra_slots is not None:
        return args.disaggregation_decode_extra_slots
    return 2 * running if running <= 32 else 0


def _automatic_fraction(args: ServerArgs, tables: _Tables) -> float:
    """The highest, to three decimals, that leaves room for the tables."""
    return max(0.0, math.floor((1 - tables.bytes / args.memory_bytes) * 1000) / 1000)


def _pool_tokens(args: ServerArgs, config: ModelConfig, budget: int) -> int:
    tokens = budget // config.kv_bytes_per_token
    if args.max_total_tokens is not None:
        tokens = min(tokens, args.max_total_tokens)
    return tokens // args.page_size * args.page_size


def _too_little(
    args: ServerArgs, config: ModelConfig, weight_bytes: int, tables: _Tables, fraction: float
) -> UllageError:
    least = weight_bytes + tables.bytes + 2 * args.page_size * config.kv_bytes_per_token
    if args.memory_bytes < least:
        return UllageError(
            f"not enough memory: {args.memory_bytes / _MIB:.0f} MiB for {weight_bytes / _MIB:.0f} MiB of weights,"
            f" {tables.bytes / _MIB:.0f} MiB of tables and scratch, and a KV pool",
            f"--memory {math.ceil(least / _MIB)}MiB is the least",
        )
    needed = math.ceil((weight_bytes / args.memory_bytes) * 1000 + 1) / 1000
    return UllageError(
        f"no memory is left for the KV pool at --mem-fraction-static {fraction:g}", f"give {needed:.3f} or more"
    )


def _serves_nothing(args: ServerArgs, tokens: int) -> UllageError:
    kept = args.num_reserved_decode_tokens if args.disaggregation_mode == "decode" else 0
    back = f", of which each request keeps {kept} back" if kept else ""
    return UllageError(
        f"not even a prompt of one token fits the KV pool of {tokens} tokens{back}",
        "make the pool larger: --memory, --max-total-tokens" + (", or lower --num-reserved-decode-tokens" * bool(kept)),
    )


def _no_slack(args: ServerArgs, tables: _Tables, fraction: float) -> UllageError:
    return UllageError(
        f"--mem-fraction-static {fraction:g} leaves {args.memory_bytes * (1 - fraction) / _MIB:.0f} MiB, and request"
        f" table and scratch need {tables.bytes / _MIB:.0f} MiB",
        f"give {_automatic_fraction(args, tables):.3f} or less, or lower --max-running-requests or"
        " --chunked-prefill-size",
    )
