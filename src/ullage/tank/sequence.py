"""A request inside a worker: its tokens, the pages that hold their KV, and what was said of it so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .pages import ceil_div
from .request import Bootstrap, Finish, Output, Sampling
from .text import TextStream

if TYPE_CHECKING:
    from .prefix_cache import Node

CLIP_TOKENS = 4096  # SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION


class Sequence:
    """`pages[:shared]` belong to the prefix cache and are locked there, the rest is its own. `computed` tokens have
    their KV in the pool.
    """

    def __init__(
        self,
        prompt_ids: list[int],
        sampling: Sampling,
        bootstrap: Bootstrap | None,
        text: TextStream,
        sink: Callable[[Output], None],
    ) -> None:
        self.prompt_ids = prompt_ids
        self.output_ids: list[int] = []
        self.sampling = sampling
        self.max_new_tokens = 0
        self.bootstrap = bootstrap
        self.text = text
        self.sink = sink
        self.row: int | None = None
        self.pages: list[int] = []
        self.shared = 0
        self.node: Node | None = None
        self.computed = 0
        self.cached_tokens = 0
        self.finish: Finish | None = None
        self.admitted = False
        self.connected = False  # on a decode worker: its prefill worker answers
        self.dropped = False  # its caller gave up: what fails after that is no failure of the worker
        self.times = Times()
        self._withheld: list[Output] | None = None

    @property
    def ids(self) -> list[int]:
        return self.prompt_ids + self.output_ids if self.output_ids else self.prompt_ids

    @property
    def length(self) -> int:
        return len(self.prompt_ids) + len(self.output_ids)

    @property
    def uncomputed(self) -> int:
        return self.length - self.computed

    @property
    def remaining(self) -> int:
        """Tokens that it may still generate."""
        return self.max_new_tokens - len(self.output_ids)

    @property
    def future(self) -> int:
        """What SGLang's scheduler expects it to generate still."""
        return min(self.remaining, CLIP_TOKENS)

    def pages_short(self, tokens: int, page_size: int) -> int:
        """Pages that it lacks to hold so many tokens."""
        return max(0, ceil_div(tokens, page_size) - len(self.pages))

    def tell(self, token_ids: tuple[int, ...], text: str) -> None:
        counts = (len(self.prompt_ids), len(self.output_ids), self.cached_tokens)
        output = Output(token_ids, text, *counts, self.finish)
        if self._withheld is None:
            self.sink(output)
        else:
            self._withheld.append(output)

    def tell_later(self) -> None:
        """What it says from now on is kept, until `tell_now`."""
        self._withheld = []

    def tell_now(self, *, withheld: bool = True) -> None:
        """Says what was kept, or forgets it."""
        kept, self._withheld = self._withheld or [], None
        for output in kept if withheld else ():
            self.sink(output)


class Piece(NamedTuple):
    """The next `tokens` of a sequence, uncomputed so far."""

    sequence: Sequence
    tokens: int


class Times:
    """When things happened to a sequence, by the monotonic clock."""

    def __init__(self) -> None:
        self.arrived = time.monotonic()
        self.claimed: float | None = None
        self.forwarded: float | None = None
        self.first_token: float | None = None
        self.last_token: float | None = None
        self.sending: float | None = None
        self.gaps: list[float] = []

    def token(self, now: float) -> None:
        if self.last_token is None:
            self.first_token = now
        else:
            self.gaps.append(now - self.last_token)
        self.last_token = now
