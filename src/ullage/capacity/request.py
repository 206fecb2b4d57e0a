"""The shape of a request: how many tokens it brings, how many it may generate, how many it shares with the others."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import parse_tokens


@dataclass(frozen=True, slots=True)
class Shape:
    """Tokens of one request. `output` None: the client names no limit, so the engine's default counts."""

    prompt: int
    output: int | None = 0
    shared: int = 0

    def __post_init__(self) -> None:
        if self.prompt < 1 or (self.output or 0) < 0:
            raise ValueError("a request has a prompt of at least 1 token, and an output of 0 or more")
        if not 0 <= self.shared <= self.prompt:
            raise ValueError("the shared prefix is a part of the prompt: shared must not exceed prompt")

    @property
    def named_output(self) -> int:
        if self.output is None:
            raise ValueError("the output length is not known: resolve the shape against a server first")
        return self.output

    @property
    def total(self) -> int:
        """Tokens at the end of the request."""
        return self.prompt + self.named_output

    def resolved(self, output: int) -> Shape:
        """The shape with its output filled in where the client named none."""
        return self if self.output is not None else Shape(self.prompt, output, self.shared)


def parse_request(text: str) -> Shape:
    """`prompt=30000,output=2000,shared=8000`; output and shared may be left out. Raises ValueError with what is off."""
    given: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in ("prompt", "output", "shared"):
            raise ValueError(f"{part.strip()!r}: write prompt=TOKENS,output=TOKENS,shared=TOKENS")
        if name in given:
            raise ValueError(f"{name} stands twice")
        given[name] = parse_tokens(value)
    if "prompt" not in given:
        raise ValueError("a request needs its prompt: prompt=TOKENS")
    return Shape(given["prompt"], given.get("output"), given.get("shared", 0))
