"""SGLang's tests at the door of the KV pool, in closed form for requests of one shape.

Each is checked against a replay of the engine's own loop in tests/replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ...capacity.admission import Admitted, spelled
from ...capacity.pool import Demand
from ...capacity.request import Shape
from ...units import floor_to

CLIP_TOKENS = 4096  # SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION
INIT_RATIO = Fraction(7, 10)  # SGLANG_INIT_NEW_TOKEN_RATIO, since 2025
MIN_RATIO_FACTOR = Fraction(14, 100)  # SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR
RESERVED_DECODE_TOKENS = 512  # --num-reserved-decode-tokens
_NEVER = 2**62


@dataclass(frozen=True, slots=True)
class DecodeReserve:
    """Decode role (disaggregation/decode.py, 0035ca42): a request leaves the prealloc queue while

        max(ceil_page(prompt) + R, prompt + min(max_new, clip) - retractable) <= free - max(R * active, need_single)

    where `retractable` is all tokens of the running batch and need_single the largest prompt + min(max_new, clip) among
    the running, less retractable. Whether the requests before it run already or are still in transfer decides
    `retractable`, so the answer can be a range.
    """

    reserved: int = RESERVED_DECODE_TOKENS
    clip: int = CLIP_TOKENS

    def admits(self, size: int, demand: Demand, shape: Shape) -> Admitted:
        counts = (self._while_running(size, demand, shape), self._in_transfer(size, demand, shape))
        return Admitted(min(counts), max(counts))

    def why(self, size: int, demand: Demand, shape: Shape, count: int) -> str:
        hold = demand.admitted(shape)
        return spelled(size, count, hold + self.reserved, 0, f"each holds {hold:,} and keeps {self.reserved:,} back")

    def _in_transfer(self, size: int, demand: Demand, shape: Shape) -> int:
        hold, whole = demand.admitted(shape), shape.prompt + min(shape.named_output, self.clip)
        return _first_failing(hold + self.reserved, floor_to(size, demand.page) - max(hold + self.reserved, whole))

    def _while_running(self, size: int, demand: Demand, shape: Shape) -> int:
        size, prompt = floor_to(size, demand.page), shape.prompt
        hold, whole = demand.admitted(shape), prompt + min(shape.named_output, self.clip)
        if max(hold + self.reserved, whole) > size:
            return 0
        # With k running, either side of each max() can be the larger: the first k at which one of the four sums is too
        # large.
        return min(
            _first_failing(slope, size - fixed, start=1)
            for slope, fixed in (
                (hold + self.reserved, hold + self.reserved),
                (hold - prompt, hold + self.reserved + whole),
                (hold - prompt + self.reserved, whole),
                (hold - 2 * prompt, 2 * whole),
            )
        )


@dataclass(frozen=True, slots=True)
class TokenRatio:
    """Aggregated server (managers/schedule_policy.py): the candidate counts in full, the running at a ratio that moves.

        uncached prompt + min(max_new, clip) + page < free - sum over running of ratio * min(max_new - generated, clip)

    The ratio starts at `high`, falls to `low`, and jumps up at a retraction: so a range, and `live` where it is known.
    Requests of one shape that came in one after another and have generated nothing yet.
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

    def admits(self, size: int, demand: Demand, shape: Shape) -> Admitted:
        now = None if self.live is None else self._at(self.live, size, demand, shape)
        tight, loose = self._at(self.high, size, demand, shape), self._at(self.low, size, demand, shape)
        return Admitted(
            min(tight, loose, loose if now is None else now), max(tight, loose, loose if now is None else now), now
        )

    def why(self, size: int, demand: Demand, shape: Shape, count: int) -> str:
        hold, common, future = demand.admitted(shape), demand.common(shape), min(shape.named_output, self.clip)
        kept = (
            f", {float(self.low):.3g} to {float(self.high):.3g} of {future:,} output kept back" if future else ""
        )
        shared = f"; all share {common:,}" if common else ""
        need = shape.prompt - common + future + demand.page
        return (
            f"{count:,} hold {hold:,} each of {size:,}{kept}{shared}; one more enters while over {need:,} are free"
        )

    def _at(self, ratio: Fraction, size: int, demand: Demand, shape: Shape) -> int:
        future = min(shape.named_output, self.clip)
        room = floor_to(size, demand.page) - (shape.prompt + future + demand.page)
        return _first_reaching(demand.admitted(shape) + ratio * future, room)


@dataclass(frozen=True, slots=True)
class PrefillPass:
    """Prefill role: the same test with max_new forced to 1, and requests hold their prompt until its transfer has
    ended.
    """

    def admits(self, size: int, demand: Demand, shape: Shape) -> Admitted:
        room = floor_to(size, demand.page) - (shape.prompt + 1 + demand.page)
        return Admitted.exactly(_first_reaching(demand.admitted(shape), room))

    def why(self, size: int, demand: Demand, shape: Shape, count: int) -> str:
        return spelled(
            size,
            count,
            demand.admitted(shape),
            0,
            f"each holds {demand.admitted(shape):,} until its transfer has ended",
        )


def _first_failing(slope: int | Fraction, room: int | Fraction, start: int = 0) -> int:
    """The least k >= start with slope * k > room: k requests are in, and one more is not let in. A very large number if
    none.
    """
    if slope * start > room:
        return start
    return int(room // slope) + 1 if slope > 0 else _NEVER


def _first_reaching(slope: int | Fraction, room: int) -> int:
    """The least k >= 0 with slope * k >= room: the same for a test that asks for strictly more than is needed."""
    if room <= 0:
        return 0
    return int(-(-room // slope)) if slope > 0 else _NEVER
