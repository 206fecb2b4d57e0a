"""Figures of llama.cpp: its flags, its endpoints, and the run that its log shows."""

from __future__ import annotations

FLAGS = {
    "n_parallel": (
        "llama.cpp: slots that were asked for (-np). -1 is auto: four on one pool. Given without -kvu, the context is"
        " divided among them."
    ),
    "kv_unified_per_slot": (
        "llama.cpp: the most context of one slot (--kv-unified-per-slot). Without -c it makes the pool too: slots x"
        " this."
    ),
    "fit": (
        "llama.cpp: whether what was not asked for is fitted to the memory of the devices (--fit): a shorter context,"
        " fewer layers on the GPU."
    ),
    "hf_repo": "llama.cpp: the Hugging Face repository that the model comes from (-hf).",
    "model_url": "llama.cpp: the address that the model is loaded from (-mu).",
    "docker_repo": "llama.cpp: the repository of Docker Hub that the model comes from (-dr).",
    "model_alias": "llama.cpp: the name under which clients ask for the model (-a, /props, /v1/models).",
    "api_key_file": "llama.cpp: the file with the keys that clients may use (--api-key-file).",
    "models_preset": "llama.cpp's router: the file of settings for its models (--models-preset).",
    "models_autoload": "llama.cpp's router: whether a request loads the model that it names (--models-autoload).",
    "swa_full": (
        "llama.cpp: whether the window cache is as large as that of full attention (--swa-full): more memory, for"
        " reuse."
    ),
    "context_shift": (
        "llama.cpp: whether a slot that is full drops its oldest tokens and goes on (--context-shift); off since 2025."
    ),
    "embedding": "llama.cpp: whether the server embeds and generates nothing (--embedding).",
    "reranking": "llama.cpp: whether the server ranks and generates nothing (--reranking).",
    "endpoint_slots": (
        "llama.cpp: whether /slots answers (--slots, on by default). It alone tells what each slot holds."
    ),
    "endpoint_metrics": "llama.cpp: whether /metrics answers (--metrics, off by default), by /props.",
}
STATED = {
    "n_ctx_train": "llama.cpp: tokens of context that the model was trained with. No slot is given more.",
    "n_params": "llama.cpp: parameters of the model (/v1/models).",
    "model_bytes": "llama.cpp: bytes of the model's tensors (/v1/models).",
    "models_available": "llama.cpp's router: models that it could load.",
    "models_loaded": "llama.cpp's router: models that it has loaded.",
    "models_presets": "llama.cpp's router: models with settings in its file, as its log counts them.",
    "is_processing": "llama.cpp: whether this slot works on a request (/slots).",
    "n_prompt_tokens": "llama.cpp: tokens that this slot holds, those it has generated included (/slots).",
    "n_prompt_tokens_processed": "llama.cpp: prompt tokens of this slot's request that were computed so far (/slots).",
    "n_prompt_tokens_cache": "llama.cpp: prompt tokens of this slot's request that came from its cache (/slots).",
    "n_decoded": "llama.cpp: tokens that this slot has generated for its request (/slots).",
    "held_cells": "llama.cpp: cells of the KV cache that this slot holds. An idle slot keeps its last prompt.",
    "processing_cells": "llama.cpp: cells of the KV cache that working slots hold together.",
    "idle_cells": "llama.cpp: cells that idle slots keep for reuse. They give way when somebody needs them.",
    "prompt_tokens_seconds": "llama.cpp: prompt tokens a second of late, by /metrics.",
    "predicted_tokens_seconds": "llama.cpp: tokens generated a second of late, by /metrics.",
    "prompt_tokens_cached_total": "llama.cpp: prompt tokens that came from a cache since its start, by /metrics.",
    "prompt_seconds_total": "llama.cpp: seconds spent on prompts since its start, by /metrics.",
    "tokens_predicted_total": "llama.cpp: tokens generated since its start, by /metrics.",
    "tokens_predicted_seconds_total": "llama.cpp: seconds spent on generating since its start, by /metrics.",
    "n_decode_total": "llama.cpp: steps that were computed since its start, by /metrics.",
    "n_tokens_max": "llama.cpp: the longest request since its start, prompt and output, by /metrics.",
    "n_busy_slots_per_decode": (
        "llama.cpp: slots at work in a step, in the mean, by /metrics: how many requests run together."
    ),
    "spec_decode_num_draft_tokens_total": "llama.cpp: draft tokens made since its start, by /metrics.",
    "spec_decode_num_accepted_tokens_total": "llama.cpp: draft tokens accepted since its start, by /metrics.",
    "spec_decode_num_drafts_total": "llama.cpp: steps that judged a draft since its start, by /metrics.",
    "spec_decode_num_accepted_tokens_per_pos_total": (
        "llama.cpp: draft tokens accepted since its start by their place in the draft, by /metrics; here of the first."
    ),
    "kv_cache_usage_ratio": "llama.cpp: share of the cells that are held, by /metrics of builds until May 2025.",
    "kv_cache_tokens": "llama.cpp: cells that are held, by /metrics of builds until May 2025.",
}
RUN = {
    "task": "llama.cpp: the number of the last request of this slot, as the log counts them.",
    "released_tokens": "llama.cpp: tokens that a slot held when its request ended, as the last such line states.",
    "prompt_tok_s": "llama.cpp: prompt tokens a second of the last request, as its timings state.",
    "eval_tokens": "llama.cpp: tokens that the last request generated, as its timings state.",
    "eval_tok_s": "llama.cpp: tokens generated a second for the last request, as its timings state.",
    "draft_acceptance": "llama.cpp: share of the draft tokens of the last request that were accepted.",
    "checkpoint_mib": (
        "llama.cpp: MiB of host memory of one checkpoint: as a line of the run states, else the recurrent state of one"
        " sequence; 0 for a model that makes none."
    ),
    "cached_prompts": (
        "llama.cpp: prompts of idle slots that are saved in host memory, as the last such line counts them."
    ),
    "cached_prompts_mib": "llama.cpp: MiB of host memory that saved prompts take, as the last such line states.",
    "refused_tokens": "llama.cpp: tokens of the last prompt that was refused for its length.",
    "failed_requests_in_log": "llama.cpp: requests that failed because the pool was full, in the lines that were read.",
    "kv_full_in_log": "llama.cpp: how often no room was found in the KV cache, in the lines that were read.",
    "purged_slots_in_log": (
        "llama.cpp: how often an idle slot gave up its cells to others, in the lines that were read."
    ),
    "evicted_prompts_in_log": "llama.cpp: how often a saved prompt made room for another, in the lines that were read.",
    "slots_seen": "llama.cpp: the slots that the lines are about, the latest last.",
    "tasks_in_log": "llama.cpp: the requests that the lines are about by their numbers, the latest last.",
    "cache_ram": "llama.cpp: whether saved prompts have no limit or are disabled, as a line of the start states.",
    "bytes_per_cell": "llama.cpp: bytes that a cell of the KV cache takes on this device: buffer / cells.",
}
LLAMACPP = {**FLAGS, **STATED, **RUN}
