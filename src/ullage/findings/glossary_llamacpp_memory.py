"""Figures of llama.cpp's start: the model, its caches, and the memory of each device. Its MiB are of 2^20 bytes."""

from __future__ import annotations

MODEL = {
    "build": "llama.cpp: the number of its build. Release builds state one; others state 0 or 1.",
    "general_name": "llama.cpp: the name in the model's file.",
    "arch": "llama.cpp: the architecture in the model's file. It tells the kinds of layers.",
    "file_type": "llama.cpp: how the weights in the model's file are quantized.",
    "file_size_gib": "llama.cpp: GiB of the model's file, as a line of the start states.",
    "file_size_mib": "llama.cpp: MiB of the model's file, as a line of the start states.",
    "model_params": "llama.cpp: parameters of the model, as a line of the start states.",
    "n_layer": "llama.cpp: layers of the model.",
    "n_embd_k_gqa": "llama.cpp: elements of the keys of one layer and cell. What a token takes grows with it.",
    "n_embd_v_gqa": "llama.cpp: elements of the values of one layer and cell. What a token takes grows with it.",
    "n_swa": "llama.cpp: tokens of the model's sliding window; 0 where it has none.",
    "offloaded_layers": "llama.cpp: layers whose weights lie on GPUs. Caches of the others lie in host memory.",
    "offloadable_layers": "llama.cpp: layers that could lie on GPUs, the output layer included.",
    "n_seq_max": "llama.cpp: sequences that the context was made for, one for each slot.",
    "n_ctx_seq": "llama.cpp: cells that one slot may use: all of them of one pool, else its share.",
    "n_rs_seq": "llama.cpp: copies of a sequence's recurrent state that speculative decoding can go back to.",
    "flash_attn": (
        "llama.cpp: whether attention needs no table of all scores; without it the compute buffer grows with -c."
    ),
    "fit_use_mib": "llama.cpp: MiB of device memory that --fit expected the model and its context to use.",
    "fit_free_mib": "llama.cpp: MiB of device memory that were free when --fit measured.",
    "fit_left_mib": "llama.cpp: MiB that --fit expected to stay free.",
    "fit_target_mib": "llama.cpp: MiB that --fit is to leave free (--fit-target, 1,024 by default).",
    "fit_ctx_before": "llama.cpp: the context before --fit made it shorter.",
    "fit_ctx_after": (
        "llama.cpp: the context that --fit made: the longest that memory holds, and no less than --fit-ctx."
    ),
    "mmproj_mib": "llama.cpp: MiB that the projector of a multimodal model takes, as --fit measured.",
    "spec_context_mib": "llama.cpp: MiB that the context of speculative decoding takes, as --fit measured.",
}
DEVICES = {
    "total_mib": "llama.cpp: MiB of the device's memory.",
    "free_before_mib": "llama.cpp: MiB that were free on the device before anything was loaded.",
    "free_mib": "llama.cpp: MiB that were free on the device when it printed its table of memory.",
    "self_mib": "llama.cpp: MiB of the device that are its own: model, context and compute buffer.",
    "context_mib": "llama.cpp: MiB of caches on the device, as its table of memory states.",
    "unaccounted_mib": "llama.cpp: MiB that its table cannot explain: other processes, and the driver's context.",
    "model_mib": "llama.cpp: MiB of weights. `_Mapped` is a view of the file, `_Host` pinned host memory.",
    "compute_mib": (
        "llama.cpp: MiB of the buffer of one step of -ub tokens. Without flash attention it grows with -c too."
    ),
    "input_mib": "llama.cpp: MiB of the inputs of one step.",
    "output_mib": "llama.cpp: MiB of the logits of one step, in host memory.",
    "lora_mib": "llama.cpp: MiB of LoRA adapters.",
    "state_buffer_mib": "llama.cpp: MiB of states of a compressed-attention model, of each sequence.",
    "mmproj_model_mib": "llama.cpp: MiB of the weights of a multimodal model's projector.",
    "mmproj_compute_mib": "llama.cpp: MiB of the buffer of a multimodal model's projector.",
}
_CACHES = {
    "kv": "the KV cache",
    "swa": "the cache of sliding-window layers",
    "indexer": "the cache of a sparse-attention model's indexer",
    "csa": "the cache that holds one cell for 4 tokens",
    "hca": "the cache that holds one cell for 128 tokens",
    "lightning": "the cache of a compressed-attention model's indexer",
    "other": "a cache that Ullage does not know by its name",
    "rs": "the recurrent states",
}
_PARTS = {
    "mib": "MiB of {} over all devices, as its line states.",
    "buffer_mib": "MiB of {}: the sum of its buffers on the devices.",
    "cells": "cells of {}, one for each token in it.",
    "layers": "layers that {} is of.",
    "seqs": "sequences that {} is made for.",
    "streams": "parts that {} consists of: 1 where all slots share it.",
    "k_mib": "MiB of the keys of {}.",
    "v_mib": "MiB of the values of {}.",
}
_OF_STATES = {
    "rs_cells": (
        "llama.cpp: recurrent states that there is room for, one for each sequence; they do not grow with context."
    ),
    "rs_r_mib": "llama.cpp: MiB of the convolution part of the recurrent states.",
    "rs_s_mib": "llama.cpp: MiB of the recurrent states themselves.",
}
_COMPRESSED = dict.fromkeys(("csa_cells", "hca_cells", "lightning_cells"), "llama.cpp: cells of {}.")
CACHES = {
    f"{cache}_{part}": f"llama.cpp: {text.format(named)}"
    for cache, named in _CACHES.items()
    for part, text in _PARTS.items()
    if (cache, part) != ("kv", "cells")  # told with the rows of a page
    and not (cache == "rs" and part in ("k_mib", "v_mib", "streams"))  # states have none of them
}
LLAMACPP_MEMORY = {
    **MODEL,
    **DEVICES,
    **CACHES,
    **{name: text.format(_CACHES[name.partition("_")[0]]) for name, text in _COMPRESSED.items()},
    **_OF_STATES,
}
