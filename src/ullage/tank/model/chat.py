"""A conversation as the text that the model was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ...errors import UllageError


class ChatTemplate:
    """A Jinja template out of a model file, run in a sandbox."""

    def __init__(self, source: str, **names: str) -> None:
        """`names`: what the template may call `bos_token`, `eos_token` and the like."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals.update(raise_exception=_refuse, strftime_now=_now, tools=None, documents=None, **names)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise UllageError(f"the model's chat template cannot be read: {error}") from error

    def render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str:
        try:
            return self._template.render(messages=messages, add_generation_prompt=add_generation_prompt)
        except (TemplateError, TypeError) as error:
            raise UllageError(f"the model's chat template does not take these messages: {error}") from error


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(value: object, indent: int | None = None) -> str:
    """Without the HTML escapes of Jinja's own."""
    return json.dumps(value, ensure_ascii=False, indent=indent)
