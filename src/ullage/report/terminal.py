"""The screen an operator pastes into a chat: who runs, how many requests fit, what is in use, what is wrong."""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..deployment import reach_of, total_context
from ..engines.server import Role, Server
from ..findings.base import Finding, Severity
from .model import Report
from .rows import Row, consequences, identity, rows_of, sums, usage_rows
from .sources import source_lines
from .words import told, value_of, with_unit

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_WIDEST = 110
_LABEL = 23  # columns of a label and the space after it
_EVIDENCE_SHOWN = 4  # figures of a finding on the screen; the JSON has all


def print_report(report: Report, *, sources: bool = False) -> None:
    """At most 110 columns on a terminal, 80 in a pipe; colours only where they are wanted (NO_COLOR, pipes: none)."""
    page = io.StringIO()
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    console = Console(
        file=page,
        highlight=False,
        width=_width(),
        emoji=False,
        markup=False,
        force_terminal=colours,
        color_system="auto" if colours else None,
    )
    _print(console, report, sources)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in page.getvalue().splitlines()))


def _print(console: Console, report: Report, sources: bool) -> None:
    for echo in report.echoes:
        console.print(Text(echo, style="dim"))
    for server in report.deployment.servers:
        console.print(Text(identity(server), style="bold"))
    if report.answers:
        _limits(console, report)
    for server in report.deployment.servers:
        _server(console, server)
    _findings(console, report.findings)
    _not_read(console, report)
    if sources:
        _heading(console, "Sources")
        for line in source_lines(report):
            _hanging(console, line)


def _hanging(console: Console, line: str) -> None:
    """A line of the tree; what does not fit hangs below it, deeper than its inputs will stand."""
    indent = " " * (len(line) - len(line.lstrip()))
    wrapped = textwrap.wrap(line, console.width, subsequent_indent=f"{indent}      ", break_on_hyphens=False)
    console.print(Text("\n".join(wrapped)))


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return max(40, min(int(columns), _WIDEST))
    try:
        return max(40, min(os.get_terminal_size(1).columns or 80, _WIDEST))
    except OSError:
        return 80


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold underline"))


def _limits(console: Console, report: Report) -> None:
    for title, rows in rows_of(report):
        _heading(console, title)
        console.print(_limit_table(rows))
        for line in (*sums(rows, report.asked), *consequences(rows)):
            console.print(Padding(Text(line, style="dim"), (0, 0, 0, 2)))


def _limit_table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    chain = any(row.in_prefill for row in rows)
    names = ("prompt (+ output)", "admits", "safe", *(("in prefill",) if chain else ()))
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("binds", overflow="fold")
    for row in rows:
        table.add_row(row.label, row.admits, row.safe, *((row.in_prefill,) if chain else ()), row.binds)
    return table


def _server(console: Console, server: Server) -> None:
    _heading(console, f"{server.role.value if server.role is not Role.UNKNOWN else 'server'}: {server.name}")
    if server.role is not Role.ROUTER:
        console.print(_setting_table(server))
    else:
        for setting in server.settings:
            _fact(console, setting.label, with_unit(setting.requested))
    for label, value in _facts(server):
        _fact(console, label, value)


def _setting_table(server: Server) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, right in (("", False), ("asked for", True), ("in effect", True), ("", False)):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for setting in server.settings:
        mark = f"<- {setting.why or 'differs'}" if setting.differs else ""
        table.add_row(
            setting.label, value_of(setting.requested), value_of(setting.effective), Text(mark, style="yellow")
        )
    return table


def _fact(console: Console, label: str, value: str) -> None:
    """A label and its words, the words hanging beside it."""
    lines = textwrap.wrap(value, console.width - _LABEL, break_on_hyphens=False) or [""]
    line = Text(f"{label:<{_LABEL}}", style="dim")
    line.append(f"\n{' ' * _LABEL}".join(lines), style="default")
    console.print(line)


def _facts(server: Server) -> Iterable[tuple[str, str]]:
    if server.role is not Role.ROUTER:
        reach = reach_of(server)
        limit = f", by the {reach.ceiling.what}" if reach.ceiling else f" ({reach.tokens.note})"
        if reach.ceiling and reach.ceiling.tokens.note.startswith("as asked for"):
            limit += " that was asked for"
        yield (
            "longest request",
            with_unit(reach.tokens)
            + limit
            + (f"; {reach.perhaps.tokens.count:,} if the {reach.perhaps.what} caps it" if reach.perhaps else ""),
        )
        yield "total context", with_unit(total_context(server))
        if server.role is not Role.PREFILL:
            yield "default output", f"{value_of(server.default_output)} when a client names none"
    yield from usage_rows(server)
    for note in server.notes:
        yield "note", note


def _findings(console: Console, findings: Sequence[Finding]) -> None:
    """Worst first; the same finding on several servers is told once, with all of them."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.id, finding.says, finding.advice), []).append(finding)
    _heading(console, f"Findings ({len(groups)})" if groups else "Findings: none")
    for found in groups.values():
        head = Text(f"{found[0].severity.value} ", style=_STYLES[found[0].severity])
        head.append(f"{found[0].id}", style="bold")
        head.append("  " + ", ".join(finding.where for finding in found))
        console.print(head)
        console.print(Padding(Text(found[0].says), (0, 0, 0, 2)))
        console.print(Padding(Text(f"-> {found[0].advice}"), (0, 0, 0, 2)))
        for figure in found[0].evidence[:_EVIDENCE_SHOWN]:
            console.print(Padding(Text(told(figure), style="dim"), (0, 0, 0, 4)))


def _not_read(console: Console, report: Report) -> None:
    lines = [
        f"{e.place}: {f.reason}{'; ' + f.advice if f.advice else ''}" for e, f in report.failed if f.status != "404"
    ]
    lines += [f"{u.evidence.place}: {u.reason}" for u in report.unclaimed]
    if absent := _absent(report):
        lines.append("not served: " + ", ".join(absent))
    if lines:
        _heading(console, "Not read")
        for line in lines:
            console.print(Padding(Text(line), (0, 0, 0, 2)))


def _absent(report: Report) -> list[str]:
    """Endpoints that a worker of its kind could serve, and does not. That a router is no worker is nothing to tell."""
    routers = {s.name for s in report.deployment.routers}
    failed = [e for e, f in report.failed if f.status == "404"]
    return [e.place for e in failed if e.origin.target not in routers and e.topic != "workers"]
