"""Slots of the recurrent-state pool that a request takes."""

from __future__ import annotations

from ...figure import Figure
from ..join import Joined

# The flag was renamed in the middle of 2026. "auto" was the first of the strategies under the old name; under the new
# one the architecture decides (arg_groups, _mamba_radix_cache_resolution), which no log states.
_STRATEGIES = ("mamba_radix_cache_strategy", "mamba_scheduler_strategy")
_BUFFERS = {"no_buffer": 0, "extra_buffer": 2, "extra_buffer_lazy": 1}
_AUTO = {"mamba_scheduler_strategy": 0}
_CACHED = 3


def slots_per_request(joined: Joined) -> tuple[int | None, tuple[Figure, ...]]:
    """1 without prefix cache; with it 3, and 2 more for the buffers of `extra_buffer` (1 where it is lazy, or without
    the overlap of scheduler and GPU). None where no evidence tells; with what was asked for.

    (model_runner_kv_cache_mixin.py and kv_cache_configurator.py, _calculate_mamba_ratio; the engine caps the running
    requests at slots // that.)
    """
    radix = joined.known("disable_radix_cache")
    strategy = next((figure for name in _STRATEGIES if (figure := joined.known(name)) is not None), None)
    inputs = tuple(figure for figure in (strategy, radix) if figure is not None)
    if radix is None:
        return None, inputs
    if radix.value is True:
        return 1, inputs
    more = _buffers(strategy) if strategy is not None else 0
    if more and joined.on("disable_overlap_schedule"):
        more = 1
    return (None if more is None else _CACHED + more), inputs


def _buffers(strategy: Figure) -> int | None:
    return _AUTO.get(strategy.name) if strategy.value == "auto" else _BUFFERS.get(str(strategy.value))
