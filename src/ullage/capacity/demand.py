"""What one request holds of a pool."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..units import ceil_to, floor_to
from .request import Shape


@dataclass(frozen=True, slots=True)
class Demand:
    """Units of a pool that a request holds at a length: fixed + per_token x tokens, rounded up to the page.

    `window`: tokens beyond it are given back, so the demand stops growing there. `shares`: a common prefix is held once
    (whole pages of it), as a prefix cache does. `draft`: tokens that speculative decoding holds beyond the request's
    own while it runs. `prompt_only`: the output is generated elsewhere (prefill role).
    """

    per_token: int | Fraction = 1
    fixed: int = 0
    page: int = 1
    window: int | None = None
    shares: bool = False
    draft: int = 0
    prompt_only: bool = False

    def units(self, tokens: int) -> int:
        kept = tokens if self.window is None else min(tokens, self.window)
        return ceil_to(self.fixed + -(-kept * self.per_token // 1), self.page)

    def common(self, shape: Shape) -> int:
        """Units that all requests of the shape hold together, once."""
        return floor_to(shape.shared, self.page) if self.shares and self.window is None else 0

    def admitted(self, shape: Shape) -> int:
        """Units of one request that has its prompt in and has generated nothing."""
        return self.units(shape.prompt - self.common(shape))

    def finished(self, shape: Shape) -> int:
        """Units of one request at its full length."""
        tokens = shape.prompt if self.prompt_only else shape.total + self.draft
        return self.units(tokens - self.common(shape))
