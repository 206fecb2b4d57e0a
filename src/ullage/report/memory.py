"""Where each GPU's memory went and what is on tap, on the screen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..capacity.ledger import UNACCOUNTED, Ledger, Part
from ..capacity.ledger_sums import added
from ..figure import Figure
from .memory_model import Memory
from .memory_tap import print_tap
from .memory_words import LABEL as _LABEL
from .memory_words import Scale, is_reckoned, scale_of
from .page import Column, Page
from .rows import identity
from .sources import Trees as Trees

_ALIKE = 0.2 * 2**30  # bytes: GPUs of a server that differ by no more are shown as one
_WIDE = 60  # columns from which on a share of the whole is shown
_OVERLAP = "below zero: something was given back after it was measured, or two figures count the same memory"


def print_memory(memory: Memory, *, sources: bool = False) -> None:
    page = Page()
    for echo in memory.echoes:
        page.say((echo, "dim"))
    for account in memory.accounts:
        page.say((identity(account.server), "bold"))
    many = len(memory.accounts) > 1
    for account in memory.accounts:
        if not account.ledgers and many:
            continue
        for ledgers in _alike(account.ledgers):
            _ledger(page, ledgers, account.server.name if many else "")
        print_tap(page, account, memory)
    _untold(page, memory)
    for ledgers in _alike(memory.unserved):
        _ledger(page, ledgers, "")
    _not_read(page, memory)
    if sources:
        _sources(page, memory)
    page.show()


def _untold(page: Page, memory: Memory) -> None:
    """Servers of whose memory nothing is told, together, by what would tell it."""
    if len(memory.accounts) < 2:
        return
    reasons: dict[str, list[str]] = {}
    for account in memory.accounts:
        if not account.ledgers:
            reasons.setdefault(account.tap.unknown, []).append(account.server.name)
    if reasons:
        page.heading("Nothing told of")
    for reason, names in reasons.items():
        page.say((f"{', '.join(names)}: {reason}", ""), indent=2)


def _alike(ledgers: Sequence[Ledger]) -> list[list[Ledger]]:
    """GPUs that differ by little together, the one with least free first: it decides. Last what has no known whole, as
    the host's memory.
    """
    groups: list[list[Ledger]] = []
    for ledger in sorted(ledgers, key=lambda led: (not led.whole.known, led.free[0].size.number if led.free else 0)):
        near = (group for group in groups if ledger.differs(group[0]) <= _ALIKE)
        group = next(near, None)
        if group is None:
            groups.append([ledger])
        else:
            group.append(ledger)
    return groups


def _ledger(page: Page, ledgers: Sequence[Ledger], server: str) -> None:
    first, scale = ledgers[0], scale_of(ledgers[0])
    page.heading(f"Memory, {server}, {first.device}" if server else f"Memory of {first.device}")
    columns = [Column("part"), Column(scale.unit, right=True), Column("of all", right=True), Column("")]
    rows: list[tuple[str, ...]] = [line for part in first.parts for line in _lines(part, first, scale, 0)]
    rows += [_rest(first, scale)] if first.whole.known else [_together(first, scale)] if rows else []
    if first.whole.known:
        rows.append((first.of_whole, scale.told(first.whole), "100%", scale.range_of(first.whole)))
    if page.width < _WIDE:
        columns, rows = [columns[n] for n in (0, 1, 3)], [(row[0], row[1], row[3]) for row in rows]
    if rows:
        page.table(columns, rows, [(UNACCOUNTED, "yellow"), (first.of_whole, "bold")])
    _below(page, ledgers, scale)


def _row(part: Part, ledger: Ledger, scale: Scale, depth: int) -> tuple[str, str, str, str]:
    """One line. What stands below another is of it, and is not counted again."""
    name = f"{'. ' * depth}{part.name}"
    share = _share(part, ledger) if not depth else ""
    told = ", ".join(filter(None, (scale.range_of(part.size), "derived" if is_reckoned(part.size) else "")))
    return name, scale.told(part.size), share, told


def _lines(part: Part, ledger: Ledger, scale: Scale, depth: int) -> Iterator[tuple[str, str, str, str]]:
    yield _row(part, ledger, scale, depth)
    for inner in part.of_it:
        yield from _lines(inner, ledger, scale, depth + 1)


def _share(part: Part, ledger: Ledger) -> str:
    return f"{part.size.number / ledger.whole.number:.0%}" if ledger.whole.known and ledger.whole.number else ""


def _rest(ledger: Ledger, scale: Scale) -> tuple[str, str, str, str]:
    rest = ledger.unaccounted
    share = f"{rest.number / ledger.whole.number:.0%}" if ledger.whole.number else ""
    return UNACCOUNTED, scale.told(rest), share.replace("-0%", "0%"), scale.range_of(rest)


def _together(ledger: Ledger, scale: Scale) -> tuple[str, str, str, str]:
    """The sum of what is known, where the whole is not."""
    total = added("together", [part.size for part in ledger.parts])
    return "together", scale.told(total), "", scale.range_of(total)


def _below(page: Page, ledgers: Sequence[Ledger], scale: Scale) -> None:
    first = ledgers[0]
    if first.unaccounted.known and first.unaccounted.most < 0:
        page.fact("unaccounted", _OVERLAP, _LABEL)
    if first.usable is not None and first.usable.known and first.usable != first.whole:
        page.fact("usable", f"{scale.told(first.usable)} {scale.unit} were free when the engine began", _LABEL)
    if first.held is not None:
        page.fact("its processes", f"{scale.told(first.held)} {scale.unit}, as the driver counts", _LABEL)
    if len(ledgers) > 1:
        most = max(led.differs(first) for led in ledgers[1:]) / 2**30
        names = ", ".join(sorted(re.sub(r" \(.*\)|,", "", led.device) for led in ledgers[1:]))
        page.fact("the same within", f"{most:,.2f} GiB a line: {names} (--json has each)", _LABEL)
    reasons: dict[str, list[str]] = {}
    for figure in first.unknown:
        reasons.setdefault(figure.note, []).append(figure.name)
    for note, names_of in reasons.items():
        page.fact("not known", f"{' and '.join(names_of)}: {note}", _LABEL)
    for remark in first.remarks:
        page.fact("note", remark, _LABEL)
    if not first.whole.known:
        page.fact("not known", f"total, and so what is unaccounted: {first.whole.note}", _LABEL)


def _not_read(page: Page, memory: Memory) -> None:
    lines = [
        f"{e.place}: {f.reason}{'; ' + f.advice if f.advice else ''}" for e, f in memory.failed if f.status != "404"
    ]
    lines += [f"{u.evidence.place}: {u.reason}" for u in memory.unclaimed]
    if lines:
        page.heading("Not read")
        for line in lines:
            page.say((line, ""), indent=2)


def _sources(page: Page, memory: Memory) -> None:
    page.heading("Sources")
    trees = Trees()
    for account in memory.accounts:
        for ledger in account.ledgers:
            for line in trees.under(f"{ledger.device} of {ledger.server}", "", _figures(ledger)):
                _source(page, line)
        tap = account.tap
        figures = [f for f in (tap.now, tap.pool, tap.left, tap.each, tap.best and tap.best.pool) if f is not None]
        for line in trees.under(f"on tap of {account.server.name}", "", [*figures, *(w.gives for w in tap.ways)]):
            _source(page, line)
    for ledger in memory.unserved:
        for line in trees.under(ledger.device, "", _figures(ledger)):
            _source(page, line)


def _figures(ledger: Ledger) -> list[Figure]:
    every = [found for part in ledger.parts for found in (part, *part.within())]
    return [ledger.whole, *(part.size for part in every), ledger.unaccounted]


def _source(page: Page, line: str) -> None:
    words = line.lstrip()
    page.say((words, ""), indent=len(line) - len(words), hang=6)
