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
from ..server import Server
from ..version import release_of

GRAPHS_INSIDE = (0, 20, 0)  # since then their estimate comes out of the share
BEFORE = "before the engine began"
_NO_TOTAL = "no line states it: vLLM prints 'Free memory on device (free/total GiB)' since 0.11, and V0 its own ledger"
_IDLE = "without GPU evidence: name a captured nvidia-smi -q -x as one more target, or run ullage on the host"
_TRANSIENT = "head-room for one step of max_num_batched_tokens; PyTorch keeps it in its cache"
Figures = Mapping[str, Figure]


def ledgers(server: Server) -> list[Ledger]:
    """One that stands for every GPU; where several workers print theirs, with the range over them."""
    figures = {n: f for n, f in server.figures.items() if f.known}
    whole = _size(figures, "total_gib", "total") or missing("total", "bytes", _NO_TOTAL)
    parts = [*_before(figures, whole), *_model(figures), *_pool(figures), *_graphs(figures)]
    found = ledger(_device(server), whole, [*parts, _outside(figures, whole, parts)])
    return [
        replace(
            found,
            server=server.name,
            usable=_size(figures, "free_gib", "free_at_start"),
            unknown=(missing("idle now", "bytes", _IDLE),),
        )
    ]


def _device(server: Server) -> str:
    count = 1
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
        size = server.figure(name)
        count *= size.count if type(size.value) is int else 1
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
    """The KV cache: in bytes where a line states them, else the memory that was available for it."""
    stated = figures.get("kv_bytes")
    if stated is not None:
        return in_bytes(stated, "KV cache")
    return _size(figures, "available_kv_gib", "KV cache")


def _pool(figures: Figures) -> Iterator[Part]:
    size = pool_bytes(figures)
    if size is not None:
        yield Part("KV cache", size)


def graphs_inside(figures: Figures) -> bool:
    """Does the estimate of the graphs come out of the share?"""
    release = release_of(figures.get("version"))
    return "estimated_cudagraph_gib" in figures or (release is not None and release >= GRAPHS_INSIDE)


def _graphs(figures: Figures) -> Iterator[Part]:
    took = _size(figures, "graph_gib", "graphs")
    if took is not None:
        yield Part("graphs", took, why="as captured")
    elif (estimate := _size(figures, "estimated_cudagraph_gib", "graphs")) is not None:
        yield Part("graphs (estimated)", estimate, why="what they took is not part of the evidence")


def _outside(figures: Figures, whole: Figure, parts: list[Part]) -> Part | None:
    """What the share leaves alone: total - requested, less what was taken before and by graphs outside the share.

    Builds that do not state what was free when they began (V0) do not tell how much of it is nobody's.
    """
    share = requested(figures, whole)
    if not whole.known or share is None or pool_bytes(figures) is None or "kv_cache_memory_bytes" in figures:
        return None
    names = (BEFORE,) if graphs_inside(figures) else (BEFORE, "graphs")
    taken = [part.size for part in parts if part.name in names]
    size = less("outside the share", whole, [share, *taken], "total - requested - what is known to be outside")
    if any(part.name == BEFORE for part in parts):
        return Part("left by --gpu-memory-utilization", size, free=True, why="outside the share, and nobody's")
    return Part("outside the share", size, why="the context and other processes come out of it too")
