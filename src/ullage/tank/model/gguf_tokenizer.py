"""The tokenizer of a GGUF file, of either kind: byte pairs of GPT-2's (`gpt2`), or SentencePiece's (`llama`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tokenizers
from tokenizers import AddedToken, normalizers
from tokenizers.models import BPE

from ...errors import UllageError
from .byte_letters import spelled
from .chat import ChatTemplate
from .gguf_file import GgufFile
from .pre_tokenizers import RULES, Rule
from .tokenizer import Tokenizer

_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6
_ENDS = {"<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", "<|end|>", "</s>"}  # files often name but one
_PLAIN_CHAT = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}" + (
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
_SPACE = "▁"


def tokenizer_of(file: GgufFile, size: int) -> Tokenizer:
    """`size`: tokens that the model may emit. Those beyond the file's own are padding, and say nothing."""
    vocabulary = _Vocabulary(file, size)
    kind = vocabulary.get("model")
    if kind == "gpt2":
        return _byte_pairs(vocabulary)
    if kind == "llama":
        return _sentence_pieces(vocabulary)
    raise UllageError(f"{file.path.name} has a tokenizer of the kind {kind}, not gpt2 or llama")


def chat_of(file: GgufFile) -> ChatTemplate:
    """Its own template, or else plain lines of role and content."""
    tokens = file.settings.get("tokenizer.ggml.tokens", [])
    ids = {name: file.settings.get(f"tokenizer.ggml.{name}_token_id", -1) for name in ("bos", "eos")}
    names = {f"{name}_token": tokens[at] for name, at in ids.items() if 0 <= at < len(tokens)}
    return ChatTemplate(str(file.settings.get("tokenizer.chat_template") or _PLAIN_CHAT), **names)


class _Vocabulary:
    def __init__(self, file: GgufFile, size: int) -> None:
        self._file = file
        self._size = size
        self.tokens: list[str] = self.get("tokens", [])
        self.types: list[int] = self.get("token_type", [1] * len(self.tokens))
        self.ids = {token: token_id for token_id, token in enumerate(self.tokens)}
        if not self.tokens or len(self.tokens) != len(self.types):
            raise UllageError(f"{file.path.name} has no whole vocabulary")
        if len(self.tokens) > size:
            raise UllageError(f"{file.path.name} has {len(self.tokens)} tokens, and vectors for {size}")

    def get(self, key: str, default: Any = None) -> Any:
        return self._file.settings.get(f"tokenizer.ggml.{key}", default)

    def id(self, name: str) -> int | None:
        found = self.get(f"{name}_token_id")
        return found if isinstance(found, int) and found < len(self.tokens) else None

    def rule(self) -> Rule:
        """Files from before there were names of rules have none."""
        name = self.get("pre", "default")
        if name not in RULES:
            raise UllageError(f"{self._file.path.name} cuts text by the rule {name}, which is not known here")
        return RULES[name]

    def ends(self) -> frozenset[int]:
        named = {at for name in ("eos", "eot", "eom") if (at := self.id(name)) is not None}
        usual = {self.ids[token] for token in _ENDS if token in self.ids}
        return frozenset(named | {at for at in usual if self.types[at] == _CONTROL})

    def special(self) -> list[AddedToken]:
        """Tokens that are found in a text before anything else is done to it."""
        return [
            AddedToken(token, normalized=False, special=kind != _USER_DEFINED)
            for token, kind in zip(self.tokens, self.types, strict=True)
            if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED)
        ]

    def pieces(self, ordinary: Callable[[str], bytes]) -> Iterator[bytes]:
        """What each token decodes to."""
        for token, kind in zip(self.tokens, self.types, strict=True):
            if kind in (_UNKNOWN, _CONTROL):
                yield b""
            elif kind == _BYTE:
                yield bytes([int(token[3:5], 16)])
            else:
                yield token.encode() if kind == _USER_DEFINED else ordinary(token)
        yield from [b""] * (self._size - len(self.tokens))


def _byte_pairs(vocabulary: _Vocabulary) -> Tokenizer:
    rule = vocabulary.rule()
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in vocabulary.get("merges", []))]
    encoder = tokenizers.Tokenizer(BPE(vocabulary.ids, merges, ignore_merges=rule.whole_words))
    encoder.pre_tokenizer = rule.pre_tokenizer()
    return _finish(vocabulary, encoder, vocabulary.pieces(spelled), add_bos=rule.add_bos)


def _sentence_pieces(vocabulary: _Vocabulary) -> Tokenizer:
    prefix = bool(vocabulary.get("add_space_prefix", True))
    unknown = vocabulary.id("unknown")
    model = BPE(
        vocabulary.ids,
        _merges(vocabulary),
        unk_token=None if unknown is None else vocabulary.tokens[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    encoder = tokenizers.Tokenizer(model)
    replace = normalizers.Replace(" ", _SPACE)
    encoder.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), replace]) if prefix else replace
    pieces = vocabulary.pieces(lambda token: token.replace(_SPACE, " ").encode())
    return _finish(vocabulary, encoder, pieces, add_bos=True, strip_first_space=prefix)


def _merges(vocabulary: _Vocabulary) -> list[tuple[str, str]]:
    """SentencePiece joins the neighbours that make the piece of the highest score: all ways to cut each, best first."""
    scores = vocabulary.get("scores", [0.0] * len(vocabulary.tokens))
    cuts = [
        (-scores[token_id], token[:at], token[at:])
        for token, token_id in vocabulary.ids.items()
        for at in range(1, len(token))
        if token[:at] in vocabulary.ids and token[at:] in vocabulary.ids
    ]
    return [(left, right) for _, left, right in sorted(cuts, key=lambda cut: cut[0])]


def _finish(
    vocabulary: _Vocabulary,
    encoder: tokenizers.Tokenizer,
    pieces: Iterator[bytes],
    *,
    add_bos: bool,
    strip_first_space: bool = False,
) -> Tokenizer:
    encoder.add_special_tokens(vocabulary.special())
    return Tokenizer(
        encoder,
        list(pieces),
        bos_id=vocabulary.id("bos"),
        eos_ids=vocabulary.ends(),
        add_bos=bool(vocabulary.get("add_bos_token", add_bos)),
        strip_first_space=strip_first_space,
    )
