"""Where a GPU's memory went under vLLM: its one-line summary of a start, by version, and the lines before it.

    requested = ceil(total * gpu_memory_utilization)
    KV pool   = requested - (weights + non-torch + activation peak) [- estimated graphs, since 0.20]

(v1/worker/gpu_worker.py, 0.11 to 0.33; worker.py of V0.) What was taken before the engine began (its own context,
NCCL, other processes) is not part of `requested`: it comes out of the rest of the card, as the graphs do before 0.20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...capacity.ledger import Ledger, Part, ledger
from ...capacity.ledger_sums import in_bytes, less, times
from ...figure import Figure, missing
from ...units import GIB
from ..ledger_claims import gpus_of
from ..server import Server
from ..version import release_of
from .total import total_of

GRAPHS_INSIDE = (0, 20, 0)  # since then their estimate comes out of the share
BEFORE = "before the engine began"
OUTSIDE = "outside the share"
REFUSED = "free when it was refused"
_GIVEN_BACK = "the start was refused: what it took and found was given back when it ended"
_TELLING_GIB = 0.1  # an estimate that is told from the rounding of five printed sizes
NO_TOTAL = "no line states it: vLLM prints 'Free memory on device (free/total GiB)' since 0.11, and V0 its own ledger"
_IDLE = "without GPU evidence: name a captured nvidia-smi -q -x as one more target, or run ullage on the host"
_IN_REST = "no line states it, so it is in what is unaccounted for"
_TRANSIENT = "head-room for one step of max_num_batched_tokens; PyTorch keeps it in its cache"
_TAKEN = {
    "weights": ("weights_gib", "consumed_gib"),
    "activation peak": ("peak_activation_gib", "peak_torch_memory_gib"),
    "non-torch memory": ("non_torch_gib", "non_torch_memory_gib", "consumed_gib"),
}
Figures = Mapping[str, Figure]


def ledgers(server: Server) -> list[Ledger]:
    """One that stands for every GPU; where several workers print theirs, with the range over them."""
    figures = {n: f for n, f in server.figures.items() if f.known}
    free, whole = _size(figures, "free_gib", "free_at_start"), total_of(figures)
    total = whole or missing("total", "bytes", NO_TOTAL)
    parts = [*_before(figures, total), *_model(figures), *_pool(figures), *_graphs(figures), *_refused(figures)]
    unknown = [missing("idle now", "bytes", _IDLE)]
    unknown += [] if whole or not free else [total, missing("idle at the end of the start", "bytes", _IN_REST)]
    unknown += [missing(name, "bytes", _IN_REST) for name in _not_stated(figures) if whole]
    found = ledger(_device(server), whole or free or total, [*parts, *_left(figures, total, parts)])
    return [
        replace(
            found,
            server=server.name,
            usable=free,
            of_whole="total" if whole or not free else "free when the engine began",
            unknown=tuple(unknown),
            remarks=(_GIVEN_BACK,) if _has_ended(figures, parts) else (),
        )
    ]


def _has_ended(figures: Figures, parts: list[Part]) -> bool:
    """Was it refused when it had taken some of its memory?"""
    return "start_refused" in figures and bool(parts) and not any(part.name == REFUSED for part in parts)


def _device(server: Server) -> str:
    count = gpus_of(server)
    return f"each of {count} GPUs" if count > 1 else "the GPU"


def _size(figures: Figures, key: str, name: str) -> Figure | None:
    figure = figures.get(key)
    return in_bytes(figure, name) if figure is not None and figure.known else None


def _before(figures: Figures, whole: Figure) -> Iterator[Part]:
    """What others and the engine's own set-up held when it took its first look."""
    free = _size(figures, "free_gib", "free_at_start")
    if whole.known and free is not None:
        taken = less(BEFORE, whole, [free], "total - free on startup: context, NCCL, other processes")
        yield Part(BEFORE, taken, why="context, NCCL buffers, other processes")


def _refused(figures: Figures) -> Iterator[Part]:
    """A start that was refused for what was free has taken none of it."""
    free = _size(figures, "free_gib", "free_at_start")
    if free is not None and not any(name in figures for name in ("weights_gib", "consumed_gib", "available_kv_gib")):
        yield Part(REFUSED, free, free=True, why="the start took none of it")


def _model(figures: Figures) -> Iterator[Part]:
    weights = _size(figures, "weights_gib", "weights")
    consumed = _size(figures, "consumed_gib", "consumed")
    if consumed is not None:
        inner = (Part("weights", weights),) if weights is not None else ()
        yield Part("weights and non-torch", consumed, inner, why="consumed memory, as builds since 0.29 print it")
    elif weights is not None:
        yield Part("weights", weights)
    for key, name, why in (
        ("non_torch_gib", "non-torch", "NCCL, workspaces"),
        ("peak_activation_gib", "activation peak", _TRANSIENT),
    ):
        size = _size(figures, key, name) or _of_profile(figures, key, name)
        if size is not None and not (consumed is not None and key == "non_torch_gib"):
            yield Part(name, size, why=why)


def _not_stated(figures: Figures) -> Iterator[str]:
    """What a start takes of its share besides, where it came up and its summary is not there."""
    if "available_kv_gib" in figures and "free_gib" not in figures:
        yield from (name for name, keys in _TAKEN.items() if not figures.keys() & set(keys))


def _of_profile(figures: Figures, key: str, name: str) -> Figure | None:
    """V0 until 0.6.5 prints one line of its profile, where the peak has the weights in it."""
    if key == "non_torch_gib":
        return _size(figures, "non_torch_memory_gib", name)
    peak, weights = _size(figures, "peak_torch_memory_gib", "peak_torch"), _size(figures, "weights_gib", "weights")
    return (
        less(name, peak, [weights], "peak of PyTorch - weights") if peak is not None and weights is not None else None
    )


def requested(figures: Figures, whole: Figure) -> Figure | None:
    """total x gpu_memory_utilization: as stated, else reckoned."""
    stated, share = _size(figures, "budget_gib", "requested"), figures.get("gpu_memory_utilization")
    if stated is not None or not whole.known or share is None or not share.number:
        return stated
    return times("requested", whole, float(share.number), "total x gpu_memory_utilization", (share,))


def pool_bytes(figures: Figures) -> Figure | None:
    """The KV cache: in bytes where a line states them, else the memory that was available for it, and of that what
    `--num-gpu-blocks-override` takes.
    """
    stated = figures.get("kv_bytes") or figures.get("kv_cache_memory_bytes")
    if stated is not None and type(stated.value) is int:
        return in_bytes(stated.renamed("KV cache", stated.note or "bytes"), "KV cache")
    size, blocks, of = (figures.get(n) for n in ("available_kv_gib", "num_gpu_blocks_override", "profiled_gpu_blocks"))
    if size is None or blocks is None or of is None or not of.number:
        return _size(figures, "available_kv_gib", "KV cache")
    return times(
        "KV cache", in_bytes(size), blocks.number / of.number, "its share of the profiled blocks", (blocks, of)
    )


def _pool(figures: Figures) -> Iterator[Part]:
    size = pool_bytes(figures)
    if size is not None:
        yield Part("KV cache", size)


def graphs_inside(figures: Figures) -> bool:
    """Does the estimate of the graphs come out of the share? By what the share left for the pool, else by version.

    (0.18 and 0.19 print the estimate, and take it out only where they were asked to.)
    """
    if (told := _inside_by_sum(figures)) is not None:
        return told
    release = release_of(figures.get("version"))
    if release is not None:
        return release >= GRAPHS_INSIDE
    return "estimated_cudagraph_gib" in figures or "consumed_gib" in figures


def _inside_by_sum(figures: Figures) -> bool | None:
    """Is what the share left nearer to the pool with the graphs taken out? By their estimate; where none is printed
    (it is off, or the line is cut away), by what they took. None where a term is not known.
    """
    model = ["consumed_gib"] if "consumed_gib" in figures else ["weights_gib", "non_torch_gib"]
    names = ("budget_gib", "peak_activation_gib", *model)
    graphs = figures.get("estimated_cudagraph_gib") or figures.get("graph_gib")
    pool = _size(figures, "available_kv_gib", "available") or _size(figures, "kv_bytes", "available")
    if graphs is None or pool is None or not all(name in figures for name in names):
        return None
    if graphs.number < _TELLING_GIB or "kv_cache_memory_bytes" in figures:
        return None
    budget, *rest = (float(figures[name].number) for name in names)
    left = budget - sum(rest) - pool.number / GIB
    return abs(left - graphs.number) < abs(left)


def _graphs(figures: Figures) -> Iterator[Part]:
    took = _size(figures, "graph_gib", "graphs")
    if took is not None:
        yield Part("graphs", took, why="as captured")
    elif (estimate := _size(figures, "estimated_cudagraph_gib", "graphs")) is not None:
        yield Part("graphs (estimated)", estimate, why="what they took is not part of the evidence")


def _left(figures: Figures, whole: Figure, parts: list[Part]) -> Iterator[Part]:
    """What is nobody's: outside the share, and of the share what was kept for graphs or by an override."""
    outside = _outside(figures, whole, parts)
    if outside is not None:
        yield outside
    took, estimate = _size(figures, "graph_gib", "graphs"), _size(figures, "estimated_cudagraph_gib", "estimate")
    if graphs_inside(figures) and took is not None and estimate is not None and estimate.number > took.number:
        size = less("graphs_not_taken", estimate, [took], "estimated for graphs - what they took")
        yield Part("kept for graphs, not taken", size, free=True, why="inside the share, and nobody's")
    pool, room = pool_bytes(figures), _size(figures, "available_kv_gib", "available")
    if "num_gpu_blocks_override" in figures and pool is not None and room is not None and pool.most < room.least:
        size = less("not_in_blocks", room, [pool], "available for the KV cache - its blocks")
        yield Part("left by --num-gpu-blocks-override", size, free=True, why="inside the share, and nobody's")


def _outside(figures: Figures, whole: Figure, parts: list[Part]) -> Part | None:
    """What the share leaves alone: total - requested, less what was taken before, and by graphs as far as they are
    outside the share.

    Builds that do not state what was free when they began (V0) do not tell how much of it is nobody's.
    """
    share = requested(figures, whole)
    if not whole.known or share is None or pool_bytes(figures) is None or "kv_cache_memory_bytes" in figures:
        return None
    taken = [*(part.size for part in parts if part.name == BEFORE), *_graphs_outside(figures)]
    size = less(OUTSIDE, whole, [share, *taken], "total - requested - what is known to be outside")
    if any(part.name == BEFORE for part in parts):
        return Part("left by --gpu-memory-utilization", size, free=True, why="outside the share, and nobody's")
    return Part(OUTSIDE, size, why="the context and other processes come out of it too")


def _graphs_outside(figures: Figures) -> list[Figure]:
    """All that they took, or are estimated to take; or what they took above the estimate that came out of the share."""
    took, estimate = _size(figures, "graph_gib", "graphs"), _size(figures, "estimated_cudagraph_gib", "estimate")
    if not graphs_inside(figures):
        return [size for size in (took or estimate,) if size is not None]
    if took is None or estimate is None or took.number <= estimate.number:
        return []
    return [less("graphs_above_estimate", took, [estimate], "what graphs took - what was estimated")]
