"""The screen an operator pastes into a chat: who runs, how many requests fit, what is in use, what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..deployment import reach_of, total_context
from ..engines.server import Role, Server, Setting
from ..figure import Kind
from ..findings.base import Confidence, Finding, Severity
from .model import Report
from .page import Column, Page, Part
from .rows import Row, consequences, grouped, not_read, rows_of, sums, usage_rows
from .sources import source_lines
from .topology import LETTERS, tree
from .words import mark_of, told, value_of, with_unit

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_LABEL = 23  # columns of a label and the space after it
_PLOTTED = 60  # columns of a terminal from which on the limits are plotted
_FINEST_PLOTTED = 1.03  # a column of a plot is wider than this
_EVIDENCE_SHOWN = 4  # figures of a finding on the screen; the JSON has all


def print_report(report: Report, *, sources: bool = False, plot: bool | None = None, history: bool = False) -> None:
    """`plot`: draw the limits too; None where the page is a terminal that is wide enough. `history`: earlier starts."""
    page = Page()
    for echo in report.echoes:
        page.say((echo, "dim"))
    for line in tree(report.deployment, letters=page.on_terminal and page.can_show(LETTERS)):
        page.say((line.lead, "dim"), (line.text, "bold" if line.strong else "dim"), hang=len(line.lead) + 2)
    if report.answers:
        wanted = page.on_terminal and page.width >= _PLOTTED if plot is None else plot
        shows = page.can_show("█░")
        _limits(page, report, wanted and shows, bool(plot) and shows)
        if plot and not shows:
            page.say(("no plot: the locale or the encoding of the output has no block characters (UTF-8 has)", "dim"))
    for server in report.deployment.servers:
        _server(page, server)
        if history and server.role is not Role.ROUTER:
            _history(page, server)
    _findings(page, report.findings)
    _not_read(page, report)
    if sources:
        _sources(page, report)
    page.show()


def _limits(page: Page, report: Report, plot: bool, asked: bool) -> None:
    for part in report.deployment.parts:
        if part.no_chain:
            page.say((part.no_chain, "dim"))
    plots = _plots(report, page.width) if plot else {}
    for title, rows in rows_of(report):
        page.heading(title)
        _limit_table(page, rows)
        page.draw(plots.get(title, ()))
        if asked and not plots.get(title):
            page.say(("no plot: one number holds at all lengths, or none is known", "dim"), indent=2)
        for line in (*sums(rows, report.asked), *consequences(rows)):
            page.say((line, "dim"), indent=2)


def _plots(report: Report, width: int) -> dict[str, Sequence[Sequence[Part]]]:
    """The plot of each table, by its title."""
    from .curve import curves_of
    from .plot import plot

    titles = [title for title, _ in rows_of(report)]
    curves = curves_of(report.deployment, _FINEST_PLOTTED)
    return {title: plot(curve, width) for title, curve in zip(titles, curves, strict=True)}


def _limit_table(page: Page, rows: Sequence[Row]) -> None:
    chain = any(row.in_prefill for row in rows)
    names = ("prompt (+ output)", "admits", "safe", *(("in prefill",) if chain else ()))
    columns = [*(Column(name, right=True) for name in names), Column("binds")]
    page.table(
        columns,
        [(row.label, row.admits, row.safe, *((row.in_prefill,) if chain else ()), row.binds) for row in rows],
    )


def _server(page: Page, server: Server) -> None:
    page.heading(f"{server.role.value if server.role is not Role.UNKNOWN else 'server'}: {server.name}")
    if server.role is not Role.ROUTER:
        _setting_table(page, server)
    else:
        for setting in server.settings:
            page.fact(setting.label, with_unit(setting.requested), _LABEL)
    for label, value in _facts(server):
        page.fact(label, value, _LABEL)


def _history(page: Page, server: Server) -> None:
    from .history import starts_of

    columns, rows = starts_of(server)
    page.heading(f"Starts of {server.name}")
    if rows:
        page.table(columns, rows)
    else:
        page.say(("no earlier start is known", "dim"))


def _setting_table(page: Page, server: Server) -> None:
    columns = [Column(""), Column("asked for", right=True), Column("in effect", right=True), Column("")]
    shown = [s for s in server.settings if _is_stated(s)]
    rows = [(s.label, value_of(s.requested), value_of(s.effective), _mark(s)) for s in shown]
    if rows:
        page.table(columns, rows, [(_mark(s), "yellow" if s.differs else "dim") for s in shown])
    reasons: dict[str, list[str]] = {}
    for setting in server.settings:
        if setting not in shown:
            reasons.setdefault(setting.requested.note.removeprefix("not set: "), []).append(setting.label)
    if reasons:
        told = "; ".join(f"{', '.join(labels)} ({reason})" for reason, labels in reasons.items())
        page.fact("not stated", told, _LABEL)


def _is_stated(setting: Setting) -> bool:
    """A default tells something only where the arguments are shown, and do not set it."""
    asked, effective = setting.requested, setting.effective
    if effective.kind is Kind.DEFAULT:
        return asked.known or asked.note.startswith("not set")
    return asked.known or effective.known


def _mark(setting: Setting) -> str:
    """That it differs, and why; else that it is no reading."""
    if setting.differs:
        return f"<- {setting.why or 'differs'}"
    return mark_of(setting.effective) if setting.effective.known else ""


def _facts(server: Server) -> Iterable[tuple[str, str]]:
    if server.role is not Role.ROUTER:
        yield "longest request", _longest(server)
        yield "total context", _total(server)
        if server.role is not Role.PREFILL:
            yield "default output", _default_output(server)
    yield from usage_rows(server)
    if server.host and server.host.environment:
        yield "environment", " ".join(f"{name}={value}" for name, value in server.host.environment.items())
    for note in server.notes:
        yield "note", note


def _total(server: Server) -> str:
    total = total_context(server)
    return with_unit(total) + (f", {total.note}" if total.note.startswith("in full-length") else "")


def _default_output(server: Server) -> str:
    output = server.default_output
    return f"{value_of(output)} when a client names none" if output.known else f"not known ({output.note})"


def _longest(server: Server) -> str:
    reach = reach_of(server)
    if reach.ceiling is None:
        return f"{with_unit(reach.tokens)} ({reach.tokens.note})"
    asked = " that was asked for" if reach.ceiling.tokens.note.startswith("as asked for") else ""
    perhaps = f"; {reach.perhaps.tokens.count:,} if the {reach.perhaps.what} caps it" if reach.perhaps else ""
    return f"{with_unit(reach.tokens)}, by the {reach.ceiling.what}{asked}{perhaps}"


def _findings(page: Page, findings: Sequence[Finding]) -> None:
    groups = grouped(findings)
    page.heading(f"Findings ({len(groups)})" if groups else "Findings: none")
    for found in groups:
        first, where = found[0], ", ".join(finding.where for finding in found)
        sure = "" if first.confidence is Confidence.HIGH else f" ({first.confidence.value} confidence)"
        page.say((first.severity.value, _STYLES[first.severity]), (f" {first.id}", "bold"), (f"{sure}  {where}", ""))
        page.say((first.says, ""), indent=2)
        page.say((f"-> {first.advice}", ""), indent=2)
        for figure in first.evidence[:_EVIDENCE_SHOWN]:
            page.say((told(figure), "dim"), indent=4)


def _not_read(page: Page, report: Report) -> None:
    if lines := not_read(report):
        page.heading("Not read")
        for line in lines:
            page.say((line, ""), indent=2)


def _sources(page: Page, report: Report) -> None:
    page.heading("Sources")
    for line in source_lines(report):
        words = line.lstrip()
        page.say((words, ""), indent=len(line) - len(words), hang=6)
