"""How text is cut before byte pairs are merged, by the name that GGUF files give the rule (`tokenizer.ggml.pre`)."""

from __future__ import annotations

from typing import NamedTuple

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split


class Rule(NamedTuple):
    """`patterns` cut one after another, each what the ones before it left. `whole_words`: a piece that is a token as it
    stands is taken without merging. `add_bos`: unless the file says otherwise.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False

    def pre_tokenizer(self) -> PreTokenizer:
        cuts = [Split(Regex(pattern), "isolated") for pattern in self.patterns]
        return Sequence([*cuts, ByteLevel(add_prefix_space=False, use_regex=False)])


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _modern(digits: str) -> str:
    """Contractions in any case; a word with one sign before it; so many digits; signs, with the ends of lines."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_PLAIN = Rule((_GPT2,))
_DIGIT_BY_DIGIT = Rule((r"\p{N}", _GPT2))
_LLAMA3 = Rule((_modern(r"\p{N}{1,3}"),), whole_words=True, add_bos=True)
_QWEN2 = Rule((_modern(r"\p{N}"),))

RULES = {
    "default": Rule((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
    "gpt-2": _PLAIN,
    "mpt": _PLAIN,
    "olmo": _PLAIN,
    "jais": _PLAIN,
    "trillion": _PLAIN,
    "smollm": _DIGIT_BY_DIGIT,
    "starcoder": _DIGIT_BY_DIGIT,
    "refact": _DIGIT_BY_DIGIT,
    "command-r": _DIGIT_BY_DIGIT,
    "codeshell": _DIGIT_BY_DIGIT,
    "exaone": _DIGIT_BY_DIGIT,
    "minerva-7b": _DIGIT_BY_DIGIT,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "falcon3": _LLAMA3,
    "pixtral": _LLAMA3,
    "smaug-bpe": _LLAMA3._replace(whole_words=False, add_bos=False),
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "stablelm2": _QWEN2,
    "megrez": _QWEN2,
}
