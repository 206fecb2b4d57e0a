"""What the cases call the quantities of llama.cpp's server, and what Ullage calls them."""

from __future__ import annotations

# Key in the cases (a pattern) -> names of ours, any of which may hold the value.
NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    # start-up logs
    (r"kv_buffer_mib", ("kv_buffer_mib", "kv_mib")),
    (r"([kv])_mib", (r"kv_\1_mib",)),
    (r"non_swa_mib|full", ("kv_mib",)),
    (r"non_swa_cells|cells", ("kv_cells",)),
    (r"swa", ("swa_mib",)),
    (r"(?:rs_)?([rs])_mib", (r"rs_\1_mib",)),
    (r"(recurrent|rs)_mib", ("rs_mib",)),
    (r"compute_mib", ("compute_mib*",)),
    (r"(model|weights)_mib", ("model_mib*",)),
    (r"slots", ("n_slots",)),
    (r"slot_ctx", ("n_ctx_slot",)),
    # endpoints, run-time logs, command lines
    (r"total_slots", ("n_slots",)),
    (r"tasks?", ("tasks_in_log",)),
    (r"last_release_tokens", ("released_tokens",)),
    (r"last_eval_tok_s", ("eval_tok_s",)),
    (r"last_prompt_tok_s", ("prompt_tok_s",)),
    (r"(ctx|ctx_size_flag)", ("requested_n_ctx",)),
    (r"parallel", ("requested_n_parallel",)),
    (r"presets", ("models_presets",)),
    (r"pool_cells", ("kv_cells",)),
    (r"memory_peak", ("memory_peak_gib",)),
    (r"running|processing", ("requests_processing",)),
    (r"deferred|queued?", ("requests_deferred",)),
)
