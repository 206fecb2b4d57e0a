"""Who may pre-allocate on a decode worker: SGLang's test (disaggregation/decode.py, 0035ca42).

A request leaves the prealloc queue, in the order of arrival, while

    max(ceil_page(prompt) + R, prompt + min(max_new, clip) - retractable) <= free - max(R * active, need_single)

    active        requests that hold pages: running, in transfer, waiting
    retractable   all tokens of the running batch
    need_single   the largest prompt + min(max_new, clip) among the running, less retractable

and less what the retracted need to come back. Output beyond R tokens is reserved for nobody, so the pool can fill up.
"""

from __future__ import annotations

from collections.abc import Iterable

from .pages import ceil_page
from .sequence import CLIP_TOKENS, Sequence


class Reserve:
    """The state of a decode worker as the test sees it. R: --num-reserved-decode-tokens."""

    def __init__(self, reserved_tokens: int, page_size: int) -> None:
        self._reserved = reserved_tokens
        self._page_size = page_size

    def may_enter(
        self, sequence: Sequence, free_tokens: int, running: list[Sequence], active: int, retracted: Iterable[Sequence]
    ) -> bool:
        retractable = sum(each.length for each in running)
        at_once = ceil_page(len(sequence.prompt_ids), self._page_size) + self._reserved
        at_its_end = _whole(sequence) - retractable
        need_single = max((_whole(each) for each in running), default=0) - retractable
        kept = max(self._reserved * active, need_single) + sum(map(self.to_resume, retracted))
        return max(at_once, at_its_end) <= free_tokens - kept

    def may_resume(self, sequence: Sequence, free_tokens: int, active: int) -> bool:
        """The retracted come first: with nobody else there, every one fits."""
        kept = self._reserved * active
        return self.to_resume(sequence) <= free_tokens - kept

    def to_resume(self, sequence: Sequence) -> int:
        """Its tokens and the reserve, or what it may generate still if that is less."""
        return ceil_page(sequence.length + min(self._reserved, sequence.remaining), self._page_size)


def _whole(sequence: Sequence) -> int:
    return len(sequence.prompt_ids) + min(sequence.max_new_tokens, CLIP_TOKENS)
