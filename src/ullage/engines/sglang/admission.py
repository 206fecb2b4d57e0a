"""SGLang's tests at the door of the KV pool, in closed form for requests of one shape.

Each is checked against a replay of the engine's own loop in tests/replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from ...capacity.admission import Admitted, spelled
from ...capacity.demand import Holds
from ...capacity.request import Shape
from ...units import floor_to

CLIP_TOKENS = 4096  # SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION
INIT_RATIO = Fraction(7, 10)  # SGLANG_INIT_NEW_TOKEN_RATIO, since 2025
MIN_RATIO_FACTOR = Fraction(14, 100)  # SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR
RESERVED_DECODE_TOKENS = 512  # --num-reserved-decode-tokens
_NEVER = 2**62


class DecodeReserve(NamedTuple):
    """Decode role (disaggregation/decode.py, 0035ca42): a request leaves the prealloc queue while

        max(ceil_page(prompt) + R, prompt + min(max_new, clip) - retractable) <= free - max(R * active, need_single)

    where `retractable` is all tokens of the running batch and need_single the largest prompt + min(max_new, clip) among
    the running, less retractable. Whether the requests before it run already or are still in transfer, and how much
    they have generated, decides `retractable`, so the answer can be a range.
    """

    reserved: int = RESERVED_DECODE_TOKENS
    clip: int = CLIP_TOKENS

    def admits(self, size: int, demand: Holds, shape: Shape) -> Admitted:
        size = floor_to(size, demand.page)
        counts = [_first_failing(sums, size) for sums in self._sums(size, demand, shape)]
        return Admitted(min(counts), max(counts))

    def why(self, size: int, demand: Holds, shape: Shape, count: int) -> str:
        size, hold = floor_to(size, demand.page), demand.admitted(shape)
        opening = f"each holds {hold:,} and keeps {self.reserved:,} back"
        if (count + 1) * (hold + self.reserved) > size:
            return spelled(size, count, hold + self.reserved, 0, opening)
        sums = next(s for s in self._sums(size, demand, shape) if _first_failing(s, size) == count)
        needed = max(s.at(count) for s in sums)
        taken = count * (hold + self.reserved)
        return f"{opening}; {count:,} take {taken:,} of {size:,}, one more with its output needs {needed:,}"

    def _sums(self, size: int, demand: Holds, shape: Shape) -> tuple[list[_Sum], ...]:
        """What the pool must hold for one more when k are in: while they run, while they are in transfer, and while
        they run and have generated what lets most in.
        """
        prompt, hold = shape.prompt, demand.admitted(shape)
        each, whole = hold + self.reserved, prompt + min(shape.named_output, self.clip)
        transfer = [_Sum(each, each), _Sum(each, whole)]
        # Either side of each max() can be the larger. With none running there is nothing to retract.
        running = [
            _Sum(0, max(each, whole)),
            _Sum(each, each, start=1),
            _Sum(hold - prompt, each + whole, start=1),
            _Sum(hold - prompt + self.reserved, whole, start=1),
            _Sum(hold - 2 * prompt, 2 * whole, start=1),
        ]
        return running, transfer, self._grown(size, demand, shape)

    def _grown(self, size: int, demand: Holds, shape: Shape) -> list[_Sum]:
        """Tokens that fill a page that is held already cost nothing and can be retracted. Those beyond it cost what
        they are, so that only the last sum gains by them: with all that the first leaves room for.
        """
        prompt, hold = shape.prompt, demand.admitted(shape)
        each, whole = hold + self.reserved, prompt + min(shape.named_output, self.clip)
        spare = hold - min(hold, prompt + shape.named_output)  # of a page, when all is generated
        fills = _Sum(self.reserved + spare, each + 2 * whole - size, start=1)
        stays = _Sum(2 * spare - hold, 2 * whole, start=1)
        return [
            _Sum(0, max(each, whole)),
            _Sum(each, each, start=1),
            _Sum(spare, each + whole, start=1),
            _Sum(self.reserved + spare, whole, start=1),
            stays if spare else fills,
        ]


class _Sum(NamedTuple):
    """slope * k + fixed, from k = start on."""

    slope: int
    fixed: int
    start: int = 0

    def at(self, k: int) -> int:
        return self.slope * k + self.fixed if k >= self.start else 0

    def first_above(self, size: int) -> int:
        """The least k >= start at which it is above `size`. A very large number if none."""
        if self.at(self.start) > size:
            return self.start
        return (size - self.fixed) // self.slope + 1 if self.slope > 0 else _NEVER


def _first_failing(sums: Sequence[_Sum], size: int) -> int:
    """With this many in, one of the sums is too large for one more."""
    return min(s.first_above(size) for s in sums)


class TokenRatio(NamedTuple):
    """Aggregated server (managers/schedule_policy.py): the candidate counts in full, the running at a ratio that moves.

        uncached prompt + min(max_new, clip) + page < free - sum over running of ratio * min(max_new - generated, clip)

    The ratio starts at `high`, falls to `low`, and jumps up at a retraction: so a range, and `live` where it is known.
    Requests of one shape that came in one after another: at the low end they have generated nothing yet, at the high
    end what fills the page that they hold.
    """

    low: Fraction
    high: Fraction
    live: Fraction | None = None
    clip: int = CLIP_TOKENS

    @classmethod
    def of(cls, conservativeness: float = 1.0, live: float | None = None) -> TokenRatio:
        """The range by --schedule-conservativeness, and the live value of the gauge `new_token_ratio`."""
        high = min(INIT_RATIO * Fraction(str(conservativeness)), Fraction(1))
        return cls(high * MIN_RATIO_FACTOR, high, None if live is None else Fraction(str(live)))

    def admits(self, size: int, demand: Holds, shape: Shape) -> Admitted:
        now = None if self.live is None else self._at(self.live, size, demand, shape)
        tight, loose = self._at(self.high, size, demand, shape), self._at(self.low, size, demand, shape, grown=True)
        return Admitted(
            min(tight, loose, loose if now is None else now), max(tight, loose, loose if now is None else now), now
        )

    def why(self, size: int, demand: Holds, shape: Shape, count: int) -> str:
        hold, common, future = demand.admitted(shape), demand.common(shape), min(shape.named_output, self.clip)
        kept = f", {float(self.low):.3g} to {float(self.high):.3g} of {future:,} output kept back" if future else ""
        shared = f"; all share {common:,}" if common else ""
        need = shape.prompt - common + future + demand.page
        return f"{count:,} hold {hold:,} each of {size:,}{kept}{shared}; one more enters while over {need:,} are free"

    def _at(self, ratio: Fraction, size: int, demand: Holds, shape: Shape, *, grown: bool = False) -> int:
        future, hold = min(shape.named_output, self.clip), demand.admitted(shape)
        free_of_cost = hold + demand.common(shape) - shape.prompt if grown else 0
        kept_back = min(max(0, shape.named_output - free_of_cost), self.clip)
        room = floor_to(size, demand.page) - (shape.prompt + future + demand.page)
        return _first_reaching(hold + ratio * kept_back, room)


class PrefillPass:
    """Prefill role: the same test with max_new forced to 1, and requests hold their prompt until its transfer has
    ended.
    """

    def admits(self, size: int, demand: Holds, shape: Shape) -> Admitted:
        room = floor_to(size, demand.page) - (shape.prompt + 1 + demand.page)
        return Admitted.exactly(_first_reaching(demand.admitted(shape), room))

    def why(self, size: int, demand: Holds, shape: Shape, count: int) -> str:
        hold, need = demand.admitted(shape), shape.prompt + 1 + demand.page
        return (
            f"each holds {hold:,} until its transfer has ended; {count:,} take {count * hold:,} of {size:,}, "
            f"one more enters while over {need:,} are free"
        )


def _first_reaching(slope: int | Fraction, room: int) -> int:
    """The least k >= 0 with slope * k >= room: the same for a test that asks for strictly more than is needed."""
    if room <= 0:
        return 0
    return int(-(-room // slope)) if slope > 0 else _NEVER
