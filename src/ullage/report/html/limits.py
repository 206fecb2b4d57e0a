"""How many requests fit at what length: the curve, its table, and what happens beyond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..curve import Curve
from ..model import Report
from ..rows import Row, consequences, rows_of, sums
from .chart import Mark, chart, no_curve, pool_in
from .headline import whose
from .markup import Html, joined, prose, tag
from .numbers import Numbers


def limits_section(report: Report, curves: Sequence[Curve], looks: dict[str, int], numbers: Numbers) -> Html:
    """One curve and one table of a chain; else of each server."""
    tables = [rows for _, rows in rows_of(report)] if report.answers else []
    parts = (
        joined(tag("h3", name) if name else Html(""), _limits(curve, rows, report.asked, looks, numbers))
        for name, rows, curve in zip(whose(report), tables, curves, strict=True)
    )
    nothing = [tag("p", "Only a router was read: it holds nothing itself. --follow reads its workers too.")]
    deployments = report.deployment.parts
    small = tag("small", ", prefill to decode") if all(part.is_chain for part in deployments) else ""
    apart = [tag("p", part.no_chain) for part in deployments if part.no_chain]
    return tag("section", tag("h2", "Parallel requests", small), *apart, *(parts if tables else nothing), id="limits")


def _limits(curve: Curve, rows: Sequence[Row], asked: Sequence[str], looks: dict[str, int], numbers: Numbers) -> Html:
    picture = chart(curve, list(_marks(rows)), looks) if not curve.is_flat else no_curve(curve)
    remarks = [*sums(rows, asked), *consequences(rows)]
    told = tag("ul", *(tag("li", prose(remark)) for remark in remarks), class_="remarks") if remarks else Html("")
    return tag("div", picture, tag("div", _table(rows, looks, numbers), told), class_="limits")


def _marks(rows: Sequence[Row]) -> Iterator[Mark]:
    """Rows that lie on the curve: prompts without output, as the curve is drawn for."""
    for row in rows:
        if row.found and row.found.admits.known and row.prompt and "+" not in row.label:
            yield Mark(row.prompt, row.found.admits.count, row.label)


def _table(rows: Sequence[Row], looks: dict[str, int], numbers: Numbers) -> Html:
    chain = any(row.in_prefill for row in rows)
    names = ("prompt (+ output)", "admits", "safe", *(("in prefill",) if chain else ()))
    head = [tag("th", name, scope="col", class_="num") for name in names]
    head.append(tag("th", "binds", scope="col"))
    body = (_row(row, chain, looks, numbers) for row in rows)
    return tag("div", tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body)), class_="scroll")


def _row(row: Row, chain: bool, looks: dict[str, int], numbers: Numbers) -> Html:
    found = row.found
    assert found is not None
    cells = [
        tag("th", row.label, scope="row", class_="num", title=row.why or None),
        tag("td", numbers.show(found.admits, row.admits), class_="num admits-cell"),
        tag("td", numbers.show(found.safe, row.safe), class_="num"),
    ]
    if chain:
        in_prefill = getattr(found, "in_prefill", None)
        cells.append(tag("td", numbers.show(in_prefill, row.in_prefill) if in_prefill else "", class_="num"))
    look = looks.get(pool_in(row.binds))
    swatch = tag("i", class_=f"swatch b{look}") if look is not None else Html("")
    return tag("tr", *cells, tag("td", swatch, row.binds))
