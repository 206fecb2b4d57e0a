"""Ledgers on the cards that the driver tells of: other processes, what is idle now, and what a start left of a card."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..capacity.ledger import Ledger, Part
from ..capacity.ledger_sums import added, less
from ..evidence import Gpus
from ..figure import Figure, missing
from ..units import GIB, MIB
from .ledger_claims import PROGRAMS, Card, Claim, claim_of, slices_of
from .server import Server

_BEFORE = "before the engine began"
_REST = (_BEFORE, "outside the share")  # what the card itself tells better
_TRANSIENT = "activation peak"  # taken in a step that is full, and given back
_CONTEXT = "total - driver - other processes - what was free when the engine began"
_SINCE = "free at the end of the start - idle now: activations, and what the allocator keeps of them"
_UNTOLD = (
    "the driver tells no processes here: those of others are in what is unaccounted for, or before the engine began"
)
_IDLE_INSIDE = "what is idle is not told, so it is in what is unaccounted for"
_NO_TOTAL = "the driver tells no memory of this GPU, only its processes'"
_OF_SLICES = "its memory is shared out to its slices, which stand on their own; what is in none of them is unaccounted"
_NOT_ITS_CARDS = "none of the GPUs in the evidence is known to be this server's"
_ANOTHER_RUN = GIB // 2  # bytes by which the driver's count and the log's may differ within one run


def on_cards(
    ledgers: Mapping[str, Sequence[Ledger]], servers: Sequence[Server], cards: Sequence[Card], lost: str = ""
) -> dict[str, list[Ledger]]:
    """The ledgers of each server, on its cards where there are some. A GPU with slices is none itself. `lost`: why no
    GPUs could be asked, where they were.
    """
    why = _NOT_ITS_CARDS if cards else lost
    whole = [card for card in cards if not slices_of(card, cards)]
    taken: set[str] = set()
    claims: dict[str, Claim] = {}
    for server in servers:
        free = [card for card in whole if card.name not in taken]
        claim = claim_of(server, servers, whole, free) if server.engine in PROGRAMS else Claim((), frozenset())
        taken |= {card.name for card in claim.cards}
        claims[server.name] = claim
    return {
        name: [_shared(led, claims, name) for led in _placed(ledgers[name], claim, why)]
        for name, claim in claims.items()
    }


def unserved(cards: Sequence[Card], ledgers: Sequence[Ledger]) -> list[Ledger]:
    """Cards that no server here was found to use."""
    used = [led.device for led in ledgers]
    left = [c for c in cards if not any(name == c.name or name.startswith(f"{c.name}, ") for name in used)]
    return [_sliced(c, slices) if (slices := slices_of(c, cards)) else _bare(c) for c in left]


def _shared(led: Ledger, claims: Mapping[str, Claim], own: str) -> Ledger:
    """Says who else is on the card: what is idle there is idle once."""
    others = [
        name
        for name, claim in claims.items()
        if name != own and any(re.match(re.escape(card.name) + "(?:,|$)", led.device) for card in claim.cards)
    ]
    if not others:
        return led
    said = f"{' and '.join(others)} runs on this GPU too: what is idle is there once, for all of them"
    return replace(led, remarks=(*led.remarks, said))


def _placed(ledgers: Sequence[Ledger], claim: Claim, why: str) -> Iterator[Ledger]:
    """Each rank's ledger on its card; one that stands for all on every card. `why`: of no card's, where it is told."""
    if not claim.cards:
        yield from (_without_card(led, why) if why else led for led in ledgers)
        return
    ranked = sorted(ledgers, key=lambda led: [int(n) for n in re.findall(r"\d+", led.device)])
    devices = [led for led in ranked if _is_device(led)]
    shared = len(ledgers) == 1 and devices
    for place, card in enumerate(claim.cards):
        if shared or place < len(devices):
            yield _on_card(devices[0 if shared else place], card, claim)
    yield from (led for led in ranked if led not in devices[: len(claim.cards)])


def _without_card(led: Ledger, why: str = _NOT_ITS_CARDS) -> Ledger:
    """GPUs are told of, or were asked for, and none is this one."""
    idle = next((figure for figure in led.unknown if figure.name == "idle now"), None)
    if idle is None:
        return led
    unknown = tuple(replace(f, note=why) if f.note == idle.note else f for f in led.unknown)
    return replace(led, unknown=unknown)


def _is_device(led: Ledger) -> bool:
    """A GPU's of this machine, whatever llama.cpp calls it (CUDA0, Vulkan1, SYCL0, MTL0): not the host's memory, and
    not a device behind an RPC server, which may be of any machine.
    """
    return re.match(r"the host$|all devices together$|RPC", led.device) is None


def _on_card(base: Ledger, card: Card, claim: Claim) -> Ledger:
    """The card as a whole: the driver, others' processes, the engine's context, its own parts, and what is idle."""
    whole, rank = card.total, f", {base.device}" if re.search(r"\d", base.device) and "each" not in base.device else ""
    if whole.known and base.usable is not None and base.usable.known and base.usable.least > whole.most:
        return _other_card(base, card)
    if not whole.known:
        return _without_total(base, card, claim, rank)
    own = [part for part in base.parts if not part.free and part.name not in _REST]
    card, said = _of_this_run(card, claim, own)
    fixed = [*_driver(card), *_others(card, claim.pids)]
    context = _context(base, whole, fixed, "context and NCCL" if card.gpu.processes is not None else _BEFORE)
    parts = [*fixed, *([context] if context else []), *own, *_since(base, card, context)]
    parts = [*parts, *(_idle(card) if card.idle.known else [part for part in base.parts if part.free])]
    led = Ledger(
        device=f"{card.name}{rank}",
        whole=whole,
        parts=tuple(parts),
        usable=base.usable,
        held=_held(card, claim.pids),
        server=base.server,
        unknown=tuple(_unknown(card)),
        remarks=(*base.remarks, *([said] if said else []), *_remarks(card, claim)),
    )
    return _with_transient(led)


def _other_card(base: Ledger, card: Card) -> Ledger:
    """More was free when the engine began than this card has."""
    assert base.usable is not None
    said = (
        f"{card.name} has {card.total.number / GIB:,.2f} GiB, and {base.usable.number / GIB:,.2f} GiB were free when"
        " this server began: it runs on another GPU"
    )
    return replace(_without_card(base), remarks=(*base.remarks, said))


def _without_total(base: Ledger, card: Card, claim: Claim, rank: str) -> Ledger:
    """The driver of a GPU that shares the host's memory tells no total: the whole stays what the engine found."""
    unknown = (*(f for f in base.unknown if f.name not in ("total", "idle now")), *_unknown(card))
    others = "; ".join(
        f"process {p.pid} {p.name}".strip() + f" holds {(p.used_bytes or 0) / MIB:,.0f} MiB besides"
        for p in card.gpu.processes or ()
        if p.pid not in claim.pids and p.used_bytes
    )
    remarks = (*base.remarks, *_remarks(card, claim), _NO_TOTAL, *([others] if others else []))
    return replace(
        base, device=f"{card.name}{rank}", held=_held(card, claim.pids), unknown=unknown, remarks=tuple(remarks)
    )


def _of_this_run(card: Card, claim: Claim, own: Sequence[Part]) -> tuple[Card, str]:
    """Says it where the driver counts less for the server's processes than its parts make up. Where it counts less than
    half, nothing of it but the size of the card is of this run.
    """
    ours = sum(part.size.least for part in own if part.name != _TRANSIENT)
    held = _held(card, claim.pids)
    counted = held or card.size("used", card.gpu.used_bytes)
    if not counted.known or counted.most + _ANOTHER_RUN >= ours:
        return card, ""
    whose = "for its processes" if held else "in use"
    said = f"the driver counts {counted.number / GIB:,.2f} GiB {whose}, and its start took {ours / GIB:,.2f} GiB:"
    if 2 * counted.most >= ours:
        return card, f"{said} the two are not of one run, and what is idle now is not what this start left"
    gpu = card.gpu._replace(used_bytes=None, free_bytes=None, processes=None)
    return card._replace(gpu=gpu), f"{said} the two are not of one run, so only the size of the GPU counts"


def _with_transient(led: Ledger) -> Ledger:
    """The activation peak is taken in a full step only: where the rest leaves no room for it, it lies in what is idle,
    and is not counted beside it.
    """
    peak, idle = led.part(_TRANSIENT), next(iter(led.free), None)
    if peak is None or idle is None or led.unaccounted.most >= 0:
        return led
    inside = replace(idle, of_it=(replace(peak, name=f"kept for the {_TRANSIENT}"),))
    return replace(led, parts=tuple(inside if part is idle else part for part in led.parts if part is not peak))


def _since(base: Ledger, card: Card, context: Part | None) -> Iterator[Part]:
    """What went of the card since the start had ended. Told only where nothing else can have taken it."""
    left = next((part for part in base.free if part.name == "free at the end of the start"), None)
    if left is None or context is None or card.gpu.processes is None or not card.idle.known:
        return
    size = less("since_start", left.size, [card.idle], _SINCE)
    if size.least > 0:
        yield Part("taken since the start", size, why=_SINCE)


def _driver(card: Card) -> Iterator[Part]:
    kept = card.size("driver", card.gpu.reserved_bytes)
    if kept.known and kept.number:
        yield Part("driver", kept, why="kept back by the driver")


def _idle(card: Card) -> Iterator[Part]:
    if card.idle.known:
        yield Part("idle", card.idle, free=True)


def _others(card: Card, pids: frozenset[int]) -> Iterator[Part]:
    for process in card.gpu.processes or ():
        held = card.size(f"process {process.pid}", process.used_bytes)
        if process.pid not in pids and held.known:
            yield Part(f"process {process.pid} {process.name}".strip(), held, why="another process")


def _unknown(card: Card) -> Iterator[Figure]:
    """What the driver does not tell."""
    if not card.idle.known:
        yield card.idle
    for process in card.gpu.processes or ():
        if process.used_bytes is None:
            yield missing(f"process {process.pid} {process.name}".strip(), "bytes", "the driver does not tell its size")


def _context(base: Ledger, whole: Figure, fixed: Sequence[Part], name: str) -> Part | None:
    """What the engine's own set-up took before the weights: its CUDA context and NCCL buffers, and what others held
    where no processes are told. None where the others came after it, so that the difference tells nothing.
    """
    if not whole.known or base.usable is None or not base.usable.known:
        return None
    size = less("context", whole, [*(part.size for part in fixed), base.usable], _CONTEXT)
    return Part(name, size, why=_CONTEXT) if size.number > 0 else None


def _remarks(card: Card, claim: Claim) -> Iterator[str]:
    if claim.remark:
        yield claim.remark
    yield from _of_bare(card)


def _of_bare(card: Card) -> Iterator[str]:
    if card.total.known and card.gpu.processes is None:
        yield _UNTOLD
    if card.total.known and not card.idle.known:
        yield _IDLE_INSIDE
    if isinstance(card.item.content, Gpus) and card.item.content.remark:
        yield card.item.content.remark


def _held(card: Card, pids: frozenset[int]) -> Figure | None:
    """What the driver counts for the server's processes on this card; None where it does not tell all of them."""
    sizes = [card.size(f"process {p.pid}", p.used_bytes) for p in card.gpu.processes or () if p.pid in pids]
    return added("held", sizes, "as the driver counts") if sizes and all(size.known for size in sizes) else None


def _bare(card: Card) -> Ledger:
    """A card of which no server was found: what is in use, as far as its processes are told, and what is idle."""
    others, used = [*_others(card, frozenset())], card.size("used", card.gpu.used_bytes)
    if used.known and not others:
        others = [Part("in use", used, why="by whom is not told")]
    parts = (*_driver(card), *others, *_idle(card))
    return Ledger(card.name, card.total, parts, unknown=tuple(_unknown(card)), remarks=tuple(_of_bare(card)))


def _sliced(card: Card, slices: Sequence[Card]) -> Ledger:
    """A GPU whose memory is shared out: its processes and what is idle stand with its slices, and not here too."""
    shares = [Part(c.gpu.mig, c.total, why="stands on its own") for c in slices if c.total.known]
    return Ledger(card.name, card.total, (*_driver(card), *shares), remarks=(_OF_SLICES,))
