"""vLLM's test at the door of the block pool (v1/core/sched/scheduler.py, kv_cache_manager.allocate_slots).

A waiting request enters when its blocks are free; output is not reserved. Since 0.19 the blocks of the whole prompt
must be free (scheduler_reserve_full_isl), before it those of its first chunk. With `watermark` a share of the pool has
to stay free while others run. Window groups ask for a whole batch in flight and give most of it back once the prompt is
done, so how many enter depends on how many are in their prefill at once: a range.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...capacity.admission import Admitted, spelled
from ...capacity.demand import Holds
from ...capacity.request import Shape


@dataclass(frozen=True, slots=True)
class PromptFits:
    """`held`: what a request holds once its prompt is done. `chunk`: tokens of the first chunk, where only that must
    fit; `perhaps`: it depends on the version, which is not known.
    """

    held: Holds
    watermark: int = 0
    chunk: int | None = None
    perhaps: bool = False

    def admits(self, size: int, demand: Holds, shape: Shape) -> Admitted:
        room, asked, held = size - demand.common(shape), demand.admitted(shape), self.held.admitted(shape)
        crowded, loose = self._enter(room, asked, asked), self._enter(room, asked, held)
        if self.chunk is None:
            return Admitted(crowded, max(crowded, loose))
        door = demand.admitted(_first_chunk(shape, self.chunk))
        first = self._enter(room, door, asked), self._enter(room, door, held)
        low = crowded if self.perhaps else min(first)
        return Admitted(min(low, *first), max(loose, *first))

    def why(self, size: int, demand: Holds, shape: Shape, count: int) -> str:
        common, held, asked = demand.common(shape), self.held.admitted(shape), demand.admitted(shape)
        shared = f", all share {common:,}" if common else ""
        if self.chunk is not None or held != asked or self.watermark:
            door = asked if self.chunk is None else demand.admitted(_first_chunk(shape, self.chunk))
            kept = f" and {self.watermark:,} kept free" if self.watermark else ""
            return (
                f"each holds {held:,} of {size:,} once its prompt is done{shared}; "
                f"one more enters while {door:,} are free{kept}"
            )
        return spelled(size, count, asked, common, f"each holds {asked:,}{shared}")

    def _enter(self, room: int, door: int, held: int) -> int:
        """How many enter while each asks for `door`, and then holds `held`. The first finds nobody running."""
        if door > room:
            return 0
        left = room - self.watermark - door
        return max(1, left // held + 1) if held and left >= 0 else 1


def _first_chunk(shape: Shape, chunk: int) -> Shape:
    """The prompt as far as its first chunk; what it shares needs no computing."""
    prompt = min(shape.prompt, shape.shared + chunk)
    return Shape(max(1, prompt), shape.output, min(shape.shared, max(1, prompt)))
