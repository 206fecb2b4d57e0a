"""A model by its path: everything that an engine needs of it."""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path
from typing import NamedTuple

from ...errors import UllageError
from .chat import ChatTemplate
from .config import ModelConfig
from .download import fetch_smollm2
from .forward import Model
from .gguf_file import GgufFile
from .gguf_tokenizer import chat_of, tokenizer_of
from .gguf_weights import GgufWeights
from .tiny import CONFIG as TINY_CONFIG
from .tiny import TinyWeights, tiny_chat, tiny_tokenizer
from .tokenizer import Tokenizer


class Loaded(NamedTuple):
    """`weight_bytes`: all that stays in memory for the weights. `path`: the model's file, or its name."""

    model: Model
    tokenizer: Tokenizer
    config: ModelConfig
    weight_bytes: int
    chat: ChatTemplate
    path: str


def load_model(path: str, *, seed: int = 0, threads: int | None = None, context_length: int | None = None) -> Loaded:
    """`path`: "tiny", "smollm2" or a GGUF file. `seed` makes another tiny model. `threads`: by default one a core."""
    if path == "tiny":
        config = shortened(TINY_CONFIG, context_length)
        model = Model(TinyWeights(seed, config), threads)
        return Loaded(model, tiny_tokenizer(), config, model.weight_bytes, tiny_chat(), path)
    file = GgufFile(fetch_smollm2() if path == "smollm2" else _existing(path))
    weights = GgufWeights(file)
    weights.config = shortened(weights.config, context_length)
    model = Model(weights, threads)
    _give_back_freed_memory()
    return Loaded(
        model, tokenizer_of(file, model.config.vocab), model.config, model.weight_bytes, chat_of(file), str(file.path)
    )


def _existing(path: str) -> Path:
    if not Path(path).is_file():
        raise UllageError(f"there is no model {path}", "give tiny, smollm2 or a .gguf file")
    return Path(path).absolute()


def _give_back_freed_memory() -> None:
    """Each layer was in memory twice for a moment; the C library keeps such room unless told."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def shortened(config: ModelConfig, context_length: int | None) -> ModelConfig:
    if context_length is None:
        return config
    if context_length > config.context_len:
        raise UllageError(
            f"a context of {context_length} tokens is more than the {config.context_len} of {config.name}",
            f"give at most {config.context_len}",
        )
    return config._replace(context_len=context_length)
