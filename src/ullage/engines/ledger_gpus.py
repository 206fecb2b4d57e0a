"""Ledgers on the cards that the driver tells of: which GPUs are whose, other processes, and what is idle now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..capacity.ledger import Ledger, Part
from ..capacity.ledger_sums import added, less
from ..evidence import Argv, Evidence, Gpu, GpuProcess, Gpus, Process
from ..figure import Figure, Source, missing, read
from .server import Server

_PROGRAMS = {"SGLang": "sglang", "vLLM": "vllm", "llama.cpp": r"llama[-_]server|ollama"}
_REST = ("before the engine began", "outside the share")  # what the card itself tells better
_CONTEXT = "total - driver - other processes - what was free when the engine began"
_AT_MOST = "total - used: at most, for what the driver keeps is not told apart"
_NO_FREE = "the driver does not tell what is free"
_BY_NAME = "its processes on the GPUs were told by their names, for the pids are not part of the evidence"
_BY_ORDER = "which GPUs are its own is assumed by their order: no pid, name or CUDA_VISIBLE_DEVICES tells"
_UNTOLD = "the driver tells no processes here, so those of others are in what is unaccounted for"


class Card(NamedTuple):
    """One GPU with the evidence that it stands in."""

    gpu: Gpu
    item: Evidence
    step: int

    @property
    def name(self) -> str:
        slice_of = f" {self.gpu.mig}" if self.gpu.mig else ""
        return f"GPU {self.gpu.number}{slice_of}" + (f" ({self.gpu.name})" if self.gpu.name else "")

    def size(self, name: str, value: int | None) -> Figure:
        """A size as the driver tells it; nvidia-smi's are whole MiB."""
        if value is None:
            return missing(name, "bytes", _NO_FREE if name == "idle" else "the driver does not tell it")
        source = Source(self.item.place, f"GPU {self.gpu.number} {name}")
        figure = read(name, value, "bytes", source, at=self.item.observed_at)
        return figure.between(value - self.step // 2, value + self.step // 2) if self.step > 1 else figure

    @property
    def idle(self) -> Figure:
        """What is free; where only total and use are told (the table of a bare nvidia-smi), the difference."""
        free = self.size("idle", self.gpu.free_bytes)
        total, used = self.size("total", self.gpu.total_bytes), self.size("used", self.gpu.used_bytes)
        if free.known or not (total.known and used.known):
            return free
        kept = [figure for figure in (self.size("driver", self.gpu.reserved_bytes),) if figure.known]
        return less("idle", total, [used, *kept], "total - used" if kept else _AT_MOST)


class Claim(NamedTuple):
    """The cards that a server uses, its processes' pids on them, and how that is known."""

    cards: tuple[Card, ...]
    pids: frozenset[int]
    remark: str = ""


def cards_of(items: Sequence[Evidence]) -> list[Card]:
    """Every card once, though it may be told of by NVML and by a captured file."""
    told = [(item, item.content) for item in items if isinstance(item.content, Gpus)]
    found = [Card(gpu, item, content.step_bytes) for item, content in told for gpu in content.gpus]
    return list({c.gpu.uuid or (c.item.place, c.gpu.number): c for c in reversed(found)}.values())[::-1]


def on_cards(
    ledgers: Mapping[str, Sequence[Ledger]], servers: Sequence[Server], cards: Sequence[Card]
) -> dict[str, list[Ledger]]:
    """The ledgers of each server, on its cards where there are some."""
    taken: set[str] = set()
    placed: dict[str, list[Ledger]] = {}
    for server in servers:
        free = [card for card in cards if card.name not in taken]
        claim = _claim(server, servers, cards, free) if server.engine in _PROGRAMS else Claim((), frozenset())
        taken |= {card.name for card in claim.cards}
        placed[server.name] = [*_placed(ledgers[server.name], claim)]
    return placed


def unserved(cards: Sequence[Card], ledgers: Sequence[Ledger]) -> list[Ledger]:
    """Cards that no server here was found to use."""
    used = [led.device for led in ledgers]
    return [_bare(c) for c in cards if not any(name == c.name or name.startswith(f"{c.name}, ") for name in used)]


def _claim(server: Server, servers: Sequence[Server], cards: Sequence[Card], free: Sequence[Card]) -> Claim:
    """By pid; else by the name of the processes, CUDA_VISIBLE_DEVICES, --base-gpu-id, or order."""
    pids = _pids(server)
    if own := [card for card in cards if pids & {p.pid for p in card.gpu.processes or ()}]:
        return Claim(_by_rank(own, pids), pids)
    alone = sum(other.engine == server.engine for other in servers) == 1
    named = {p.pid for card in cards for p in card.gpu.processes or () if _is_engines(server, p)}
    if named and alone:
        own = [card for card in cards if named & {p.pid for p in card.gpu.processes or ()}]
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
    return re.search(_PROGRAMS[server.engine], process.name, re.IGNORECASE) is not None


def _by_rank(cards: Sequence[Card], pids: frozenset[int]) -> tuple[Card, ...]:
    """In the order of the ranks that the processes' titles tell, else as the driver counts them."""

    def rank(card: Card) -> tuple[int, int]:
        titles = [p.name for p in card.gpu.processes or () if p.pid in pids]
        ranks = [tuple(int(n) for n in re.findall(r"(?:PP|TP)(\d+)", title)) for title in titles]
        told = next((found for found in ranks if found), (0,))
        return (told[0] * 1000 + told[-1] if len(told) > 1 else told[0], card.gpu.number)

    return tuple(sorted(cards, key=rank))


def _listed(server: Server, cards: Sequence[Card], free: Sequence[Card]) -> tuple[list[Card], str]:
    """The cards that the environment or the flags name, else the first that are left."""
    count = _count(server)
    for item in server.evidence:
        content = item.content
        visible = content.environment.get("CUDA_VISIBLE_DEVICES") if isinstance(content, Argv) else None
        if visible:
            words = [word.strip() for word in visible.split(",") if word.strip()]
            named = [c for word in words for c in cards if word in (str(c.gpu.number), c.gpu.uuid)]
            return named[:count], ""
    base, step = server.figure("base_gpu_id"), server.figure("gpu_id_step")
    if type(base.value) is int:
        stride = step.count if type(step.value) is int else 1
        wanted = [base.count + stride * n for n in range(count)]
        return [c for n in wanted for c in cards if c.gpu.number == n], ""
    return list(free[:count]), _BY_ORDER if len(cards) > count or len(free) < count else ""


def _count(server: Server) -> int:
    count = 1
    for name in ("tp_size", "pp_size", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
        size = server.figure(name)
        count *= size.count if type(size.value) is int else 1
    return count


def _largest(cards: Sequence[Card]) -> set[int]:
    """Of each card the process that holds most, where nothing else tells the server's."""
    held = [[p for p in card.gpu.processes or () if p.used_bytes] for card in cards]
    return {max(found, key=lambda p: p.used_bytes or 0).pid for found in held if found}


def _placed(ledgers: Sequence[Ledger], claim: Claim) -> Iterator[Ledger]:
    """Each rank's ledger on its card; one that stands for all on every card."""
    if not claim.cards:
        yield from ledgers
        return
    ranked = (
        sorted(ledgers, key=lambda led: [int(n) for n in re.findall(r"\d+", led.device)]) if len(ledgers) > 1 else []
    )
    devices = [led for led in ranked if _is_device(led)]
    for place, card in enumerate(claim.cards):
        base = ledgers[0] if len(ledgers) == 1 else devices[place] if place < len(devices) else None
        if base is not None:
            yield _on_card(base, card, claim)
    yield from (led for led in ranked if led not in devices[: len(claim.cards)])


def _is_device(led: Ledger) -> bool:
    """A GPU's, and not the host's."""
    return re.search(r"TP\d|PP\d|DP\d|CUDA\d|ROCm\d|GPU", led.device) is not None and "Host" not in led.device


def _on_card(base: Ledger, card: Card, claim: Claim) -> Ledger:
    """The card as a whole: the driver, others' processes, the engine's context, its own parts, and what is idle."""
    whole = card.size("total", card.gpu.total_bytes)
    fixed = [*_driver(card), *_others(card, claim.pids)]
    own = [part for part in base.parts if not part.free and part.name not in _REST]
    context = _context(base, whole, fixed)
    idle = card.idle
    free = [Part("idle", idle, free=True)] if idle.known else []
    rank = f", {base.device}" if re.search(r"\d", base.device) and "each" not in base.device else ""
    return Ledger(
        device=f"{card.name}{rank}",
        whole=whole,
        parts=(*fixed, *([context] if context else []), *own, *free),
        usable=base.usable,
        held=_held(card, claim.pids),
        server=base.server,
        unknown=() if idle.known else (idle,),
        remarks=(*base.remarks, *_remarks(card, claim)),
    )


def _driver(card: Card) -> Iterator[Part]:
    kept = card.size("driver", card.gpu.reserved_bytes)
    if kept.known and kept.number:
        yield Part("driver", kept, why="kept back by the driver")


def _others(card: Card, pids: frozenset[int]) -> Iterator[Part]:
    for process in card.gpu.processes or ():
        held = card.size(f"process {process.pid}", process.used_bytes)
        if process.pid not in pids and held.known:
            yield Part(f"process {process.pid} {process.name}".strip(), held, why="another process")


def _context(base: Ledger, whole: Figure, fixed: Sequence[Part]) -> Part | None:
    """What the engine's own set-up took before the weights: its CUDA context and NCCL buffers. None where the others
    came after it, so that the difference tells nothing.
    """
    if not whole.known or base.usable is None or not base.usable.known:
        return None
    size = less("context", whole, [*(part.size for part in fixed), base.usable], _CONTEXT)
    return Part("context and NCCL", size, why=_CONTEXT) if size.number > 0 else None


def _remarks(card: Card, claim: Claim) -> Iterator[str]:
    if claim.remark:
        yield claim.remark
    if card.gpu.processes is None:
        yield _UNTOLD


def _held(card: Card, pids: frozenset[int]) -> Figure | None:
    """What the driver counts for the server's processes on this card; None where it does not tell all of them."""
    sizes = [card.size(f"process {p.pid}", p.used_bytes) for p in card.gpu.processes or () if p.pid in pids]
    return added("held", sizes, "as the driver counts") if sizes and all(size.known for size in sizes) else None


def _bare(card: Card) -> Ledger:
    """A card of which no server was found: what is in use, as far as its processes are told, and what is idle."""
    others, idle, used = [*_others(card, frozenset())], card.idle, card.size("used", card.gpu.used_bytes)
    if used.known and not others:
        others = [Part("in use", used, why="by whom is not told")]
    parts = [*_driver(card), *others, *([Part("idle", idle, free=True)] if idle.known else [])]
    remarks = (_UNTOLD,) if card.gpu.processes is None else ()
    return Ledger(card.name, card.size("total", card.gpu.total_bytes), tuple(parts), remarks=remarks)
