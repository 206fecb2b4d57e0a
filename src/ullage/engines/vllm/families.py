"""Kinds of models by their names: which have windows or recurrent states beside full attention, and which have neither.

A name alone proves nothing: what is built on it has to reproduce the figures that the engine prints, or is marked as
inferred.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class Layers(Enum):
    PLAIN = "one kind of layer"  # full attention, or all with one window
    WINDOWS = "full attention and windows"
    STATES = "attention and recurrent states"
    DEEPSEEK_V4 = "DeepSeek-V4"


class Family(NamedTuple):
    layers: Layers
    window: int | None = None  # tokens


_FAMILIES: tuple[tuple[str, Family], ...] = (
    (r"deepseek-?_?v4", Family(Layers.DEEPSEEK_V4)),
    (r"llama-?_?3[\w.]*-?_?nemotron|qwen-?_?3[-_][5-9]b", Family(Layers.PLAIN)),
    (r"gpt-?_?oss", Family(Layers.WINDOWS, 128)),
    (r"gemma-?_?(?:2b|7b|forcausallm)", Family(Layers.PLAIN)),
    (r"gemma-?_?2(?!\d)", Family(Layers.WINDOWS, 4096)),
    (r"gemma-?_?3n", Family(Layers.WINDOWS, 512)),
    (r"gemma-?_?3-?_?(?:270m|1b)", Family(Layers.WINDOWS, 512)),
    (r"gemma-?_?3|medgemma", Family(Layers.WINDOWS, 1024)),
    (
        r"gemma-?_?4|mimo-?_?v2|laguna|olmo-?_?3|exaone-?_?(?:4|moe)|k-exaone|step-?_?3|llama-?_?4",
        Family(Layers.WINDOWS),
    ),
    (r"cohere2|command-?(?:a|r7b)", Family(Layers.WINDOWS, 4096)),
    (
        r"qwen-?_?3-?_?(?:coder-?_?)?next|qwen-?_?3[._]?[5-9](?!\d*b)|nemotron-?_?(?:h|3|nano)|jamba|bamba|zamba|mamba"
        r"|granite-?_?4|granitemoehybrid|kimi-?_?(?:linear|k3)|glm-?_?5(?:\.3-?_?flash|_?next)|falcon-?_?h1|lfm2|plamo2"
        r"|(?:ring|ling)-?(?:\w+-)?linear|ring-?2|ling-?2\.5|bailingmoelinear|minimax-?_?(?:text|m1)|phi-?_?4-?_?(?:mini-)?flash",
        Family(Layers.STATES),
    ),
    (
        r"llama-?_?[123]|llamaforcausallm|codellama|qwen-?_?[12]|qwen-?_?3(?:forcausallm|moe|-|vl)|qwq|mi[sx]tral"
        r"|devstral|magistral|ministral-?_?3|deepseek-?_?(?:v[123]|r1|coder|llm)|deepseekforcausallm|kimi-?_?k2"
        r"|glm-?_?[45]|glmmoedsa|minimax-?_?m2|seed-?_?oss|ernie-?_?4|hunyuan|baichuan|smollm|phi-?_?[34]|yi-|internlm"
        r"|opt-|gpt-?2|falcon-?_?[1347]|starcoder|tinyllama|vicuna",
        Family(Layers.PLAIN),
    ),
)
_ALL_WINDOWS = (  # by the model's name, for the architecture is that of models without windows too
    (re.compile(r"mistral-?7b-(?:instruct-)?v0[._-]?1(?!\d)|zephyr-7b", re.IGNORECASE), Family(Layers.PLAIN, 4096)),
    (re.compile(r"phi-?3-(?:mini|medium)-4k", re.IGNORECASE), Family(Layers.PLAIN, 2047)),
)
_PATTERNS = [(re.compile(pattern, re.IGNORECASE), family) for pattern, family in _FAMILIES]


def family_of(*names: str) -> Family | None:
    """By the architecture or the model's name; the first that says something. A draft model's layers are not in it."""
    words = [name.rstrip("/").rsplit("/", 1)[-1] for name in names]
    patterns = [(words, _ALL_WINDOWS), *(((word,), _PATTERNS) for word in words)]
    return next((f for told, kinds in patterns for pattern, f in kinds if any(map(pattern.search, told))), None)
