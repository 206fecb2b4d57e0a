"""What callers may ask of the model, in SGLang's and OpenAI's names. Unknown fields are let pass, as SGLang does; known
ones that would change the answer, and are not offered, are refused.
"""

from __future__ import annotations

from ..request import Bootstrap, RefusedError, Sampling
from .fields import Fields

_ROOM_BITS = 64
_GREEDY = 1e-6  # from here down the most likely token is meant, as in SGLang
# The values that ask for nothing.
_NEUTRAL = {
    "n": (1,),
    "best_of": (1,),
    "min_p": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "json_schema": ("",),
    "regex": ("",),
    "ebnf": ("",),
    "structural_tag": ("",),
    "response_format": ({"type": "text"}, {}),
    "no_stop_trim": (False,),
    "skip_special_tokens": (True,),
}


def sampling_of(fields: Fields, max_new_tokens: int | None, vocab: int) -> Sampling:
    for name, neutral in _NEUTRAL.items():
        fields.only(name, *neutral)
    temperature, top_p = fields.number("temperature", 1.0), fields.number("top_p", 1.0)
    fields.require("temperature", temperature >= 0, "0 or more")
    fields.require("top_p", 0 < top_p <= 1, "above 0 and at most 1")
    asked = Sampling(
        max_new_tokens=max_new_tokens,
        temperature=temperature if temperature >= _GREEDY else 0.0,
        top_p=top_p,
        top_k=fields.integer("top_k", -1, -1) or -1,
        seed=fields.integer("sampling_seed", fields.integer("seed")),
        stop=fields.texts("stop"),
        stop_token_ids=fields.token_ids("stop_token_ids", vocab),
        ignore_eos=fields.flag("ignore_eos"),
    )
    for name in ("min_new_tokens", "min_tokens"):
        _reject_a_least(fields, name, asked)
    return asked


def _reject_a_least(fields: Fields, name: str, asked: Sampling) -> None:
    """Benchmarks send a least number of tokens with `ignore_eos`, and then it is kept anyhow: nothing ends early."""
    ends_late = asked.ignore_eos and not asked.stop and not asked.stop_token_ids
    if fields.integer(name, 0, 0) and not ends_late:
        raise RefusedError(f"{name} is offered with ignore_eos and without stops only", 400)


def bootstrap_of(fields: Fields) -> Bootstrap | None:
    """The three fields that the router adds for a pair of workers; all of them, or none."""
    given = [name for name in ("bootstrap_host", "bootstrap_port", "bootstrap_room") if name in fields]
    if not given:
        return None
    host, port = fields.text("bootstrap_host"), fields.integer("bootstrap_port", 8998, 1, 65535)
    room = fields.integer("bootstrap_room", None, 0, 2**_ROOM_BITS - 1)
    if host is None or port is None or room is None:
        raise RefusedError(f"bootstrap_host and bootstrap_room belong together; given: {', '.join(given)}", 400)
    return Bootstrap(host, port, room)
