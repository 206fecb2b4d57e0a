"""What /v1/completions and /v1/chat/completions do differently."""

from __future__ import annotations

from typing import Any, Protocol

from ...errors import UllageError
from ..model.load import Loaded
from ..request import RefusedError
from .fields import Fields, is_ids

DEFAULT_MAX_TOKENS = 16


class Dialect(Protocol):
    prefix: str
    object: str
    chunk: str
    not_offered: tuple[str, ...]

    def prompt(self, loaded: Loaded, fields: Fields) -> list[int]: ...
    def most_tokens(self, fields: Fields) -> int | None: ...
    def choice(self, text: str) -> dict[str, Any]: ...
    def delta(self, text: str) -> dict[str, Any]: ...
    def opening(self) -> dict[str, Any] | None: ...


class Completion:
    """One prompt, as text or as token ids; a list of several is refused."""

    prefix, object, chunk = "cmpl", "text_completion", "text_completion"
    not_offered: tuple[str, ...] = ("logprobs", "echo", "suffix", "return_hidden_states")

    def prompt(self, loaded: Loaded, fields: Fields) -> list[int]:
        prompt = fields.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
            prompt = prompt[0]
        if isinstance(prompt, str):
            return loaded.tokenizer.encode(prompt)
        if is_ids(prompt):
            return list(Fields({"prompt": prompt}).token_ids("prompt", loaded.config.vocab))
        raise RefusedError("prompt must be one string or one list of token ids: send several as several requests", 400)

    def most_tokens(self, fields: Fields) -> int | None:
        return fields.integer("max_tokens", DEFAULT_MAX_TOKENS)

    def choice(self, text: str) -> dict[str, Any]:
        return {"text": text}

    delta = choice

    def opening(self) -> dict[str, Any] | None:
        return None


class Chat:
    """A conversation, as the model's template writes it. Its output is as long as the context allows, unless asked."""

    prefix, object, chunk = "chatcmpl", "chat.completion", "chat.completion.chunk"
    not_offered: tuple[str, ...] = ("logprobs", "tools", "functions", "continue_final_message", "return_hidden_states")

    def prompt(self, loaded: Loaded, fields: Fields) -> list[int]:
        messages = fields.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RefusedError("messages must be a list with a message at least", 400)
        try:
            text = loaded.chat.render([_message(message) for message in messages])
        except UllageError as error:
            raise RefusedError(error.message, 400) from None
        return loaded.tokenizer.encode(text, special=False)

    def most_tokens(self, fields: Fields) -> int | None:
        return fields.integer("max_completion_tokens", fields.integer("max_tokens"))

    def choice(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}}

    def delta(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text}}

    def opening(self) -> dict[str, Any] | None:
        return {"delta": {"role": "assistant", "content": ""}}


def _message(message: Any) -> dict[str, Any]:
    """Its content as one string: a list of text parts is joined."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise RefusedError("each message must be an object with a role", 400)
    content = message.get("content")
    if isinstance(content, list):
        if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content):
            raise RefusedError("the parts of a message must be text here", 400)
        content = "".join(part["text"] for part in content)
    if content is not None and not isinstance(content, str):
        raise RefusedError("the content of a message must be a string", 400)
    return {"role": message["role"], "content": content or ""}
