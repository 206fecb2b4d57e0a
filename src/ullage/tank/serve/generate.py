"""SGLang's own /generate: text or token ids in, text so far out."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..engine import Engine
from ..request import Output, RefusedError
from .errors import error_fields, raise_if_aborted
from .fields import Fields, bootstrap_of, fields_of, sampling_of
from .streams import DONE, EventStream, begun, event, gathered

DEFAULT_MAX_NEW_TOKENS = 128


class Generate:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request) -> Response:
        fields = await fields_of(request)
        fields.not_offered("return_logprob", "return_hidden_states", "lora_path", "image_data", "session_params")
        vocab = self._engine.loaded.config.vocab
        sampling = fields.object("sampling_params")
        most = sampling.integer("max_new_tokens", DEFAULT_MAX_NEW_TOKENS)
        asked = sampling_of(sampling, most, vocab)
        outputs = self._engine.generate(self._prompt(fields, vocab), asked, bootstrap_of(fields))
        answer = _Answer(fields.text("rid") or uuid.uuid4().hex)
        if fields.flag("stream"):
            return EventStream(_events(answer, await begun(request, outputs)))
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


async def _events(answer: _Answer, outputs: AsyncGenerator[Output, None]) -> AsyncGenerator[bytes, None]:
    """Each event has the whole text so far."""
    text, tokens = "", list[int]()
    try:
        async for output in outputs:
            text += output.text
            tokens += output.token_ids
            if output.finish is not None and output.finish.type == "abort":
                yield event(error_fields(output.finish.message, output.finish.status))
            else:
                yield event(answer.fields(text, tokens, output))
        yield DONE
    finally:
        await outputs.aclose()
