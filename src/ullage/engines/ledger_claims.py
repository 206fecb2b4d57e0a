"""Which GPUs of those that the driver tells of are a server's: by pid, else by name, flags or order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..capacity.ledger_sums import less
from ..evidence import Argv, Evidence, Gpu, GpuProcess, Gpus, Process
from ..figure import Figure, Source, missing, read
from .server import Server

PROGRAMS = {"SGLang": "sglang", "vLLM": "vllm", "llama.cpp": r"llama[-_]server|ollama"}
_BY_NAME = "its processes on the GPUs were told by their names, for the pids are not part of the evidence"
_BY_ORDER = "which GPUs are its own is assumed by their order: no pid, name or CUDA_VISIBLE_DEVICES tells"
_SHARED = "no pid tells it, but there are no other GPUs: it shares them with the other servers here"
_AT_MOST = "total - used: at most, for what the driver keeps is not told apart"
_NO_FREE = "the driver does not tell what is free"
_GPUS = ("tp_size", "pp_size", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


class Card(NamedTuple):
    """One GPU, or a slice of one, with the evidence that it stands in."""

    gpu: Gpu
    item: Evidence
    step: int

    @property
    def name(self) -> str:
        slice_of = f" {self.gpu.mig}" if self.gpu.mig else ""
        return f"GPU {self.number}{slice_of}" + (f" ({self.gpu.name})" if self.gpu.name else "")

    @property
    def number(self) -> str:
        """Its own name where only its processes tell of it."""
        return str(self.gpu.number) if self.gpu.number >= 0 else self.gpu.uuid or "of an unknown number"

    def size(self, name: str, value: int | None) -> Figure:
        """A size as the driver tells it; nvidia-smi's are whole MiB."""
        if value is None:
            return missing(name, "bytes", _NO_FREE if name == "idle" else "the driver does not tell it")
        source = Source(self.item.place, f"GPU {self.number} {name}")
        figure = read(name, value, "bytes", source, at=self.item.observed_at)
        return figure.between(value - self.step // 2, value + self.step // 2) if self.step > 1 else figure

    @property
    def total(self) -> Figure:
        return self.size("total", self.gpu.total_bytes)

    @property
    def idle(self) -> Figure:
        """What is free; where only total and use are told (the table of a bare nvidia-smi), the difference."""
        free = self.size("idle", self.gpu.free_bytes)
        used = self.size("used", self.gpu.used_bytes)
        if free.known or not (self.total.known and used.known):
            return free
        kept = [figure for figure in (self.size("driver", self.gpu.reserved_bytes),) if figure.known]
        return less("idle", self.total, [used, *kept], "total - used" if kept else _AT_MOST)

    def pids(self) -> frozenset[int]:
        return frozenset(process.pid for process in self.gpu.processes or ())


class Claim(NamedTuple):
    """The cards that a server uses, its processes' pids on them, and how that is known."""

    cards: tuple[Card, ...]
    pids: frozenset[int]
    remark: str = ""


def cards_of(items: Sequence[Evidence]) -> list[Card]:
    """Every card once, though it may be told of by NVML and by a captured file."""
    told = [(item, item.content) for item in items if isinstance(item.content, Gpus)]
    found = [Card(gpu, item, content.step_bytes) for item, content in told for gpu in content.gpus]
    return list({(c.gpu.uuid or (c.item.place, c.gpu.number), c.gpu.mig): c for c in reversed(found)}.values())[::-1]


def slices_of(card: Card, cards: Sequence[Card]) -> list[Card]:
    """The slices of a GPU. Compute instances of one slice share its memory, and count once."""
    if card.gpu.mig:
        return []
    same = [c for c in cards if c.gpu.mig and c.gpu.number == card.gpu.number and c.item.place == card.item.place]
    return list({c.gpu.mig.rpartition(" ")[2].partition("/")[0]: c for c in same}.values())


def claim_of(server: Server, servers: Sequence[Server], cards: Sequence[Card], free: Sequence[Card]) -> Claim:
    """By pid; else by the name of the processes, CUDA_VISIBLE_DEVICES, --base-gpu-id, or order."""
    pids = _pids(server)
    if own := [card for card in cards if pids & card.pids()]:
        return Claim(_by_rank(own, pids), pids)
    alone = sum(other.engine == server.engine for other in servers) == 1
    named = {p.pid for card in cards for p in card.gpu.processes or () if _is_engines(server, p)}
    if named and alone:
        own = [card for card in cards if named & card.pids()]
        return Claim(_by_rank(own, frozenset(named)), frozenset(named), _BY_NAME)
    chosen, remark = _listed(server, cards, free)
    if alone or not named:
        named |= _largest(chosen)
    return Claim(tuple(chosen), frozenset(named), remark)


def _pids(server: Server) -> frozenset[int]:
    found = {item.origin.pid for item in server.evidence}
    for item in server.evidence:
        if isinstance(item.content, Process):
            found |= {item.content.pid, *(member.pid for member in item.content.members)}
    found |= {f.count for n in ("engine_pid", "api_server_pid") if type((f := server.figure(n)).value) is int}
    return frozenset(pid for pid in found if pid is not None)


def _is_engines(server: Server, process: GpuProcess) -> bool:
    return re.search(PROGRAMS[server.engine], process.name, re.IGNORECASE) is not None


def _by_rank(cards: Sequence[Card], pids: frozenset[int]) -> tuple[Card, ...]:
    """In the order of the ranks that the processes' titles tell, else as the driver counts them."""

    def rank(card: Card) -> tuple[tuple[int, ...], int]:
        titles = [p.name for p in card.gpu.processes or () if p.pid in pids]
        ranks = (tuple(int(n) for n in re.findall(r"(?:PP|DP|TP)(\d+)", title)) for title in titles)
        return next((found for found in ranks if found), ()), card.gpu.number

    return tuple(sorted(cards, key=rank))


def _listed(server: Server, cards: Sequence[Card], free: Sequence[Card]) -> tuple[list[Card], str]:
    """The cards that the environment or the flags name, else the first that are left."""
    count, visible = max(1, gpus_of(server) // _hosts(server)), _visible(server, cards)
    places = _places(server, count)
    if visible is not None:
        return [visible[n] for n in places if n < len(visible)], ""
    if places != list(range(count)):
        return [c for n in places for c in cards if c.gpu.number == n], ""
    if not free and len(cards) == count:
        return list(cards), _SHARED
    return list(free[:count]), _BY_ORDER if len(cards) > count or len(free) < count else ""


def _places(server: Server, count: int) -> list[int]:
    """SGLang's --base-gpu-id and --gpu-id-step, which count within CUDA_VISIBLE_DEVICES."""
    base, step = (server.figure(name).value for name in ("base_gpu_id", "gpu_id_step"))
    first, stride = base if type(base) is int else 0, step if type(step) is int else 1
    return [first + stride * n for n in range(count)]


def _visible(server: Server, cards: Sequence[Card]) -> list[Card] | None:
    """Those of CUDA_VISIBLE_DEVICES, in its order: by number, or by the begin of a UUID."""
    for item in server.evidence:
        content = item.content
        listed = content.environment.get("CUDA_VISIBLE_DEVICES") if isinstance(content, Argv) else None
        if listed:
            words = [word.strip() for word in listed.split(",") if word.strip()]
            return [card for word in words for card in cards if _is_called(card, word)]
    return None


def _is_called(card: Card, word: str) -> bool:
    if word.isdigit():
        return int(word) == card.gpu.number
    return word.startswith(("GPU-", "MIG-")) and card.gpu.uuid.startswith(word)


def gpus_of(server: Server) -> int:
    """GPUs of all its hosts: ranks of all kinds. Those of SGLang's data-parallel attention are tensor-parallel ones."""
    sizes = [size.count for n in _GPUS if type((size := server.figure(n)).value) is int]
    replicas, attention = server.figure("dp_size"), server.figure("enable_dp_attention")
    apart = attention.value is False if attention.known else _product(sizes) == 1
    if type(replicas.value) is int and apart:
        sizes.append(replicas.count)
    return max(1, _product(sizes))


def _hosts(server: Server) -> int:
    hosts = server.figure("nnodes")
    return hosts.count if type(hosts.value) is int and hosts.count > 0 else 1


def _product(sizes: Iterable[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _largest(cards: Sequence[Card]) -> set[int]:
    """Of each card the process that holds most, where nothing else tells the server's."""
    held = [[p for p in card.gpu.processes or () if p.used_bytes] for card in cards]
    return {max(found, key=lambda p: p.used_bytes or 0).pid for found in held if found}
