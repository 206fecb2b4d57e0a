"""A model by its path: everything that an engine needs of it."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import UllageError
from .chat import ChatTemplate
from .config import ModelConfig
from .forward import Model
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
    """`path`: "tiny", "smollm2" or a GGUF file. `seed` makes another tiny model. `threads`: all cores if not given."""
    if path == "tiny":
        config = shortened(TINY_CONFIG, context_length)
        model = Model(TinyWeights(seed, config), threads)
        return Loaded(model, tiny_tokenizer(), config, model.weight_bytes, tiny_chat(), path)
    raise UllageError(f"there is no model {path}", "give tiny, smollm2 or a .gguf file")


def shortened(config: ModelConfig, context_length: int | None) -> ModelConfig:
    if context_length is None:
        return config
    if context_length > config.context_len:
        raise UllageError(
            f"a context of {context_length} tokens is more than the {config.context_len} of {config.name}",
            f"give at most {config.context_len}",
        )
    return config._replace(context_len=context_length)
