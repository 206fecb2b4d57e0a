"""SGLang's own /generate: text or token ids in, text so far out."""

from __future__ import annotations

import time
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from ..engine import Engine
from ..request import Output, RefusedError
from .asked import bootstrap_of, sampling_of
from .errors import error_fields, failure_of, raise_if_aborted
from .fields import Fields, fields_of
from .streams import DONE, EventStream, begun, event, gathered

DEFAULT_MAX_NEW_TOKENS = 128
_NOT_OFFERED = """return_logprob return_hidden_states return_routed_experts background image_data audio_data video_data
    input_embeds lora_path session_params""".split()


class Generate:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request) -> ASGIApp:
        fields = await fields_of(request)
        for name in _NOT_OFFERED:
            fields.only(name, False, [], "")
        vocab = self._engine.loaded.config.vocab
        sampling = fields.object("sampling_params")
        most = sampling.integer("max_new_tokens", DEFAULT_MAX_NEW_TOKENS)
        asked = sampling_of(sampling, most, vocab)
        outputs = self._engine.generate(self._prompt(fields, vocab), asked, bootstrap_of(fields))
        answer = _Answer(fields.text("rid") or uuid.uuid4().hex)
        if fields.flag("stream"):
            return EventStream(await begun(request, outputs), outputs, _Events(answer))
        text, tokens, last = await gathered(request, outputs)
        raise_if_aborted(last.finish)
        return JSONResponse(answer.fields(text, tokens, last))

    def _prompt(self, fields: Fields, vocab: int) -> list[int]:
        if ("text" in fields) == ("input_ids" in fields):
            raise RefusedError("give either text or input_ids", 400)
        if "input_ids" in fields:
            return list(fields.token_ids("input_ids", vocab))
        text = fields.text("text")
        assert text is not None
        return self._engine.loaded.tokenizer.encode(text)


class _Answer:
    def __init__(self, rid: str) -> None:
        self._rid = rid
        self._began = time.monotonic()

    def fields(self, text: str, tokens: list[int], output: Output) -> dict[str, Any]:
        finish = output.finish
        reason: dict[str, Any] | None = None
        if finish is not None:
            ends = {"length": output.completion_tokens} if finish.type == "length" else {"matched": finish.matched}
            reason = {"type": finish.type, **ends}
        meta = {
            "id": self._rid,
            "finish_reason": reason,
            "prompt_tokens": output.prompt_tokens,
            "completion_tokens": output.completion_tokens,
            "cached_tokens": output.cached_tokens,
            "weight_version": "default",
            "e2e_latency": time.monotonic() - self._began,
        }
        return {"text": text, "output_ids": tokens, "meta_info": meta}


class _Events:
    """Each event has the whole text so far."""

    def __init__(self, answer: _Answer) -> None:
        self._answer = answer
        self._text = ""
        self._tokens: list[int] = []

    def __call__(self, output: Output) -> bytes:
        self._text += output.text
        self._tokens += output.token_ids
        if failure := failure_of(output.finish):
            return event(error_fields(failure.message, failure.status)) + DONE
        said = event(self._answer.fields(self._text, self._tokens, output))
        return said + DONE if output.finish else said
