"""/v1/completions and /v1/chat/completions, as OpenAI's clients and SGLang's router speak them."""

from __future__ import annotations

import time
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from ..engine import Engine
from ..request import Output
from .asked import bootstrap_of, sampling_of
from .dialects import Dialect
from .errors import error_fields, failure_of, raise_if_aborted
from .fields import fields_of
from .info import model_name
from .streams import DONE, EventStream, begun, event, gathered


class Completions:
    """One of the two endpoints."""

    def __init__(self, engine: Engine, dialect: Dialect) -> None:
        self._engine = engine
        self._dialect = dialect

    async def __call__(self, request: Request) -> ASGIApp:
        engine, dialect = self._engine, self._dialect
        fields = await fields_of(request)
        for name in dialect.not_offered:
            fields.only(name, False, [], "")
        sampling = sampling_of(fields, dialect.most_tokens(fields), engine.loaded.config.vocab)
        streams, usage = fields.flag("stream"), fields.object("stream_options").flag("include_usage")
        reply = Reply(dialect, fields.text("model") or model_name(engine))
        outputs = engine.generate(dialect.prompt(engine.loaded, fields), sampling, bootstrap_of(fields))
        if streams:
            return EventStream(await begun(request, outputs), outputs, _Events(reply, usage))
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


def _choice(fields: dict[str, Any], output: Output | None) -> dict[str, Any]:
    finish = output.finish if output else None
    ended = {"finish_reason": finish.type if finish else None, "matched_stop": finish.matched if finish else None}
    return {"index": 0, **fields, "logprobs": None, **ended}


def _usage(last: Output) -> dict[str, Any]:
    return {
        "prompt_tokens": last.prompt_tokens,
        "completion_tokens": last.completion_tokens,
        "total_tokens": last.prompt_tokens + last.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": last.cached_tokens},
    }


class _Events:
    """What each output adds. A failure in the middle is an event too, for the status is out already."""

    def __init__(self, reply: Reply, usage: bool) -> None:
        self._reply = reply
        self._usage = usage
        self._begun = False

    def __call__(self, output: Output) -> bytes:
        opening = b"" if self._begun else self._opening()
        self._begun = True
        if failure := failure_of(output.finish):
            return opening + event(error_fields(failure.message, failure.status)) + DONE
        said = self._reply.part(self._reply.dialect.delta(output.text), output) if output.text or output.finish else b""
        return opening + said + (self._end(output) if output.finish else b"")

    def _opening(self) -> bytes:
        fields = self._reply.dialect.opening()
        return self._reply.part(fields, None) if fields else b""

    def _end(self, last: Output) -> bytes:
        return (self._reply.usage(last) if self._usage else b"") + DONE
