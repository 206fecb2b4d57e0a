"""Where each GPU's memory went and what is on tap, on the screen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..capacity.ledger import UNACCOUNTED, Ledger, Part
from ..capacity.ledger_sums import added
from ..capacity.ledger_tap import OnTap, Setting
from ..engines.ledger import Account
from ..figure import Figure
from .memory_model import Buys, Memory
from .memory_words import Scale, in_words, is_reckoned, scale_of
from .page import Column, Page
from .rows import identity
from .sources import Trees as Trees
from .words import plain, value_of, with_unit

_LABEL = 23  # columns of a label and the space after it
_ALIKE = 0.2 * 2**30  # bytes: GPUs of a server that differ by no more are shown as one
_WIDE = 60  # columns from which on a share of the whole is shown
_OVERLAP = "the figures overlap by that much: two of them count the same memory"


def print_memory(memory: Memory, *, sources: bool = False) -> None:
    page = Page()
    for echo in memory.echoes:
        page.say((echo, "dim"))
    for account in memory.accounts:
        page.say((identity(account.server), "bold"))
    for account in memory.accounts:
        many = len(memory.accounts) > 1
        for ledgers in _alike(account.ledgers):
            _ledger(page, ledgers, account.server.name if many else "")
        _on_tap(page, account, memory)
    for ledger in memory.unserved:
        _ledger(page, [ledger], "")
    _not_read(page, memory)
    if sources:
        _sources(page, memory)
    page.show()


def _alike(ledgers: Sequence[Ledger]) -> list[list[Ledger]]:
    """GPUs that differ by little together, the one with least free first: it decides."""
    groups: list[list[Ledger]] = []
    for ledger in sorted(ledgers, key=lambda led: led.free[0].size.number if led.free else 0):
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
    rows += [_rest(first, scale)] if first.whole.known else [_together(first, scale)]
    if first.whole.known:
        rows.append((first.of_whole, scale.told(first.whole), "100%", scale.range_of(first.whole)))
    if page.width < _WIDE:
        columns, rows = [columns[n] for n in (0, 1, 3)], [(row[0], row[1], row[3]) for row in rows]
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
        names = ", ".join(sorted(re.sub(r" \(.*\)", "", led.device) for led in ledgers[1:]))
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


def _on_tap(page: Page, account: Account, memory: Memory) -> None:
    tap = account.tap
    many = len(memory.accounts) > 1
    page.heading(f"On tap, {account.server.name}" if many else "On tap")
    if tap.unknown:
        page.say((f"{tap.lever}: {tap.unknown}".removeprefix(": "), ""), indent=2)
    for line in _headline(account, memory):
        page.say((line, ""), indent=2)
    if len(tap.settings) > 1 or (tap.settings and tap.lever == "-c"):
        _settings(page, tap, memory.buys[account.server.name], _scale(account))
    for line in (*_checked(tap), *tap.says):
        page.say((line, "dim"), indent=2)
    _ways(page, account)


def _scale(account: Account) -> Scale:
    return scale_of(account.ledgers[0])


def _headline(account: Account, memory: Memory) -> Iterator[str]:
    """What is idle, and what a hundredth buys."""
    tap, scale = account.tap, _scale(account) if account.ledgers else None
    if scale is None:
        return
    if tap.left is not None:
        name = account.ledgers[0].free[0].name if account.ledgers[0].free else "idle"
        told = "idle now" if name == "idle" else f"idle: {name}"
        yield f"{scale.told(tap.left)} {scale.unit} {told}" + (
            ", on the GPU with least left" if len(account.ledgers) > 1 else ""
        )
    if tap.each is not None:
        yield f"+0.01 of {tap.lever} buys {value_of(tap.each)} {tap.each.unit} (predicted)"
    if tap.best is not None and tap.now is not None:
        yield _advice(tap, tap.best, scale, memory.margin)


def _advice(tap: OnTap, best: Setting, scale: Scale, margin: int) -> str:
    kept = [f"{scale.told(figure)} {scale.unit} of {figure.name.replace('_', ' ')}" for figure in tap.grows[1:]]
    beside = f" beside {', '.join(kept)}" if kept else ""
    now = tap.now.number if tap.now is not None else 0
    asked = f"a margin of {in_words(margin)}{beside}"
    if best.value > now:
        return (
            f"{tap.lever} {plain(best.value)} is the most that leaves {asked}: {value_of(best.pool)}"
            f" {best.pool.unit}, and {scale.told(best.left)} {scale.unit} left (predicted)"
        )
    if best.value == now:
        return f"{tap.lever} {plain(now)} is as high as it can be with {asked}"
    return (
        f"less than {asked} is left: {tap.lever} {plain(best.value)} leaves it, with {value_of(best.pool)} (predicted)"
    )


def _settings(page: Page, tap: OnTap, buys: Sequence[Buys], scale: Scale) -> None:
    unit = tap.settings[0].pool.unit
    columns = [
        Column("at"),
        Column(unit, right=True),
        Column(f"{scale.unit} left", right=True),
        *(Column(f"safe at {found.label}", right=True) for found in buys),
    ]
    rows = [
        (
            plain(setting.value) + (" now" if tap.now is not None and setting.value == tap.now.number else ""),
            f"{setting.pool.number:,.0f}",
            scale.told(setting.left),
            *(value_of(found.safe[setting.value]) for found in buys),
        )
        for setting in tap.settings
    ]
    page.table(columns, rows)


def _checked(tap: OnTap) -> Iterator[str]:
    """How the formula does where the answer is known."""
    for check in tap.checks:
        error = f"{check.error:+.3%}" if check.predicted.value != check.stated.value else "exact"
        unit = check.stated.unit
        told = (
            f"{value_of(f)} {unit}" if unit != "bytes" else f"{f.number / 2**30:,.2f} GiB"
            for f in (check.predicted, check.stated)
        )
        said, stated = told
        yield f"checked on {check.of}: the formula gives {said}, stated {stated} ({error})"


def _ways(page: Page, account: Account) -> None:
    tap, scale = account.tap, _scale(account) if account.ledgers else None
    for figure in tap.grows:
        if scale is not None:
            size = f"{scale.told(figure)} {scale.unit}"
            page.fact("grows with context", f"{figure.name.replace('_', ' ')}, {size} ({figure.note})", _LABEL)
    if not tap.ways or scale is None:
        return
    page.say(("What else gives memory back (predicted):", ""), indent=2)
    for way in tap.ways:
        gives = f"{scale.told(way.gives)} {scale.unit}" if way.gives.unit == "bytes" else with_unit(way.gives)
        page.say((f"{way.what}: +{gives.removesuffix(' (predicted)')}; {way.price}", ""), indent=4, hang=2)


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
