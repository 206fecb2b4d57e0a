"""/v1/completions and /v1/chat/completions, as OpenAI's clients and SGLang's router speak them."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..engine import Engine
from ..request import Output, RefusedError
from .errors import error_fields, raise_if_aborted
from .fields import Fields, bootstrap_of, fields_of, is_ids, sampling_of
from .streams import DONE, EventStream, begun, event, gathered

DEFAULT_MAX_TOKENS = 16
_NOT_OFFERED = ("logprobs", "top_logprobs", "tools", "functions", "logit_bias", "echo", "suffix", "prompt_logprobs")


class Dialect(Protocol):
    """What the two endpoints do differently."""

    prefix: str
    object: str
    chunk: str

    def prompt(self, engine: Engine, fields: Fields) -> list[int]: ...
    def most_tokens(self, fields: Fields) -> int | None: ...
    def choice(self, text: str) -> dict[str, Any]: ...
    def delta(self, text: str) -> dict[str, Any]: ...
    def opening(self) -> dict[str, Any] | None: ...


class Completion:
    prefix, object, chunk = "cmpl", "text_completion", "text_completion"

    def prompt(self, engine: Engine, fields: Fields) -> list[int]:
        prompt = fields.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
            prompt = prompt[0]
        if isinstance(prompt, str):
            return engine.loaded.tokenizer.encode(prompt)
        if is_ids(prompt):
            return list(Fields({"prompt": prompt}).token_ids("prompt", engine.loaded.config.vocab))
        raise RefusedError("prompt must be one string or one list of token ids", 400)

    def most_tokens(self, fields: Fields) -> int | None:
        return fields.integer("max_tokens", DEFAULT_MAX_TOKENS)

    def choice(self, text: str) -> dict[str, Any]:
        return {"text": text}

    delta = choice

    def opening(self) -> dict[str, Any] | None:
        return None


class Chat:
    prefix, object, chunk = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def prompt(self, engine: Engine, fields: Fields) -> list[int]:
        messages = fields.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RefusedError("messages must be a list with a message at least", 400)
        text = engine.loaded.chat.render([_message(message) for message in messages])
        return engine.loaded.tokenizer.encode(text, special=False)

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
    content = message.get("content") or ""
    if isinstance(content, list):
        if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content):
            raise RefusedError("the parts of a message must be text here", 400)
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise RefusedError("the content of a message must be a string", 400)
    return {"role": message["role"], "content": content}


class Completions:
    """One of the two endpoints."""

    def __init__(self, engine: Engine, dialect: Dialect) -> None:
        self._engine = engine
        self._dialect = dialect

    async def __call__(self, request: Request) -> Response:
        fields, dialect = await fields_of(request), self._dialect
        fields.only_one("best_of")
        fields.not_offered(*_NOT_OFFERED)
        engine = self._engine
        sampling = sampling_of(fields, dialect.most_tokens(fields), engine.loaded.config.vocab)
        outputs = engine.generate(dialect.prompt(engine, fields), sampling, bootstrap_of(fields))
        reply = Reply(dialect, fields.text("model") or engine.args.served_model_name or engine.loaded.config.name)
        if fields.flag("stream"):
            usage = fields.object("stream_options").flag("include_usage")
            return EventStream(_events(reply, await begun(request, outputs), usage))
        text, _, last = await gathered(request, outputs)
        raise_if_aborted(last.finish)
        return JSONResponse(reply.whole(text, last))


class Reply:
    """The envelope of an answer: all its chunks have one id."""

    def __init__(self, dialect: Dialect, model: str) -> None:
        self.dialect = dialect
        self._common = {
            "id": f"{dialect.prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, text: str, last: Output) -> dict[str, Any]:
        choice = _choice(self.dialect.choice(text), last)
        return {**self._common, "object": self.dialect.object, "choices": [choice], "usage": _usage(last)}

    def part(self, fields: dict[str, Any], output: Output | None) -> bytes:
        return self._chunk([_choice(fields, output)])

    def usage(self, last: Output) -> bytes:
        return self._chunk([], usage=_usage(last))

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        return event({**self._common, "object": self.dialect.chunk, "choices": choices, **more})


class _Reason(NamedTuple):
    finish_reason: str | None
    matched_stop: int | str | None


def _choice(fields: dict[str, Any], output: Output | None) -> dict[str, Any]:
    finish = output.finish if output else None
    reason = _Reason(finish.type if finish else None, finish.matched if finish else None)
    return {"index": 0, **fields, "logprobs": None, **reason._asdict()}


def _usage(last: Output) -> dict[str, Any]:
    return {
        "prompt_tokens": last.prompt_tokens,
        "completion_tokens": last.completion_tokens,
        "total_tokens": last.prompt_tokens + last.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": last.cached_tokens},
    }


async def _events(reply: Reply, outputs: AsyncGenerator[Output, None], usage: bool) -> AsyncGenerator[bytes, None]:
    try:
        if opening := reply.dialect.opening():
            yield reply.part(opening, None)
        async for output in outputs:
            if output.finish is not None and output.finish.type == "abort":
                yield event(error_fields(output.finish.message, output.finish.status))
            elif output.text or output.finish is not None:
                yield reply.part(reply.dialect.delta(output.text), output)
        if usage:
            yield reply.usage(output)
        yield DONE
    finally:
        await outputs.aclose()
