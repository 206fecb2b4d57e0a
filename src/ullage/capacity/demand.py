"""What one request holds of a pool."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, Protocol

from ..units import ceil_to, floor_to
from .request import Shape


class Holds(Protocol):
    """Units of a pool that requests of a shape hold: together, and each, at admission and at the end."""

    @property
    def page(self) -> int: ...

    @property
    def shares(self) -> bool:
        """Is a common prefix held once?"""
        ...

    def common(self, shape: Shape) -> int:
        """Units that all requests of the shape hold together, once."""
        ...

    def admitted(self, shape: Shape) -> int:
        """Units of one request that has its prompt in and has generated nothing."""
        ...

    def finished(self, shape: Shape) -> int:
        """Units of one request at its full length."""
        ...


class Demand(NamedTuple):
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
        return ceil_to(self.fixed + self._slope(tokens if self.window is None else min(tokens, self.window)), self.page)

    def common(self, shape: Shape) -> int:
        return self._slope(self._common_tokens(shape))

    def admitted(self, shape: Shape) -> int:
        return self.units(shape.prompt - self._common_tokens(shape))

    def finished(self, shape: Shape) -> int:
        tokens = shape.prompt if self.prompt_only else shape.total + self.draft
        return self.units(tokens - self._common_tokens(shape))

    def _slope(self, tokens: int) -> int:
        return int(-(-tokens * self.per_token // 1))

    def _common_tokens(self, shape: Shape) -> int:
        """The shared prefix in whole pages: what is left of it every request holds for itself."""
        if not (self.shares and self.window is None and self.per_token):
            return 0
        tokens_a_page = Fraction(self.page) / self.per_token
        return floor_to(shape.shared, tokens_a_page.numerator) if tokens_a_page.denominator == 1 else 0


class Together(NamedTuple):
    """What a request holds in several groups of layers that draw on one pool."""

    groups: tuple[Demand, ...]
    page: int = 1

    @property
    def shares(self) -> bool:
        return any(group.shares for group in self.groups)

    def common(self, shape: Shape) -> int:
        return sum(group.common(shape) for group in self.groups)

    def admitted(self, shape: Shape) -> int:
        return sum(group.admitted(shape) for group in self.groups)

    def finished(self, shape: Shape) -> int:
        return sum(group.finished(shape) for group in self.groups)
