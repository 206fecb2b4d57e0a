"""What is on tap, on the screen: what the lever buys, what else gives memory back, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..capacity.ledger_tap import OnTap, Setting, Way
from ..engines.ledger import Account
from ..figure import Figure
from .memory_model import Buys, Memory
from .memory_words import LABEL, Scale, in_words, scale_of
from .page import Column, Page
from .words import plain, value_of

_WIDE = 0.02  # of a value: a range from there on is shown in the table too
_UNCHECKED = "not checked here: nothing that was read states another pool to hold the formula against"


def print_tap(page: Page, account: Account, memory: Memory) -> None:
    tap, buys = account.tap, memory.buys[account.server.name]
    page.heading(f"On tap, {account.server.name}" if len(memory.accounts) > 1 else "On tap")
    if tap.unknown:
        page.say((f"{tap.lever}: {tap.unknown}".removeprefix(": "), ""), indent=2)
    for line in _headline(account, memory):
        page.say((line, ""), indent=2)
    for line in tap.warns:
        page.say((line, "yellow"), indent=2)
    if len(tap.settings) > 1 or (tap.settings and tap.lever == "-c"):
        _settings(page, tap, buys, scale_of(account.ledgers[0]))
        for line in _unmoved(tap, buys):
            page.say((line, ""), indent=2)
    for line in (*_checked(tap), *tap.says):
        page.say((line, "dim"), indent=2)
    _ways(page, account)


def _headline(account: Account, memory: Memory) -> Iterator[str]:
    """What is idle, and what a hundredth buys."""
    tap = account.tap
    if not account.ledgers:
        return
    scale = scale_of(account.ledgers[0])
    if tap.left is not None:
        yield f"{scale.told(tap.left)} {scale.unit} {_idle(account, tap.left)}" + (
            ", on the GPU with least left" if len(account.ledgers) > 1 else ""
        )
    if tap.each is not None:
        yield f"+0.01 of {tap.lever} buys {value_of(tap.each)} {tap.each.unit} (predicted)"
    if tap.best is not None and tap.now is not None:
        yield _advice(tap, tap.best, scale, memory.margin)


def _idle(account: Account, left: Figure) -> str:
    """What kind of idle it is, of the GPU that decides."""
    free = next((led.free[0] for led in account.ledgers if led.left == left), None)
    name = free.name if free is not None else "idle"
    kept = (
        f", with {' and '.join(part.name for part in free.of_it)} left out" if free is not None and free.of_it else ""
    )
    return ("idle now" if name == "idle" else f"idle: {name}") + kept


def _advice(tap: OnTap, best: Setting, scale: Scale, margin: int) -> str:
    kept = [f"{scale.told(figure)} {scale.unit} of {figure.name.replace('_', ' ')}" for figure in tap.grows[1:]]
    beside = f" beside {', '.join(kept)}" if kept else ""
    now, value = tap.now.number if tap.now is not None else 0, _typed(best.value)
    asked, pool = f"a margin of {in_words(margin)}{beside}", f"{value_of(best.pool)} {best.pool.unit}"
    if best.value > now:
        return (
            f"{tap.lever} {value} is the most that leaves {asked}: {pool}, and {scale.told(best.left)}"
            f" {scale.unit} left (predicted)"
        )
    if best.value == now:
        return f"{tap.lever} {_typed(now)} is as high as it can be with {asked}"
    return f"less than {asked} is left: {tap.lever} {value} leaves it, with {pool} (predicted)"


def _typed(value: int | float) -> str:
    """As it is typed behind a flag."""
    return plain(value).replace(",", "")


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
            _typed(setting.value) + (" now" if tap.now is not None and setting.value == tap.now.number else ""),
            _pool(setting.pool),
            scale.told(setting.left),
            *(value_of(found.safe[setting.value]) for found in buys),
        )
        for setting in tap.settings
    ]
    page.table(columns, rows)


def _pool(pool: Figure) -> str:
    """The likeliest value; the range where it is more than a page or the rounding of a line."""
    if pool.most - pool.least <= _WIDE * pool.number:
        return f"{pool.number:,.0f}"
    return f"{pool.least:,.0f} to {pool.most:,.0f}"


def _unmoved(tap: OnTap, buys: Sequence[Buys]) -> Iterator[str]:
    """Lengths of which a larger pool holds no more, for something else binds."""
    if len(tap.settings) < 2 or tap.lever == "-c":
        return
    for found in buys:
        first, last = (found.safe[setting.value] for setting in (tap.settings[0], tap.settings[-1]))
        if first.known and last.known and first.number == last.number and first.number > 0:
            yield (
                f"at {found.label}, a larger pool holds no more requests: another limit binds at {value_of(first)}"
                " (ullage limits names it)"
            )


def _checked(tap: OnTap) -> Iterator[str]:
    """How the formula does where the answer is known."""
    if tap.settings and not tap.checks and tap.lever != "-c":
        yield _UNCHECKED
    for check in tap.checks:
        error = f"{check.error:+.3%}" if check.predicted.value != check.stated.value else "exact"
        said, stated = (
            f"{value_of(f)} {f.unit}" if f.unit != "bytes" else f"{f.number / 2**30:,.2f} GiB"
            for f in (check.predicted, check.stated)
        )
        yield f"checked on {check.of}: the formula gives {said}, stated {stated} ({error})"


def _ways(page: Page, account: Account) -> None:
    tap = account.tap
    if not account.ledgers:
        return
    scale = scale_of(account.ledgers[0])
    for figure in tap.grows:
        size = f"{scale.told(figure)} {scale.unit}"
        page.fact("grows with context", f"{figure.name.replace('_', ' ')}, {size} ({figure.note})", LABEL)
    if not tap.ways:
        return
    page.say(("What else gives memory back (predicted):", ""), indent=2)
    for way in tap.ways:
        page.say((f"{way.what}: {_gives(way, tap, scale)}; {way.price}", ""), indent=4, hang=2)


def _gives(way: Way, tap: OnTap, scale: Scale) -> str:
    """`+0.31 GiB, which buy 20,924 tokens by a higher fraction`; `+995,072 tokens, 2,627,072 in all`."""
    if way.gives.unit != "bytes":
        whole = f", {tap.pool.count + way.gives.count:,} in all" if tap.pool is not None else ""
        return f"{way.gives.count:+,} {way.gives.unit}{whole}"
    size = f"+{scale.told(way.gives)} {scale.unit}"
    if way.worth is None or not way.worth.count:
        return size
    return f"{size}, which buys about {value_of(way.worth)} {way.worth.unit} {way.by}"
