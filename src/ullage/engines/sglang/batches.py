"""Run-time lines: what is in use, as the scheduler logs it. Names come out as the metrics have them."""

from __future__ import annotations

import math
import re

from ...evidence import LogLine
from ..events import Event, says
from .lines import Step, split_tag

_FIELD = re.compile(r"(#?[A-Za-z][\w /().-]*?): ?([^,|]+)")
_NAMES = {
    "#running-req": "num_running_reqs",
    "#queue-req": "num_queue_reqs",
    "#token": "num_used_tokens",
    "#full token": "num_used_tokens",
    "token usage": "token_usage",
    "full token usage": "full_token_usage",
    "#swa token": "swa_used_tokens",
    "swa token usage": "swa_token_usage",
    "mamba num": "mamba_used_slots",
    "mamba usage": "mamba_usage",
    "pre-allocated usage": "pending_prealloc_token_usage",
    "#prealloc-req": "num_decode_prealloc_queue_reqs",
    "#transfer-req": "num_decode_transfer_queue_reqs",
    "#retracted-req": "num_retracted_reqs",
    "#bootstrap-req": "num_prefill_bootstrap_queue_reqs",
    "#unbootstrapped-req": "num_prefill_bootstrap_queue_reqs",
    "#inflight-req": "num_prefill_inflight_queue_reqs",
    "#transferring-req": "num_prefill_inflight_queue_reqs",
    "#pending-token": "num_pending_tokens",
    "#new-seq": "batch_new_reqs",
    "#new-token": "batch_new_tokens",
    "#cached-token": "batch_cached_tokens",
    "gen throughput (token/s)": "gen_tokens_per_s",
    "input throughput (token/s)": "input_tokens_per_s",
    "accept len": "spec_accept_length",
    "accept rate": "spec_accept_rate",
}
_NEVER_LAST = ("num_used_tokens", "swa_used_tokens", "token_usage", "full_token_usage", "swa_token_usage")
_RETRACT = re.compile(
    r"#retracted_reqs: (?P<retracted_reqs>\d+)(?:, #new_tokens_gained: (?P<gained_tokens>\d+))?"
    r"(?:.*?#new_token_ratio: (?P<ratio_from>[\d.]+) -> (?P<new_token_ratio>\d+\.\d+|\d+(?![\d.])))?"
)


def batch_event(line: LogLine) -> Event | None:
    """The event of a `Prefill batch` or `Decode batch` line; a retraction ("KV cache pool is full", "Decode out of
    memory happened").
    """
    time, rank, body = split_tag(line.text)
    if body.startswith(("Decode batch", "Prefill batch")):
        values = {"phase": body.split(" ", 1)[0].lower(), **_fields(body)}
        return Event(Step.BATCH, rank, time or line.time, line, values)
    if says(body, "#retracted_reqs") and (match := _RETRACT.search(body)):
        values = {name: float(text) if "." in text else int(text) for name, text in match.groupdict().items() if text}
        return Event(Step.RETRACT, rank, time or line.time, line, values)
    return None


def _fields(body: str) -> dict[str, int | float | str]:
    """A field that is cut, unknown, or not a number ("nan%", "True") is left out: unknown, not zero."""
    fields: dict[str, int | float | str] = {}
    for field in _FIELD.finditer(body):
        known, value = _NAMES.get(field[1].strip()), _number(field[2].strip())
        if known and value is not None and not (field.end() == len(body) and known in _NEVER_LAST):
            fields[known] = value
    return fields


def _number(text: str) -> int | float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    if not (math.isfinite(value) and 0 <= value < 1e15):
        return None
    return int(value) if value.is_integer() and "." not in text else value
