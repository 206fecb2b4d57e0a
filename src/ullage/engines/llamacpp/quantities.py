"""llama.cpp's quantities: the unit of each, by the engine's own name."""

from __future__ import annotations

import re

_UNITS = (
    (r"n_slots|n_seq_max|requests_\w+|slot_processing", "requests"),
    (r".*_mib( .*)?", "MiB"),
    (r".*_gib", "GiB"),
    (r"prompt_tokens_seconds|predicted_tokens_seconds|(prompt|eval)_tok_s", "tokens/s"),
    (r".*seconds(_total)?", "s"),
    (r"n_ctx\w*|n_batch|n_ubatch|n_predict|n_swa|fit_ctx_\w+|\w*_cells|n_prompt_tokens\w*|n_decoded", "tokens"),
    (r"n_tokens_max|\w*tokens_total|released_tokens|prompt_tokens_cached_total|kv_unified_per_slot", "tokens"),
    (r"\w*layers|n_layer|kv_streams|kv_seqs|models\w*|ctx_checkpoints|\w+_in_log", ""),
)
_PATTERNS = tuple((re.compile(pattern), unit) for pattern, unit in _UNITS)


def unit_of(name: str) -> str:
    return next((unit for pattern, unit in _PATTERNS if pattern.fullmatch(name)), "")
